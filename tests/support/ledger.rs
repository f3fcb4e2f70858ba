//! What became of every job, so that a test can say that none was lost.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

/// Keeps book of jobs by their id.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<HashMap<Uuid, Entry>>);

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    enqueued: u32,
    started: u32,
    finished: u32,
    dead: u32,
}

impl Ledger {
    /// An enqueue returned Ok.
    pub fn enqueued(&self, job: Uuid) {
        self.entries().entry(job).or_default().enqueued += 1;
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

    /// How many jobs were enqueued.
    pub fn len(&self) -> usize {
        self.entries().values().filter(|entry| entry.enqueued > 0).count()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many jobs have come to an end.
    pub fn ended(&self) -> usize {
        self.entries().values().filter(|entry| entry.finished + entry.dead > 0).count()
    }

    /// Checks that every job that was enqueued has come to an end, or is among those that `remain` somewhere. Gives the
    /// number of jobs that ended more than once.
    ///
    /// # Panics
    ///
    /// When one was lost, or one ran that nobody enqueued.
    pub fn assert_balanced(&self, remain: &[Uuid]) -> usize {
        let entries = self.entries();
        let ended = |entry: &Entry| entry.finished + entry.dead;
        let lost: Vec<_> = entries
            .iter()
            .filter(|(job, entry)| entry.enqueued > 0 && ended(entry) == 0 && !remain.contains(job))
            .collect();
        assert!(lost.is_empty(), "{} of {} jobs lost: {lost:?}", lost.len(), entries.len());
        let foreign = entries.values().filter(|entry| entry.enqueued == 0 && entry.started > 0).count();
        assert_eq!(foreign, 0, "jobs ran that nobody enqueued");
        entries.values().filter(|entry| ended(entry) > 1).count()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Uuid, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
