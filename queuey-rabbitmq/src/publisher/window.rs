//! What is under way on one channel: published in a row, confirmed in any order, each caller answered as soon as it is
//! certain what to. As confirms come in, there is room for more.

use std::{
    collections::HashSet,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use lapin::{Channel, Confirmation, options::BasicPublishOptions, types::ShortString};
use queuey_core::Error;
use tokio_util::sync::ReusableBoxFuture;
use uuid::Uuid;

use super::{
    matching::{Matching, Seen, Verdict},
    request::Request,
};
use crate::message::Message;

/// The most messages under way. The broker lets a channel have 400 messages that a queue has not taken, grants the next
/// 200 when it has 200 of them, and then reads no more from the whole connection: what is under way to a queue that takes
/// nothing must stay below that, or no other channel gets through.
pub(super) const MAX_MESSAGES: usize = 200;

/// The most bytes under way, bodies only.
const MAX_BYTES: usize = 1024 * 1024;

/// A body above this has the channel for itself.
const LARGE: usize = 64 * 1024;

/// A publish until its confirm, in a box that is used again: it takes a kilobyte, for each message.
type Confirming = ReusableBoxFuture<'static, lapin::Result<Confirmation>>;

struct Publish {
    request: Request,
    confirming: Confirming,
    since: Instant,
}

/// The publishes under way on one channel.
pub(super) struct Window {
    publishes: Matching<Publish>,
    load: Load,
    spare: Vec<Confirming>,
    /// What the channel died of.
    error: Option<lapin::Error>,
}

/// What a window is left with.
pub(super) struct Left {
    /// They may have arrived; their callers wait.
    pub(super) unknown: Vec<Request>,
    /// What the channel died of, where it did.
    pub(super) error: Option<lapin::Error>,
    /// Whether no other message was under way on the channel.
    pub(super) sole: bool,
}

/// How much is under way, and of what.
#[derive(Default)]
pub(super) struct Load {
    messages: usize,
    bytes: usize,
    /// Two copies of a job are not under way at once: the return of one could not be told from that of the other.
    jobs: HashSet<Uuid>,
    /// Nothing may be beside what is under way.
    closed: bool,
}

impl Load {
    /// Whether there is room for a request.
    pub(super) fn fits(&self, request: &Request) -> bool {
        let message = &request.message;
        let beside = || {
            self.has_room()
                && !wants_own(request)
                && self.bytes + message.body.len() <= MAX_BYTES
                && !self.jobs.contains(&message.job_id)
        };
        self.messages == 0 || beside()
    }

    fn take(&mut self, request: &Request) {
        self.jobs.insert(request.message.job_id);
        self.messages += 1;
        self.bytes += request.message.body.len();
        self.closed |= wants_own(request);
    }

    fn give_back(&mut self, request: &Request) {
        self.jobs.remove(&request.message.job_id);
        self.messages -= 1;
        self.bytes -= request.message.body.len();
        self.closed &= self.messages > 0;
    }

    /// Whether a small message would find room.
    pub(super) fn has_room(&self) -> bool {
        !self.closed && self.messages < MAX_MESSAGES
    }
}

fn wants_own(request: &Request) -> bool {
    request.alone || request.message.is_foreign() || request.message.body.len() > LARGE
}

impl Window {
    pub(super) fn new() -> Self {
        Window { publishes: Matching::new(), load: Load::default(), spare: Vec::new(), error: None }
    }

    pub(super) fn load(&self) -> &Load {
        &self.load
    }

    /// Publishes a request that fits, with the next look, after those before it. Nothing is waited for: else each message
    /// would cost a write to the socket.
    pub(super) fn publish(&mut self, channel: &Arc<Channel>, request: Request, since: Instant) {
        self.load.take(&request);
        let publishing = publish(channel.clone(), request.message.clone());
        let confirming = match self.spare.pop() {
            Some(mut spare) => {
                spare.set(publishing);
                spare
            }
            None => ReusableBoxFuture::new(publishing),
        };
        self.publishes.push(Publish { request, confirming, since });
    }

    /// Looks at the confirms, and answers the callers for whom it is certain what to. The task is woken when more come.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) {
        let mut news = false;
        while self.look_once(cx) {
            news = true;
        }
        if news {
            for publish in self.publishes.tell(tell) {
                self.load.give_back(&publish.request);
                self.spare.push(publish.confirming);
            }
        }
    }

    fn look_once(&mut self, cx: &mut Context<'_>) -> bool {
        let see = |publish: &mut Publish| match publish.confirming.poll(cx) {
            Poll::Pending => Seen::Open,
            Poll::Ready(Ok(confirmation)) => {
                Seen::Confirmed { acked: confirmation.is_ack(), returned: confirmation.take_message() }
            }
            Poll::Ready(Err(error)) => {
                // What is published while a channel dies is only told that it is closed.
                if self.error.as_ref().is_none_or(|known| is_reason(&error) && !is_reason(known)) {
                    self.error = Some(error);
                }
                Seen::Lost
            }
        };
        self.publishes.look(see, |publish, returned| publish.request.message.is(returned))
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.publishes.open() == 0
    }

    /// Whether the channel died.
    pub(super) fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    /// For how long the oldest confirm has been waited for.
    pub(super) fn longest_wait(&mut self) -> Duration {
        self.publishes.all_open().next().map_or(Duration::ZERO, |oldest| oldest.since.elapsed())
    }

    /// Begins to wait anew for all that is under way.
    pub(super) fn wait_anew(&mut self) {
        let now = Instant::now();
        self.publishes.all_open().for_each(|publish| publish.since = now);
    }

    /// The queues whose confirms have been waited for as long.
    pub(super) fn late_queues(&mut self, wait: Duration) -> HashSet<ShortString> {
        let late = self.publishes.all_open().filter(|publish| publish.since.elapsed() >= wait);
        late.map(|publish| publish.request.message.queue.clone()).collect()
    }

    /// Ends it; the channel must be given up where it is not idle.
    pub(super) fn end(self) -> Left {
        let unknown: Vec<_> = self.publishes.end(tell).map(|publish| publish.request).collect();
        let sole = unknown.len() == 1;
        let mut unknown: Vec<_> = unknown.into_iter().filter(|request| !request.is_given_up()).collect();
        unknown.iter_mut().for_each(|request| request.in_doubt = true);
        Left { unknown, error: self.error, sole }
    }
}

fn tell(publish: &mut Publish, verdict: Verdict) {
    let request = &mut publish.request;
    match verdict {
        Verdict::Arrived => request.answer(Ok(())),
        Verdict::Returned => request.answer(Err(request.message.unroutable())),
        Verdict::Refused => request.fail(Error::Refused { queue: request.message.queue.to_string() }),
        Verdict::Unknown => {}
    }
}

/// Whether the broker gave the reason.
fn is_reason(error: &lapin::Error) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(_))
}

async fn publish(channel: Arc<Channel>, message: Arc<Message>) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let (queue, properties) = (message.queue.clone(), message.properties.clone());
    channel.basic_publish("".into(), queue, options, &message.body, properties).await?.await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::request::ask;
    use queuey_core::Envelope;
    use serde_json::value::to_raw_value;

    fn request(size: usize) -> Request {
        let payload = to_raw_value(&"x".repeat(size)).expect("a payload");
        ask(Message::job(&Envelope::raw("job", "q", payload), "q", true).expect("a message")).0
    }

    /// How many find room at a time, where all that is under way is confirmed before there are more.
    fn sizes(requests: impl IntoIterator<Item = Request>) -> Vec<usize> {
        let mut requests = requests.into_iter().peekable();
        let mut sizes = Vec::new();
        while requests.peek().is_some() {
            let mut load = Load::default();
            while let Some(request) = requests.next_if(|request| load.fits(request)) {
                load.take(&request);
            }
            sizes.push(load.messages);
        }
        sizes
    }

    #[test]
    fn what_is_under_way_is_bounded_in_number_and_in_bytes() {
        assert_eq!(sizes((0..500).map(|_| request(0))), [200, 200, 100]);
        assert_eq!(sizes((0..40).map(|_| request(60_000))), [17, 17, 6]);
    }

    #[test]
    fn a_large_message_goes_alone() {
        assert_eq!(sizes([0, 0, 70_000, 0, 2_000_000, 70_000].map(request)), [2, 1, 1, 1, 1]);
    }

    #[test]
    fn a_suspect_goes_alone() {
        let suspect = || {
            let mut request = request(0);
            request.alone = true;
            request
        };
        assert_eq!(sizes([request(0), suspect(), suspect(), request(0)]), [1, 1, 1, 1]);
    }

    #[test]
    fn two_copies_of_a_job_are_not_under_way_at_once() {
        let twin = request(0);
        let copy = ask((*twin.message).clone()).0;
        assert_eq!(sizes([request(0), twin, request(0), copy, request(0)]), [3, 2]);
    }

    #[test]
    fn what_is_confirmed_leaves_its_room() {
        let (mut load, all) = (Load::default(), [70_000, 0, 0].map(request));
        load.take(&all[0]);
        assert!(!load.has_room() && !load.fits(&all[1]));
        load.give_back(&all[0]);
        load.take(&all[1]);
        assert!(load.has_room() && load.fits(&all[2]) && !load.fits(&all[1]) && !load.fits(&all[0]));
        load.give_back(&all[1]);
        assert_eq!((load.messages, load.bytes, load.jobs.len(), load.closed), (0, 0, 0, false));
    }
}
