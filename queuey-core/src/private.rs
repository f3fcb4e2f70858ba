//! All that the expansions of queuey-macros and the backends of this project may call. No promise is made to others.

pub use core::{
    column, concat, file, line, module_path,
    option::Option,
    primitive::{bool, f64, str, u8, u16, u32, u64, usize},
};
pub use std::time::Duration;

pub use inventory;

pub use crate::{
    job::{Job, JobRegistration},
    queue::{Names, QueueConfig, QueueKind, QueueSet, check_queues},
    retry::{RetryKeys, RetryPolicy},
};

/// Milliseconds as a duration.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The queue of a set with this name.
pub fn by_name<Q: QueueSet>(name: &str) -> Option<Q> {
    Q::all().iter().copied().find(|queue| queue.name() == name)
}
