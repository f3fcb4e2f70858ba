//! A batch under way: published together, its confirms awaited together, each caller answered.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::FutureExt;
use lapin::{Channel, Confirmation, PublisherConfirm, options::BasicPublishOptions, types::ShortString};
use queuey_core::Error;
use tokio::time::Instant;

use super::{
    matching::{Key, Matching, Verdict},
    request::Request,
};
use crate::message::Message;

/// How often confirms are looked at beside the one that is waited for, so that a slow one holds no other.
const LOOK: Duration = Duration::from_millis(5);

/// The publishes of one batch on one channel.
pub(super) struct Flight {
    requests: Vec<Request>,
    confirms: Vec<Option<PublisherConfirm>>,
    matching: Matching,
    /// All before this one have their confirm.
    head: usize,
    /// What the channel died of.
    error: Option<lapin::Error>,
}

/// What a batch left over.
pub(super) struct Left {
    /// They may have arrived; their callers wait.
    pub(super) unknown: Vec<Request>,
    /// What the channel died of, where it did.
    pub(super) error: Option<lapin::Error>,
    /// Whether there was no other message on the channel.
    pub(super) sole: bool,
}

impl Flight {
    /// Publishes a batch, all at once: a message that is waited for before the next costs a write to the socket each.
    pub(super) async fn start(channel: &Channel, requests: Vec<Request>) -> Self {
        let mut sending: Vec<_> =
            requests.iter().map(|request| Box::pin(publish(channel, &request.message))).collect();
        let mut sent: Vec<Option<lapin::Result<PublisherConfirm>>> =
            sending.iter_mut().map(|publish| poll_once(publish.as_mut())).collect();
        for (publish, sent) in sending.into_iter().zip(&mut sent) {
            if sent.is_none() {
                *sent = Some(publish.await);
            }
        }
        let mut flight = Flight {
            matching: Matching::new(requests.len()),
            confirms: Vec::with_capacity(requests.len()),
            requests,
            head: 0,
            error: None,
        };
        for (place, sent) in sent.into_iter().flatten().enumerate() {
            match sent {
                Ok(confirm) => flight.confirms.push(Some(confirm)),
                Err(error) => {
                    flight.confirms.push(None);
                    flight.lose(place, error);
                }
            }
        }
        flight
    }

    /// Waits for the confirms, and answers callers as soon as it is certain what to. False when `limit` is over before all
    /// are in.
    ///
    /// # Cancel safety
    ///
    /// It can be called again.
    pub(super) async fn land(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while tokio::time::timeout(LOOK, std::future::poll_fn(|cx| self.poll_head(cx))).await.is_err() {
            self.look();
            if Instant::now() >= end {
                return false;
            }
        }
        let verdicts = self.matching.at_the_end();
        self.tell(verdicts);
        true
    }

    /// The queues whose confirms are still awaited.
    pub(super) fn open_queues(&self) -> impl Iterator<Item = &ShortString> {
        let open = self.requests.iter().enumerate().filter(|(place, _)| self.matching.is_open(*place));
        open.map(|(_, request)| &request.message.queue)
    }

    /// Ends it; the channel must be given up where confirms are still awaited.
    pub(super) fn end(mut self) -> Left {
        for place in 0..self.requests.len() {
            if self.matching.is_open(place) {
                self.matching.lost(place);
            }
        }
        let verdicts = self.matching.at_the_end();
        self.tell(verdicts);
        let sole = self.requests.len() == 1;
        self.requests.retain(|request| !request.is_given_up());
        self.requests.iter_mut().for_each(|request| request.in_doubt = true);
        Left { unknown: self.requests, error: self.error, sole }
    }

    /// Waits for the first confirm that is not there: only that one wakes the task.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.head < self.confirms.len() {
            std::task::ready!(self.poll_confirm(self.head, cx));
            self.head += 1;
        }
        Poll::Ready(())
    }

    /// Looks at all confirms that are awaited, and answers whom it can.
    fn look(&mut self) {
        let look = self.matching.look_again();
        for place in self.head..self.confirms.len() {
            let _ = self.poll_confirm(place, &mut Context::from_waker(Waker::noop()));
        }
        let verdicts = self.matching.after_look(look);
        self.tell(verdicts);
    }

    fn poll_confirm(&mut self, place: usize, cx: &mut Context<'_>) -> Poll<()> {
        let Some(confirm) = &mut self.confirms[place] else { return Poll::Ready(()) };
        let confirmation = std::task::ready!(confirm.poll_unpin(cx));
        self.confirms[place] = None;
        match confirmation {
            Ok(confirmation) => self.confirmed(place, confirmation),
            Err(error) => self.lose(place, error),
        }
        Poll::Ready(())
    }

    fn confirmed(&mut self, place: usize, confirmation: Confirmation) {
        let acked = confirmation.is_ack();
        if let Some(returned) = confirmation.take_message() {
            let id = returned.properties.message_id().clone().unwrap_or_default();
            let keys = self.requests.iter().map(|request| key(&request.message));
            self.matching.returned(&(id, returned.routing_key.clone()), keys);
        }
        self.matching.confirmed(place, acked);
    }

    fn lose(&mut self, place: usize, error: lapin::Error) {
        self.matching.lost(place);
        self.error.get_or_insert(error);
    }

    fn tell(&mut self, verdicts: Vec<(usize, Verdict)>) {
        for (place, verdict) in verdicts {
            let request = &mut self.requests[place];
            match verdict {
                Verdict::Arrived => request.answer(Ok(())),
                Verdict::Returned => request.answer(Err(request.message.unroutable())),
                Verdict::Refused => {
                    request.fail(Error::Refused { queue: request.message.queue.to_string() });
                }
                Verdict::Unknown => {}
            }
        }
    }
}

async fn publish(channel: &Channel, message: &Message) -> lapin::Result<PublisherConfirm> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let (queue, properties) = (message.queue.clone(), message.properties.clone());
    channel.basic_publish("".into(), queue, options, &message.body, properties).await
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn key(message: &Message) -> Key {
    (message.id.clone(), message.queue.clone())
}
