//! All that the expansions of queuey-macros and the backends of this project may call. No promise is made to others.

pub use core::{
    column, concat, file, line, module_path,
    option::Option,
    primitive::{bool, f64, str, u8, u16, u32, u64, usize},
};
pub use std::time::Duration;

pub use inventory;

use crate::BoxFuture;
pub use crate::{
    __path as path,
    extract::{HandlerArg, IntoJobResult, Source, States},
    job::{Job, JobRegistration},
    job_error::JobResult,
    queue::{Names, QueueConfig, QueueKind, QueueSet, check_queues},
    retry::{RetryKeys, RetryPolicy},
    unraw::Unraw,
    worker::{Found, HandlerRegistration, Wanted},
};

/// Milliseconds as a duration.
pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The queue of a set with this name.
pub fn by_name<Q: QueueSet>(name: &str) -> Option<Q> {
    Q::all().iter().copied().find(|queue| queue.name() == name)
}

/// A run of a handler. Boxed in a call of its own, which is where rustc tells that it can't go between threads.
pub fn run(run: impl Future<Output = JobResult> + Send + 'static) -> BoxFuture<'static, JobResult> {
    Box::pin(run)
}

/// What a handler answered, as a worker judges it.
pub fn answer<R: IntoJobResult>(result: R) -> JobResult {
    result.into_job_result()
}
