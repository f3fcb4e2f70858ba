//! Messages that wait for their time.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::{
    error::{Error, Result},
    queue::MAX_DELAY,
};

/// What is held for a queue, in the order it falls due; what falls due together, in the order it came.
pub(super) struct Holds<T> {
    held: BTreeMap<(Instant, u64), T>,
    next_number: u64,
}

/// The shortest wait of a deferral.
const DEFER_GRANULARITY: Duration = Duration::from_secs(1);

/// A deferral never comes back at once.
pub(super) fn deferral(delay: Duration) -> Duration {
    if delay.is_zero() { DEFER_GRANULARITY } else { delay }
}

/// When a delay that begins now is over.
///
/// # Errors
///
/// [`Error::DelayTooLong`] past what any backend can hold.
pub(super) fn due_after(delay: Duration) -> Result<Instant> {
    if delay > MAX_DELAY {
        return Err(Error::DelayTooLong { delay, max: MAX_DELAY });
    }
    Ok(Instant::now() + delay)
}

impl<T> Holds<T> {
    pub(super) fn new() -> Self {
        Holds { held: BTreeMap::new(), next_number: 0 }
    }

    pub(super) fn hold(&mut self, due: Instant, item: T) {
        self.held.insert((due, self.next_number), item);
        self.next_number += 1;
    }

    /// Takes out the first one that is due, with the time it was due.
    pub(super) fn release(&mut self, now: Instant) -> Option<(Instant, T)> {
        let first = self.held.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let ((due, _), item) = first.remove_entry();
        Some((due, item))
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.held.first_key_value().map(|((due, _), _)| *due)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.held.values()
    }
}
