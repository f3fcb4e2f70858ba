//! What becomes of a delivery.

use std::time::Duration;

use crate::{dead_letter::DeadLetterCause, envelope::Envelope};

/// What becomes of a delivery: exactly one of these ends it.
///
/// Where a successor is published ([`Retry`](Self::Retry), [`Defer`](Self::Defer),
/// [`DeadLetter`](Self::DeadLetter), [`Redeliver`](Self::Redeliver)), it is confirmed before the delivery is
/// acknowledged, so that a crash in between makes a duplicate and never a loss.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Settlement {
    /// The job is done.
    Ack,
    /// The job is not worth keeping.
    Discard,
    /// Publish `next` after `delay`, at the back of the queue.
    Retry {
        /// The envelope of the next attempt.
        next: Envelope,
        /// How long it is held; zero is at once.
        delay: Duration,
    },
    /// Publish `next` after `delay`, ahead of the backlog.
    Defer {
        /// The envelope of the same attempt.
        next: Envelope,
        /// How long it is held; zero is the shortest wait the backend has.
        delay: Duration,
    },
    /// Keep the job in the dead-letter queue.
    DeadLetter {
        /// Why, for programs.
        cause: DeadLetterCause,
        /// Why, for people.
        reason: String,
    },
    /// Publish `next` at once, at the top priority of the queue.
    Redeliver {
        /// The envelope, published as given.
        next: Envelope,
    },
    /// Hand the delivery back as it is: the broker's own hand-back.
    Requeue,
}
