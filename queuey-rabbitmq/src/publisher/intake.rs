//! What waits to be written becomes batches: all that is there, within bounds.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use tokio::sync::{Mutex, mpsc};

use super::request::{Parcel, Request};

/// The most messages of a batch. The broker lets a channel have 400 messages under way that a queue has not taken, grants
/// the next 200 when it has 200 of them, and then reads no more from the whole connection: a batch to a queue that takes
/// nothing must stay below that, or no other channel gets through.
const MAX_MESSAGES: usize = 200;

/// The most bytes of a batch, bodies only.
const MAX_BYTES: usize = 1024 * 1024;

/// A body above this has a batch of its own.
const LARGE: usize = 64 * 1024;

/// Where a writer gets its batches from. Writers that share a queue of parcels take turns.
pub(super) struct Intake {
    parcels: Arc<Mutex<mpsc::Receiver<Parcel>>>,
    /// What this writer has taken and not written: that keeps its order.
    taken: VecDeque<Request>,
}

impl Intake {
    pub(super) fn new(parcels: Arc<Mutex<mpsc::Receiver<Parcel>>>) -> Self {
        Intake { parcels, taken: VecDeque::new() }
    }

    /// The next batch; nothing once nobody can ask any more.
    ///
    /// # Cancel safety
    ///
    /// What was taken stays for the next call.
    pub(super) async fn next(&mut self) -> Option<Vec<Request>> {
        if self.taken.is_empty() {
            let mut parcels = self.parcels.lock().await;
            let first = parcels.recv().await?;
            take(&mut self.taken, first);
            top_up(&mut self.taken, &mut parcels);
        } else if let Ok(mut parcels) = self.parcels.try_lock() {
            top_up(&mut self.taken, &mut parcels);
        }
        Some(cut(&mut self.taken))
    }

    /// Puts requests back that are to be written before all others, in their order.
    pub(super) fn put_back(&mut self, requests: Vec<Request>) {
        for request in requests.into_iter().rev() {
            self.taken.push_front(request);
        }
    }

    /// Takes in nothing more than what was sent before.
    pub(super) async fn close(&self) {
        self.parcels.lock().await.close();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

fn top_up(taken: &mut VecDeque<Request>, parcels: &mut mpsc::Receiver<Parcel>) {
    while taken.len() < MAX_MESSAGES {
        let Ok(parcel) = parcels.try_recv() else { return };
        take(taken, parcel);
    }
}

fn take(taken: &mut VecDeque<Request>, parcel: Parcel) {
    match parcel {
        Parcel::One(request) => taken.push_back(request),
        Parcel::Many(requests) => taken.extend(requests),
    }
}

/// Cuts a batch off the front. A message that comes twice waits for the next one, or its return could not be told from
/// that of the other.
fn cut(taken: &mut VecDeque<Request>) -> Vec<Request> {
    let (mut jobs, mut bytes, mut messages) = (HashSet::new(), 0, 0);
    for request in taken.iter() {
        let size = request.message.body.len();
        let own = wants_own(request);
        let fits = messages < MAX_MESSAGES && bytes + size <= MAX_BYTES && !own;
        if messages > 0 && (!fits || !jobs.insert(request.message.id.as_str())) {
            break;
        }
        if messages == 0 {
            jobs.insert(request.message.id.as_str());
        }
        messages += 1;
        bytes += size;
        if own {
            break;
        }
    }
    taken.drain(..messages).collect()
}

fn wants_own(request: &Request) -> bool {
    request.alone || request.message.is_foreign() || request.message.body.len() > LARGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        message::Message,
        publisher::request::{Asked, ask},
    };
    use queuey_core::Envelope;
    use serde_json::value::to_raw_value;

    fn request(size: usize) -> (Request, Asked) {
        let payload = to_raw_value(&"x".repeat(size)).expect("a payload");
        ask(Message::job(&Envelope::raw("job", "q", payload), "q", true).expect("a message"))
    }

    fn sizes(requests: impl IntoIterator<Item = (Request, Asked)>) -> Vec<usize> {
        let mut taken: VecDeque<_> = requests.into_iter().map(|(request, _)| request).collect();
        let mut sizes = Vec::new();
        while !taken.is_empty() {
            sizes.push(cut(&mut taken).len());
        }
        sizes
    }

    #[test]
    fn a_batch_is_bounded_in_number_and_in_bytes() {
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
            let (mut request, asked) = request(0);
            request.alone = true;
            (request, asked)
        };
        assert_eq!(sizes([request(0), suspect(), suspect(), request(0)]), [1, 1, 1, 1]);
    }

    #[test]
    fn a_job_comes_once_in_a_batch() {
        let twin = request(0);
        let message = (*twin.0.message).clone();
        assert_eq!(sizes([request(0), twin, request(0), ask(message), request(0)]), [3, 2]);
    }

    #[tokio::test]
    async fn a_batch_takes_all_that_is_there_and_keeps_its_order() {
        let (sender, receiver) = mpsc::channel(10);
        let mut intake = Intake::new(Arc::new(Mutex::new(receiver)));
        let ids = |batch: Option<Vec<Request>>| -> Option<Vec<_>> {
            Some(batch?.iter().map(|request| request.message.id.clone()).collect())
        };
        let (one, two, three, back) = (request(0).0, request(0).0, request(0).0, request(0).0);
        let all = [&one, &two, &three].map(|request| request.message.id.clone());
        let first = back.message.id.clone();
        sender.try_send(Parcel::One(one)).expect("room");
        sender.try_send(Parcel::Many(vec![two, three])).expect("room");
        assert_eq!(ids(intake.next().await).as_deref(), Some(&all[..]));
        assert!(intake.is_empty());
        intake.put_back(vec![back]);
        assert_eq!(ids(intake.next().await), Some(vec![first]));
        drop(sender);
        assert!(intake.next().await.is_none());
    }
}
