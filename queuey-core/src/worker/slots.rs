//! How many jobs run at once: in all, per limited handler, and one alone.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::sync::Notify;

/// The slots of a worker. They are taken by one task and given back by many.
pub(crate) struct Slots {
    most: usize,
    running: AtomicUsize,
    one_alone: AtomicBool,
    limits: Vec<Limit>,
    released: Notify,
}

struct Limit {
    most: usize,
    running: AtomicUsize,
}

/// A place to run one job; given back when it is dropped.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    limit: Option<usize>,
    alone: bool,
}

impl Slots {
    /// `most` in all, and as many as `limits` says for each limited handler.
    pub(crate) fn new(most: usize, limits: &[usize]) -> Arc<Self> {
        let limits = limits.iter().map(|most| Limit { most: *most, running: AtomicUsize::new(0) }).collect();
        Arc::new(Slots {
            most,
            running: AtomicUsize::new(0),
            one_alone: AtomicBool::new(false),
            limits,
            released: Notify::new(),
        })
    }

    pub(crate) fn are_free(&self) -> bool {
        !self.one_alone.load(SeqCst) && self.running.load(SeqCst) < self.most
    }

    /// Whether a limited handler may run once more.
    pub(crate) fn allow(&self, limit: usize) -> bool {
        let limit = &self.limits[limit];
        limit.running.load(SeqCst) < limit.most
    }

    pub(crate) fn nothing_runs(&self) -> bool {
        self.running.load(SeqCst) == 0
    }

    /// Takes a slot. Whether there is one was asked before, by the only task that takes them.
    pub(crate) fn take(self: &Arc<Self>, limit: Option<usize>, alone: bool) -> Slot {
        self.running.fetch_add(1, SeqCst);
        if let Some(limit) = limit {
            self.limits[limit].running.fetch_add(1, SeqCst);
        }
        if alone {
            self.one_alone.store(true, SeqCst);
        }
        Slot { slots: self.clone(), limit, alone }
    }

    /// Resolves once a slot was given back since the last time.
    pub(crate) async fn released(&self) {
        self.released.notified().await;
    }
}

impl Slot {
    /// Whether nothing else runs while it is held.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.alone {
            self.slots.one_alone.store(false, SeqCst);
        }
        if let Some(limit) = self.limit {
            self.slots.limits[limit].running.fetch_sub(1, SeqCst);
        }
        self.slots.running.fetch_sub(1, SeqCst);
        self.slots.released.notify_one();
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("alone", &self.alone).finish_non_exhaustive()
    }
}
