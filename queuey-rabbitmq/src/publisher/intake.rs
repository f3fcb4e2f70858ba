//! What waits to be written: writers take it in turn, and each publishes what it has taken in its order.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};

use super::{
    request::{Parcel, Request},
    window::{Load, MAX_MESSAGES},
};

/// Parcels that several writers take.
pub(super) type Parcels = Arc<Mutex<mpsc::Receiver<Parcel>>>;

type Guard = OwnedMutexGuard<mpsc::Receiver<Parcel>>;

/// The right to take parcels. A writer keeps it for as long as it has room for more.
enum Turn {
    No,
    Asked(Pin<Box<dyn Future<Output = Guard> + Send>>),
    Mine(Guard),
}

/// Where a writer gets its requests from.
pub(super) struct Intake {
    parcels: Parcels,
    turn: Turn,
    /// What this writer has taken and not written: that keeps its order.
    taken: VecDeque<Request>,
    /// Nobody can ask any more.
    ended: bool,
}

impl Intake {
    pub(super) fn new(parcels: Parcels) -> Self {
        Intake { parcels, turn: Turn::No, taken: VecDeque::new(), ended: false }
    }

    /// Ready when there is a request that fits beside what is under way; false once nobody can ask any more.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, load: &Load) -> Poll<bool> {
        if load.has_room() && self.taken.front().is_none_or(|next| load.fits(next)) {
            // Others wait for their turn, where there is enough already.
            let _ = self.take_in(cx);
        }
        match self.taken.front() {
            Some(next) if load.fits(next) => Poll::Ready(true),
            None if self.ended => Poll::Ready(false),
            None if load.has_room() => Poll::Pending,
            _ => {
                self.pass_turn();
                Poll::Pending
            }
        }
    }

    fn take_in(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.taken.len() < MAX_MESSAGES && !self.ended {
            let parcels = match &mut self.turn {
                Turn::Mine(parcels) => parcels,
                Turn::Asked(turn) => {
                    self.turn = Turn::Mine(ready!(turn.as_mut().poll(cx)));
                    continue;
                }
                Turn::No => {
                    self.turn = Turn::Asked(Box::pin(self.parcels.clone().lock_owned()));
                    continue;
                }
            };
            match ready!(parcels.poll_recv(cx)) {
                Some(Parcel::One(request)) => self.taken.push_back(request),
                Some(Parcel::Many(requests)) => self.taken.extend(requests),
                None => self.ended = true,
            }
        }
        self.pass_turn();
        Poll::Ready(())
    }

    /// Lets another writer take what waits.
    pub(super) fn pass_turn(&mut self) {
        self.turn = Turn::No;
    }

    /// The next request, where it fits beside what is under way.
    pub(super) fn next(&mut self, load: &Load) -> Option<Request> {
        if load.fits(self.taken.front()?) { self.taken.pop_front() } else { None }
    }

    /// The next request, in its place.
    pub(super) fn peek(&self) -> Option<&Request> {
        self.taken.front()
    }

    /// Puts requests back that are to be written before all others, in their order.
    pub(super) fn put_back(&mut self, requests: Vec<Request>) {
        for request in requests.into_iter().rev() {
            self.taken.push_front(request);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// All that was taken, and is not to be written.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Request> {
        self.taken.drain(..)
    }

    /// Takes in nothing more than what was sent before, and gives that.
    pub(super) async fn close(mut self) -> Vec<Request> {
        self.pass_turn();
        let mut parcels = self.parcels.lock_owned().await;
        parcels.close();
        let mut rest = Vec::from(self.taken);
        while let Some(parcel) = parcels.recv().await {
            match parcel {
                Parcel::One(request) => rest.push(request),
                Parcel::Many(requests) => rest.extend(requests),
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::{message::Message, publisher::request::ask};
    use queuey_core::Envelope;

    fn request() -> Request {
        let envelope = Envelope::raw("job", "q", Default::default());
        ask(Message::job(&envelope, "q", true).expect("a message")).0
    }

    async fn next(intake: &mut Intake) -> Option<String> {
        let load = Load::default();
        match poll_fn(|cx| intake.poll(cx, &load)).await {
            true => intake.next(&load).map(|request| request.message.id.to_string()),
            false => None,
        }
    }

    #[tokio::test]
    async fn all_that_is_there_is_taken_and_keeps_its_order() {
        let (sender, receiver) = mpsc::channel(10);
        let mut intake = Intake::new(Arc::new(Mutex::new(receiver)));
        let all = [request(), request(), request(), request()];
        let [one, two, three, four] = all.each_ref().map(|request| Some(request.message.id.to_string()));
        let [first, second, third, fourth] = all;
        sender.try_send(Parcel::One(second)).expect("room");
        sender.try_send(Parcel::Many(vec![third, fourth])).expect("room");
        assert_eq!(next(&mut intake).await, two);
        intake.put_back(vec![first]);
        assert_eq!(next(&mut intake).await, one);
        assert_eq!([next(&mut intake).await, next(&mut intake).await], [three, four]);
        drop(sender);
        assert_eq!(next(&mut intake).await, None);
    }

    #[tokio::test]
    async fn who_has_no_room_passes_the_turn() {
        let (sender, receiver) = mpsc::channel(10);
        let parcels = Arc::new(Mutex::new(receiver));
        let (mut one, mut other) = (Intake::new(parcels.clone()), Intake::new(parcels));
        sender.try_send(Parcel::One(request())).expect("room");
        assert!(next(&mut one).await.is_some());
        sender.try_send(Parcel::Many((0..MAX_MESSAGES + 1).map(|_| request()).collect())).expect("room");
        assert!(next(&mut one).await.is_some());
        sender.try_send(Parcel::One(request())).expect("room");
        assert!(next(&mut one).await.is_some(), "it has taken enough");
        assert!(next(&mut other).await.is_some());
    }

    #[tokio::test]
    async fn what_was_sent_before_a_close_is_given_and_nothing_is_sent_after() {
        let (sender, receiver) = mpsc::channel(10);
        let mut intake = Intake::new(Arc::new(Mutex::new(receiver)));
        sender.try_send(Parcel::Many(vec![request(), request()])).expect("room");
        assert!(next(&mut intake).await.is_some());
        sender.try_send(Parcel::One(request())).expect("room");
        assert_eq!(intake.close().await.len(), 2);
        assert!(sender.try_send(Parcel::One(request())).is_err());
    }
}
