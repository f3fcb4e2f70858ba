//! The worker on the memory backend, and on one whose deliveries fail on purpose.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod build;
mod crashes;
mod endurance;
mod fairness;
mod faults;
mod layers;
mod logging;
mod random_shutdowns;
mod waiting;

use std::sync::Mutex;

use queuey::prelude::*;

/// A list that handlers write to.
type Log<T> = Arc<Mutex<Vec<T>>>;

fn note<T>(log: &Log<T>, entry: T) {
    log.lock().unwrap().push(entry);
}

fn noted<T: Clone>(log: &Log<T>) -> Vec<T> {
    log.lock().unwrap().clone()
}
