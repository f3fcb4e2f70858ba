//! Queues that confirm late have a channel of their own, so that they hold up no other.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use lapin::types::ShortString;
use tokio::sync::mpsc;

use super::request::Parcel;

/// How many queues can have a lane. What comes beyond that stays with the others.
const MAX_LANES: usize = 16;

/// How many messages may wait in a lane; whoever comes later waits for room.
const WAITING: usize = 256;

/// The lanes that are open, by queue.
#[derive(Clone, Default)]
pub(super) struct Lanes(Arc<RwLock<HashMap<ShortString, mpsc::Sender<Parcel>>>>);

impl Lanes {
    /// The lane of a queue, where it has one.
    pub(super) fn of(&self, queue: &ShortString) -> Option<mpsc::Sender<Parcel>> {
        let lanes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lanes.get(queue).cloned()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Opens a lane; nothing where the queue has one, or there are too many.
    pub(super) fn open(&self, queue: &ShortString) -> Option<mpsc::Receiver<Parcel>> {
        let mut lanes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if lanes.contains_key(queue) || lanes.len() >= MAX_LANES {
            return None;
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        lanes.insert(queue.clone(), sender);
        Some(receiver)
    }

    /// Sends what comes from now on the common way again.
    pub(super) fn close(&self, queue: &ShortString) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_one_lane_and_there_are_not_too_many() {
        let lanes = Lanes::default();
        let queue = |nr: usize| ShortString::from(format!("q{nr}"));
        let open: Vec<_> = (0..MAX_LANES).map(|nr| lanes.open(&queue(nr)).expect("room")).collect();
        assert!(lanes.open(&queue(0)).is_none() && lanes.open(&queue(MAX_LANES)).is_none());
        lanes.close(&queue(0));
        assert!(lanes.of(&queue(0)).is_none() && lanes.of(&queue(1)).is_some());
        assert!(lanes.open(&queue(MAX_LANES)).is_some());
        drop(open);
    }
}
