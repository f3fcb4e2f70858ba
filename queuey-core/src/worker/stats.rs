//! What a worker has done so far, in numbers.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::dead_letter::DeadLetterCause;

/// What a worker has done since it was built: over all queues (the fields of [`Counts`]), and per queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Over all queues.
    pub total: Counts,
    /// Per queue, by its name.
    pub queues: BTreeMap<&'static str, Counts>,
}

impl Deref for Stats {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.total
    }
}

/// What was done with the deliveries of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Runs that began.
    pub started: u64,
    /// Jobs that were done.
    pub succeeded: u64,
    /// Failed attempts that were scheduled again.
    pub retried: u64,
    /// Deferrals.
    pub deferred: u64,
    /// Jobs not worth keeping.
    pub discarded: u64,
    /// Jobs given up on, by cause.
    pub dead: BTreeMap<&'static str, u64>,
    /// Messages that were no jobs.
    pub malformed: u64,
    /// Deliveries handed back: by their handler, unstarted, or cut off by a shutdown.
    pub requeued: u64,
    /// Deliveries that were lost before they could be settled; the broker hands them out again.
    pub settle_failures: u64,
    /// Jobs that run at this moment.
    pub in_flight: u64,
}

impl Counts {
    /// Jobs given up on, whatever the cause.
    pub fn dead_total(&self) -> u64 {
        self.dead.values().sum()
    }

    fn add(&mut self, other: &Counts) {
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.retried += other.retried;
        self.deferred += other.deferred;
        self.discarded += other.discarded;
        self.malformed += other.malformed;
        self.requeued += other.requeued;
        self.settle_failures += other.settle_failures;
        self.in_flight += other.in_flight;
        for (cause, count) in &other.dead {
            *self.dead.entry(cause).or_default() += count;
        }
    }
}

/// The running numbers of one queue.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) started: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) deferred: AtomicU64,
    pub(crate) discarded: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) requeued: AtomicU64,
    pub(crate) settle_failures: AtomicU64,
    dead: [AtomicU64; DeadLetterCause::ALL.len()],
}

impl Counters {
    pub(crate) fn dead(&self, cause: DeadLetterCause) -> &AtomicU64 {
        &self.dead[cause as usize]
    }

    fn read(&self) -> Counts {
        // Read before `started`, so that the difference is never below zero.
        let ended = self.ended.load(Relaxed);
        let started = self.started.load(Relaxed);
        let dead =
            DeadLetterCause::ALL.into_iter().map(|cause| (cause.as_str(), self.dead(cause).load(Relaxed)));
        Counts {
            started,
            succeeded: self.succeeded.load(Relaxed),
            retried: self.retried.load(Relaxed),
            deferred: self.deferred.load(Relaxed),
            discarded: self.discarded.load(Relaxed),
            dead: dead.filter(|(_, count)| *count > 0).collect(),
            malformed: self.malformed.load(Relaxed),
            requeued: self.requeued.load(Relaxed),
            settle_failures: self.settle_failures.load(Relaxed),
            in_flight: started.saturating_sub(ended),
        }
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

pub(crate) fn snapshot<'a>(queues: impl Iterator<Item = (&'static str, &'a Counters)>) -> Stats {
    let mut stats = Stats::default();
    for (name, counters) in queues {
        let counts = counters.read();
        stats.total.add(&counts);
        stats.queues.insert(name, counts);
    }
    stats
}
