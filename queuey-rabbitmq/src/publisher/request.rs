//! A message that wants to be published, between the one who asks and the one who writes.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering::SeqCst},
};

use queuey_core::{Error, Result};
use tokio::sync::oneshot;

use crate::message::Message;

const WAITING: u8 = 0;
const HANDED_OVER: u8 = 1;
const GIVEN_UP: u8 = 2;

/// What is passed to a writer.
pub(super) enum Parcel {
    One(Request),
    /// Requests of one call, which keep their order.
    Many(Vec<Request>),
}

/// The writer's side.
pub(super) struct Request {
    pub(super) message: Arc<Message>,
    /// A channel died with it, and it may be why: it is written with no other beside it.
    pub(super) alone: bool,
    /// How many connections it has been alone on when they broke.
    pub(super) breaks: u32,
    /// It was written before, and may be there, whatever becomes of it now.
    pub(super) in_doubt: bool,
    stage: Arc<AtomicU8>,
    answer: Option<oneshot::Sender<Result<()>>>,
}

/// The caller's side. Dropped, it gives the request up, unless that was handed over already.
pub(super) struct Asked {
    stage: Arc<AtomicU8>,
    pub(super) answer: oneshot::Receiver<Result<()>>,
}

pub(super) fn ask(message: Message) -> (Request, Asked) {
    let (stage, (sender, receiver)) = (Arc::new(AtomicU8::new(WAITING)), oneshot::channel());
    let (answer, asked) = (Some(sender), Asked { stage: stage.clone(), answer: receiver });
    (Request { message: Arc::new(message), alone: false, breaks: 0, in_doubt: false, stage, answer }, asked)
}

impl Request {
    /// Claims the request for the wire; from then on the message may be there. False where nobody waits for it any more.
    pub(super) fn hand_over(&self) -> bool {
        let claimed = self.stage.compare_exchange(WAITING, HANDED_OVER, SeqCst, SeqCst);
        claimed.is_ok() || (self.stage.load(SeqCst) == HANDED_OVER && !self.is_given_up())
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Answers the caller; only the first answer counts.
    pub(super) fn answer(&mut self, result: Result<()>) {
        if let Some(answer) = self.answer.take() {
            // A caller that has gone away is owed nothing.
            let _ = answer.send(result);
        }
    }

    /// Answers the caller that the message was not sent or not taken now. Where it was written before, that leaves it in
    /// doubt.
    pub(super) fn fail(&mut self, error: Error) {
        let in_doubt = Error::Unconfirmed { job_id: self.message.job_id };
        self.answer(Err(if self.in_doubt { in_doubt } else { error }));
    }
}

impl Asked {
    /// Takes the request back. False where it was handed over, so that the message may be there.
    pub(super) fn give_up(&self) -> bool {
        let taken_back = self.stage.compare_exchange(WAITING, GIVEN_UP, SeqCst, SeqCst);
        taken_back.is_ok() || self.stage.load(SeqCst) == GIVEN_UP
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use queuey_core::Envelope;

    fn asked() -> (Request, Asked) {
        let envelope = Envelope::raw("job", "q", Default::default());
        ask(Message::job(&envelope, "q", true).expect("a message"))
    }

    #[test]
    fn what_was_taken_back_is_never_written() {
        let (request, asked) = asked();
        assert!(asked.give_up());
        assert!(!request.hand_over());
        assert!(asked.give_up());
    }

    #[test]
    fn what_was_handed_over_can_not_be_taken_back() {
        let (request, asked) = asked();
        assert!(request.hand_over());
        assert!(!asked.give_up());
        assert!(request.hand_over(), "it may be written again after a loss");
    }

    #[test]
    fn a_caller_that_goes_away_takes_its_request_back() {
        let (request, asked) = asked();
        drop(asked);
        assert!(request.is_given_up() && !request.hand_over());
    }

    #[test]
    fn what_nobody_waits_for_is_not_written_again() {
        let (request, asked) = asked();
        assert!(request.hand_over());
        drop(asked);
        assert!(!request.hand_over());
    }

    #[test]
    fn what_was_written_before_is_never_said_not_to_be_there() {
        for in_doubt in [false, true] {
            let (mut request, mut asked) = asked();
            request.in_doubt = in_doubt;
            request.fail(Error::NotConnected);
            let answer = asked.answer.try_recv().expect("an answer");
            assert_eq!(matches!(answer, Err(Error::Unconfirmed { .. })), in_doubt, "{answer:?}");
        }
    }

    #[test]
    fn the_first_answer_counts() {
        let (mut request, mut asked) = asked();
        request.answer(Ok(()));
        request.answer(Err(Error::NotConnected));
        assert!(asked.answer.try_recv().expect("an answer").is_ok());
    }
}
