//! Jobs that are to run alone: how long the others are waited for, and what is kept for a copy that is under way.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::worker::slots::Slot;

/// How long a job that is to run alone waits for the others to end.
const WAIT: Duration = Duration::from_secs(60);

/// How often one that waits is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// After a wait in vain, how long jobs that are to run alone don't wait: what they would wait for still runs.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// How long a slot is kept for the copy of a redelivery; another worker may get it.
const RESERVATION: Duration = Duration::from_secs(5);

/// The isolation of a worker. `T` is a delivery.
pub(crate) struct Isolation<T> {
    waiting_since: Option<Instant>,
    /// Until when nobody waits, because a wait was in vain.
    paused_until: Option<Instant>,
    copy: Copy<T>,
}

/// The copy of a redelivery that is to run alone, in the slot that was taken for it.
enum Copy<T> {
    None,
    /// It is being published, and may come before that is known.
    Expected {
        job_id: Uuid,
        early: Option<T>,
    },
    /// It was published, and its slot is kept.
    Reserved {
        job_id: Uuid,
        slot: Slot,
        until: Instant,
    },
}

/// What a delivery that came in means to an isolation.
pub(crate) enum Arrived<T> {
    /// It is the copy, and starts in the slot that was kept.
    Starts(T, Slot),
    /// It is the copy, and is kept until its slot is.
    Kept,
    /// It is any other.
    Other(T),
}

impl<T> Isolation<T> {
    pub(crate) fn new() -> Self {
        Isolation { waiting_since: None, paused_until: None, copy: Copy::None }
    }

    /// Whether one that is to run alone may start now: `Some(true)` with nothing beside it, `Some(false)` beside what
    /// has been waited for in vain, `None` not yet.
    pub(crate) fn admits(&mut self, nothing_runs: bool, now: Instant) -> Option<bool> {
        if nothing_runs {
            (self.waiting_since, self.paused_until) = (None, None);
            return Some(true);
        }
        if self.paused_until.is_some_and(|until| now < until) {
            return Some(false);
        }
        let since = *self.waiting_since.get_or_insert(now);
        if now - since < WAIT {
            return None;
        }
        warn!("others still run after a minute: jobs that were redelivered often are run beside them");
        (self.waiting_since, self.paused_until) = (None, Some(now + PAUSE));
        Some(false)
    }

    /// Nobody waits to run alone any more.
    pub(crate) fn nobody_waits(&mut self) {
        self.waiting_since = None;
    }

    /// When there is something to do again. One that waits is looked at every second, for it may have been lost.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let reservation = match &self.copy {
            Copy::Reserved { until, .. } => Some(*until),
            _ => None,
        };
        reservation.into_iter().chain(self.waiting_since.map(|since| (since + WAIT).min(now + LOOK))).min()
    }

    /// Gives up a slot that was kept in vain.
    pub(crate) fn expire(&mut self, now: Instant) {
        if matches!(&self.copy, Copy::Reserved { until, .. } if *until <= now) {
            self.copy = Copy::None;
        }
    }

    /// A redelivery that runs alone is about to be replaced by a copy.
    pub(crate) fn expect(&mut self, job_id: Uuid) {
        self.copy = Copy::Expected { job_id, early: None };
    }

    /// The copy was published; its slot is kept. Gives both back where it has come already.
    pub(crate) fn reserve(&mut self, job_id: Uuid, slot: Slot, now: Instant) -> Option<(T, Slot)> {
        match std::mem::replace(&mut self.copy, Copy::None) {
            Copy::Expected { job_id: expected, early: Some(early) } if expected == job_id => {
                Some((early, slot))
            }
            _ => {
                self.copy = Copy::Reserved { job_id, slot, until: now + RESERVATION };
                None
            }
        }
    }

    /// There will be no copy of this job after all. Gives back what came early under its name.
    pub(crate) fn no_copy(&mut self, job_id: Uuid) -> Option<T> {
        match std::mem::replace(&mut self.copy, Copy::None) {
            Copy::Expected { job_id: expected, early } if expected == job_id => early,
            other => {
                self.copy = other;
                None
            }
        }
    }

    /// Looks at a delivery that came in.
    pub(crate) fn arrived(&mut self, job_id: Uuid, delivery: T) -> Arrived<T> {
        match std::mem::replace(&mut self.copy, Copy::None) {
            Copy::Reserved { job_id: kept, slot, .. } if kept == job_id => Arrived::Starts(delivery, slot),
            Copy::Expected { job_id: expected, early: None } if expected == job_id => {
                self.copy = Copy::Expected { job_id, early: Some(delivery) };
                Arrived::Kept
            }
            other => {
                self.copy = other;
                Arrived::Other(delivery)
            }
        }
    }

    /// Takes out what came early and can't start any more.
    pub(crate) fn clear(&mut self) -> Option<T> {
        match std::mem::replace(&mut self.copy, Copy::None) {
            Copy::Expected { early, .. } => early,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::slots::Slots;

    fn slot() -> Slot {
        Slots::new(1, &[]).take(None, true)
    }

    #[test]
    fn one_waits_a_minute_and_those_after_it_do_not_wait_again() {
        let (mut isolation, start) = (Isolation::<()>::new(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(isolation.admits(false, at(0)), None);
        assert_eq!(isolation.deadline(at(0)), Some(at(1)));
        assert_eq!(isolation.deadline(at(59)), Some(at(60)));
        assert_eq!(isolation.admits(false, at(59)), None);
        assert_eq!(isolation.admits(false, at(60)), Some(false));
        assert_eq!(isolation.admits(false, at(61)), Some(false));
        assert_eq!(isolation.admits(false, at(361)), None);
        assert_eq!(isolation.admits(true, at(362)), Some(true));
        assert_eq!(isolation.admits(false, at(363)), None);
        isolation.nobody_waits();
        assert_eq!(isolation.deadline(at(363)), None);
    }

    #[test]
    fn a_copy_finds_its_slot_whether_it_comes_late_or_early() {
        let (job, other) = (Uuid::now_v7(), Uuid::now_v7());
        let now = Instant::now();
        let mut isolation = Isolation::new();
        isolation.expect(job);
        assert!(isolation.reserve(job, slot(), now).is_none());
        assert!(matches!(isolation.arrived(other, 1), Arrived::Other(1)));
        assert!(matches!(isolation.arrived(job, 2), Arrived::Starts(2, _)));
        isolation.expect(job);
        assert!(matches!(isolation.arrived(job, 3), Arrived::Kept));
        assert!(matches!(isolation.reserve(job, slot(), now), Some((3, _))));
        assert!(matches!(isolation.arrived(job, 4), Arrived::Other(4)));
    }

    #[test]
    fn a_slot_is_not_kept_for_ever_and_nothing_that_came_early_is_lost() {
        let (job, now) = (Uuid::now_v7(), Instant::now());
        let mut isolation = Isolation::<u8>::new();
        isolation.expect(job);
        isolation.reserve(job, slot(), now);
        isolation.expire(now);
        assert_eq!(isolation.deadline(now), Some(now + RESERVATION));
        isolation.expire(now + RESERVATION);
        assert_eq!(isolation.deadline(now), None);
        isolation.expect(job);
        isolation.arrived(job, 1);
        assert_eq!(isolation.no_copy(job), Some(1));
        isolation.expect(job);
        isolation.arrived(job, 2);
        assert_eq!(isolation.clear(), Some(2));
    }
}
