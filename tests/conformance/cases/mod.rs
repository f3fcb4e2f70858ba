//! Trouble from the field, through producer and worker. Each test names its case.

pub(crate) mod attempts;
pub(crate) mod deploys;
pub(crate) mod starts;
pub(crate) mod panics;
pub(crate) mod redelivery;
pub(crate) mod shutdown;
pub(crate) mod timeouts;

pub(crate) use std::{sync::Mutex, time::Duration};

pub(crate) use queuey::prelude::*;
pub(crate) use queuey_tests::{Running, World, queue_set, until};

/// A list that handlers write to.
pub(crate) type Log<T> = Arc<Mutex<Vec<T>>>;

pub(crate) fn note<T>(log: &Log<T>, entry: T) {
    log.lock().expect("nobody panics with the lock held").push(entry);
}

pub(crate) fn noted<T: Clone>(log: &Log<T>) -> Vec<T> {
    log.lock().expect("nobody panics with the lock held").clone()
}

/// What the dead letters of a queue give as reasons.
pub(crate) async fn dead_reasons(world: &World, queue: impl QueueSet) -> Vec<String> {
    world.operator.dead(queue.name()).await.into_iter().map(|dead| dead.reason).collect()
}

pub(crate) async fn producer<Q: QueueSet>(world: &World) -> Producer<Q> {
    Producer::new(world.backend.clone()).await.expect("declared")
}
