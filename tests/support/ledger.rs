//! What became of every job, so that a test can say that none was lost, and none began before its time.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use queuey::{Error, JobContext};
use uuid::Uuid;

/// Keeps book of jobs by their id.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<HashMap<Uuid, Entry>>);

#[derive(Debug, Clone, Default)]
struct Entry {
    enqueued: u32,
    /// Enqueues that may have succeeded all the same.
    unconfirmed: u32,
    /// Enqueues that certainly did not succeed.
    refused: u32,
    started: u32,
    finished: u32,
    dead: u32,
    /// From when on the job may start, by the number of waits it has behind it.
    due: HashMap<u32, Instant>,
    /// How much too early it started, at the worst.
    early: Option<Duration>,
}

impl Entry {
    fn ended(&self) -> u32 {
        self.finished + self.dead
    }

    /// Whether it is certain that no such job was ever taken.
    fn is_foreign(&self) -> bool {
        self.enqueued + self.unconfirmed == 0
    }
}

impl Ledger {
    /// An enqueue returned Ok.
    pub fn enqueued(&self, job: Uuid) {
        self.entries().entry(job).or_default().enqueued += 1;
    }

    /// An enqueue returned an error: after [`Error::Unconfirmed`] the job may be there, after any other that has to do with
    /// the broker it must not be.
    ///
    /// # Panics
    ///
    /// When the error is none of these.
    pub fn not_enqueued(&self, job: Uuid, error: &Error) {
        let mut entries = self.entries();
        let entry = entries.entry(job).or_default();
        match error {
            Error::Unconfirmed { .. } => entry.unconfirmed += 1,
            Error::NotConnected
            | Error::Blocked { .. }
            | Error::Unroutable { .. }
            | Error::Refused { .. }
            | Error::TooLarge { .. } => entry.refused += 1,
            error => panic!("{job} was not enqueued: {error}"),
        }
    }

    /// An enqueue is about to ask for this delay.
    pub fn delayed(&self, job: Uuid, delay: Duration) {
        self.due(job, 0, delay);
    }

    /// A run is about to end with a retry or a deferral after this delay.
    pub fn waits(&self, run: &JobContext, delay: Duration) {
        self.due(run.job_id, waits(run) + 1, delay);
    }

    /// A run began. It may be too early for the wait before it.
    pub fn began(&self, run: &JobContext) {
        let now = Instant::now();
        let mut entries = self.entries();
        let entry = entries.entry(run.job_id).or_default();
        entry.started += 1;
        if let Some(early) = entry.due.get(&waits(run)).and_then(|due| due.checked_duration_since(now)) {
            entry.early = entry.early.max(Some(early));
        }
    }

    /// A run began.
    pub fn started(&self, job: Uuid) {
        self.entries().entry(job).or_default().started += 1;
    }

    /// A run came to its end with success, or the job was discarded.
    pub fn finished(&self, job: Uuid) {
        self.entries().entry(job).or_default().finished += 1;
    }

    /// The job was given up on.
    pub fn dead(&self, job: Uuid) {
        self.entries().entry(job).or_default().dead += 1;
    }

    /// Whether an enqueue of a job returned Ok.
    pub fn is_enqueued(&self, job: Uuid) -> bool {
        self.entries().get(&job).is_some_and(|entry| entry.enqueued > 0)
    }

    /// Whether a job has come to an end.
    pub fn has_ended(&self, job: Uuid) -> bool {
        self.entries().get(&job).is_some_and(|entry| entry.ended() > 0)
    }

    /// How many jobs were enqueued.
    pub fn len(&self) -> usize {
        self.count(|entry| entry.enqueued > 0)
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many jobs have come to an end.
    pub fn ended(&self) -> usize {
        self.count(|entry| entry.ended() > 0)
    }

    /// How many of the jobs that were enqueued have not come to an end yet.
    pub fn open(&self) -> usize {
        self.count(|entry| entry.enqueued > 0 && entry.ended() == 0)
    }

    /// How many runs began.
    pub fn runs(&self) -> usize {
        self.entries().values().map(|entry| entry.started as usize).sum()
    }

    /// How many enqueues ended in [`Error::Unconfirmed`], and how many in an error after which the job is not there.
    pub fn errors(&self) -> (u32, u32) {
        let entries = self.entries();
        (
            entries.values().map(|entry| entry.unconfirmed).sum(),
            entries.values().map(|entry| entry.refused).sum(),
        )
    }

    /// Checks that every job that was enqueued has come to an end, or is among those that `remain` somewhere; that none is
    /// there whose enqueue says it is not; and that none began before its time. Gives the number of jobs that ended more
    /// than once.
    ///
    /// # Panics
    ///
    /// When one was lost, began too early, or is there though nobody enqueued it.
    pub fn assert_balanced(&self, remain: &[Uuid]) -> usize {
        let entries = self.entries();
        let open = |(job, entry): &(&Uuid, &Entry)| {
            entry.enqueued > 0 && entry.ended() == 0 && !remain.contains(job)
        };
        let lost: Vec<_> = entries.iter().filter(open).collect();
        assert!(lost.is_empty(), "{} of {} jobs lost: {lost:?}", lost.len(), entries.len());
        let there = |(job, entry): &(&Uuid, &Entry)| entry.started + entry.dead > 0 || remain.contains(job);
        let foreign: Vec<_> = entries.iter().filter(|entry| entry.1.is_foreign()).filter(there).collect();
        assert!(foreign.is_empty(), "{} jobs are there that nobody enqueued: {foreign:?}", foreign.len());
        let early: Vec<_> = entries.iter().filter(|(_, entry)| entry.early.is_some()).collect();
        assert!(early.is_empty(), "{} jobs began before their time: {early:?}", early.len());
        entries.values().filter(|entry| entry.ended() > 1).count()
    }

    /// Of a job that is handed out once more after a wait, the first wait counts.
    fn due(&self, job: Uuid, waits: u32, delay: Duration) {
        let due = Instant::now() + delay;
        self.entries().entry(job).or_default().due.entry(waits).or_insert(due);
    }

    fn count(&self, of: impl Fn(&Entry) -> bool) -> usize {
        self.entries().values().filter(|entry| of(entry)).count()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Uuid, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many waits a run has behind it, beside that of its enqueue.
fn waits(run: &JobContext) -> u32 {
    run.attempt - 1 + run.deferrals
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn what_is_wrong_unbalances_it() {
        type Act = fn(&Ledger, Uuid);
        let lost: Act = |ledger, job| ledger.enqueued(job);
        let there_after_all: Act = |ledger, job| {
            ledger.not_enqueued(job, &Error::NotConnected);
            ledger.started(job);
        };
        let foreign: Act = |ledger, job| ledger.started(job);
        let early: Act = |ledger, job| {
            ledger.enqueued(job);
            ledger.delayed(job, HOUR);
            ledger.began(&run(job, 1));
            ledger.finished(job);
        };
        let early_retry: Act = |ledger, job| {
            ledger.enqueued(job);
            ledger.waits(&run(job, 1), HOUR);
            ledger.began(&run(job, 2));
            ledger.finished(job);
        };
        for (what, act) in [
            ("lost", lost),
            ("there after all", there_after_all),
            ("foreign", foreign),
            ("early", early),
            ("early retry", early_retry),
        ] {
            let ledger = Ledger::default();
            act(&ledger, Uuid::now_v7());
            assert!(catch_unwind(AssertUnwindSafe(|| ledger.assert_balanced(&[]))).is_err(), "{what}");
        }
    }

    #[test]
    fn what_is_in_order_balances_it() {
        let (ledger, job, unconfirmed) = (Ledger::default(), Uuid::now_v7(), Uuid::now_v7());
        ledger.delayed(job, Duration::ZERO);
        ledger.enqueued(job);
        // Handed out once more, it fails once more: the first wait counts.
        for delay in [Duration::ZERO, HOUR] {
            ledger.began(&run(job, 1));
            ledger.waits(&run(job, 1), delay);
        }
        ledger.began(&run(job, 2));
        ledger.finished(job);
        ledger.not_enqueued(unconfirmed, &Error::Unconfirmed { job_id: unconfirmed });
        ledger.started(unconfirmed);
        assert_eq!(ledger.assert_balanced(&[]), 0);
        ledger.dead(job);
        assert_eq!((ledger.assert_balanced(&[]), ledger.errors()), (1, (1, 0)));
    }

    fn run(job: Uuid, attempt: u32) -> JobContext {
        JobContext::new::<Nothing>(attempt, 3).with_job_id(job)
    }

    crate::queue_set!(Set { Work });

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Nothing;

    impl queuey::Job for Nothing {
        type Queue = Set;
        const NAME: &'static str = "nothing";
        const QUEUE: Set = Set::Work;
    }
}
