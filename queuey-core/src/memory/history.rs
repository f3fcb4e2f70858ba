//! What was acknowledged lately, for tests to look at.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::envelope::Envelope;

/// How much is remembered.
const REMEMBERED: usize = 10_000;

/// What came of an acknowledged delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AckKind {
    /// The job was done.
    Succeeded,
    /// The attempt failed and the next one was scheduled.
    Retried,
    /// The job deferred itself.
    Deferred,
    /// The job was not worth keeping.
    Discarded,
}

/// The deliveries that were acknowledged last, the oldest first.
#[derive(Default)]
pub(super) struct History(Mutex<VecDeque<(Envelope, AckKind)>>);

impl History {
    pub(super) fn record(&self, envelope: Envelope, kind: AckKind) {
        let mut settled = self.lock();
        let forgotten = if settled.len() == REMEMBERED { settled.pop_front() } else { None };
        settled.push_back((envelope, kind));
        drop(settled);
        // Freed outside the lock, where it holds nobody up.
        drop(forgotten);
    }

    pub(super) fn of(&self, wanted: impl Fn(AckKind) -> bool) -> Vec<Envelope> {
        self.lock().iter().filter(|(_, kind)| wanted(*kind)).map(|(envelope, _)| envelope.clone()).collect()
    }

    pub(super) fn all(&self) -> Vec<(Envelope, AckKind)> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Envelope, AckKind)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
