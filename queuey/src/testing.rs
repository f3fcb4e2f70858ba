//! Helps to test what uses queuey, on a [`MemoryBackend`]. Feature `testing`.
//!
//! Unit tests run one job against its handler with [`run_one`]; tests of a whole service drive a worker until nothing is
//! left to do with [`drain`]; both look at the backend with [`assert_enqueued!`](crate::assert_enqueued) and
//! [`assert_settled!`](crate::assert_settled). With `#[tokio::test(start_paused = true)]` no wait takes time.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    AckKind, Backend, Envelope, Job, JobContext, JobHandler, JobResult, MemoryBackend, QueueSet, Result,
    RetryPolicy, Stats, Worker,
};

/// How long [`drain`] waits for the queues to be idle, in the time of the runtime.
const DRAIN_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// How often [`drain`] looks whether the queues are idle.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs one job against a handler, as its first attempt under the policy that the handler, the job or the queue give.
///
/// The job goes through JSON first, as it does in production. No time limit applies.
///
/// # Panics
///
/// When the job does not survive JSON, and when the handler panics.
///
/// ```
/// # use queuey::prelude::*;
/// # #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
/// # enum AppQueues { Emails }
/// # #[derive(Serialize, Deserialize, Job)]
/// # #[job(queue = AppQueues::Emails)]
/// # struct SendEmail { to: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let handler = FnHandler::<SendEmail, _>::new(async |job, _ctx| {
///     if job.to.contains('@') { Ok(()) } else { Err(JobError::fatal_msg("no address")) }
/// });
/// let result = queuey::testing::run_one(&handler, &SendEmail { to: "ada".into() }).await;
/// assert!(result.unwrap_err().is_fatal());
/// # }
/// ```
pub async fn run_one<H: JobHandler>(handler: &H, job: &H::Job) -> JobResult {
    let queue_policy = || H::Job::QUEUE.config().retry;
    let policy: RetryPolicy =
        handler.retry_policy(job).or_else(H::Job::retry_policy).unwrap_or_else(queue_policy);
    run_one_with(handler, job, JobContext::new::<H::Job>(1, policy.max_attempts)).await
}

/// [`run_one`] with a context of one's own, for a later attempt or a job that was deferred.
///
/// # Panics
///
/// As [`run_one`].
pub async fn run_one_with<H: JobHandler>(handler: &H, job: &H::Job, ctx: JobContext) -> JobResult {
    let envelope = Envelope::new(job).unwrap_or_else(|error| panic!("{error}"));
    let job =
        envelope.decode().unwrap_or_else(|error| panic!("`{}` does not survive JSON: {error}", H::Job::NAME));
    handler.handle(job, ctx).await
}

/// Runs a worker until its queues are idle: nothing is ready, held or in hand. Gives what it did.
///
/// Jobs that are held are waited for, so use a paused clock where delays are long.
///
/// # Errors
///
/// What [`Worker::run`] gives.
///
/// # Panics
///
/// When a queue is still not idle after a day of the runtime's time, for a job that defers itself for ever will not end.
///
/// ```
/// # use queuey::prelude::*;
/// # #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
/// # enum AppQueues { Emails }
/// # #[derive(Debug, Serialize, Deserialize, Job)]
/// # #[job(queue = AppQueues::Emails)]
/// # struct SendEmail { to: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queuey::Result<()> {
/// use queuey::testing::{assert_enqueued, assert_settled, drain};
///
/// let backend = Arc::new(MemoryBackend::new());
/// let producer = Producer::<AppQueues>::new(backend.clone()).await?;
/// producer.enqueue(&SendEmail { to: "ada".into() }).await?;
/// assert_enqueued!(backend, SendEmail, |job| job.to == "ada");
///
/// let worker = Worker::<AppQueues>::builder(backend.clone())
///     .handler(FnHandler::<SendEmail, _>::new(async |_job, _ctx| Ok(())))
///     .build()
///     .await?;
/// assert_eq!(drain(&backend, worker).await?.succeeded, 1);
/// assert_settled!(backend, SendEmail, Succeeded);
/// # Ok(())
/// # }
/// ```
pub async fn drain<Q: QueueSet, B: Backend + ?Sized>(
    backend: &MemoryBackend,
    worker: Worker<Q, B>,
) -> Result<Stats> {
    let handle = worker.handle();
    let consumed: Vec<&str> = handle.stats().queues.into_keys().collect();
    let is_idle = || backend.is_idle(&consumed);
    let idle = async {
        let deadline = Instant::now() + DRAIN_LIMIT;
        let (mut pause, mut seen) = (SHORTEST_PAUSE, handle.stats());
        while !is_idle() {
            assert!(Instant::now() < deadline, "the queues are still not idle: {}", Everything(backend));
            tokio::time::sleep(pause).await;
            // While nothing happens it looks less often, for hours may have to pass.
            let now = handle.stats();
            pause = if now == seen { (pause * 2).min(LONGEST_PAUSE) } else { SHORTEST_PAUSE };
            seen = now;
        }
    };
    worker.run_until(idle).await?;
    Ok(handle.stats())
}

/// What came of a delivery, for [`assert_settled!`](crate::assert_settled).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The job was done.
    Succeeded,
    /// An attempt failed and the next one was scheduled.
    Retried,
    /// The job deferred itself.
    Deferred,
    /// The job was not worth keeping.
    Discarded,
    /// The job was given up on.
    Dead,
}

/// The jobs of a type that wait on its queue, ready or held.
pub fn enqueued<J: Job>(backend: &MemoryBackend) -> Vec<J> {
    let queue = J::QUEUE.name();
    decoded(backend.pending(queue).into_iter().chain(backend.deferred(queue)))
}

/// The jobs of a type that were settled so, in their order.
pub fn settled<J: Job>(backend: &MemoryBackend, how: Settled) -> Vec<J> {
    let kind = match how {
        Settled::Succeeded => AckKind::Succeeded,
        Settled::Retried => AckKind::Retried,
        Settled::Deferred => AckKind::Deferred,
        Settled::Discarded => AckKind::Discarded,
        Settled::Dead => {
            return decoded(backend.dead_letters(J::QUEUE.name()).into_iter().map(|(dead, _)| dead));
        }
    };
    decoded(
        backend.settled().into_iter().filter(|(_, settled)| *settled == kind).map(|(envelope, _)| envelope),
    )
}

fn decoded<J: Job>(envelopes: impl Iterator<Item = Envelope>) -> Vec<J> {
    envelopes
        .filter(|envelope| envelope.job_type == J::NAME)
        .filter_map(|envelope| envelope.decode().ok())
        .collect()
}

#[doc(hidden)]
#[track_caller]
pub fn check<J: Job>(backend: &MemoryBackend, what: &str, found: &[J], wanted: &Wanted<'_, J>) {
    let (matches, holds) = match wanted {
        Wanted::Any => (found.len(), !found.is_empty()),
        Wanted::Count(count) => (found.len(), found.len() == *count),
        Wanted::Matching(predicate) => {
            let matching = found.iter().filter(|job| predicate(job)).count();
            (matching, matching > 0)
        }
    };
    assert!(
        holds,
        "expected {wanted} `{}` {what}, found {matches}; there is {}",
        J::NAME,
        Everything(backend)
    );
}

/// What an assertion asks of the jobs that were found.
#[doc(hidden)]
pub enum Wanted<'a, J> {
    Any,
    Count(usize),
    Matching(&'a dyn Fn(&J) -> bool),
}

impl<J> fmt::Display for Wanted<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Any => f.write_str("a job"),
            Wanted::Count(count) => write!(f, "{count} of job"),
            Wanted::Matching(_) => f.write_str("a matching job"),
        }
    }
}

impl<J> fmt::Debug for Wanted<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All that a backend holds and has settled, a line each.
struct Everything<'a>(&'a MemoryBackend);

impl fmt::Display for Everything<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        let line = |state: &str, envelope: &Envelope| {
            format!("{state}: {} (attempt {}) {}", envelope.job_type, envelope.attempt, envelope.payload)
        };
        for queue in self.0.queue_names() {
            lines.extend(self.0.pending(&queue).iter().map(|envelope| line("ready", envelope)));
            lines.extend(self.0.deferred(&queue).iter().map(|envelope| line("held", envelope)));
            lines.extend(
                self.0
                    .dead_letters(&queue)
                    .iter()
                    .map(|(dead, reason)| format!("{}: {reason}", line("dead", dead))),
            );
        }
        lines.extend(self.0.settled().iter().map(|(envelope, kind)| line(&format!("{kind:?}"), envelope)));
        if lines.is_empty() {
            f.write_str("nothing at all")
        } else {
            write!(f, "this:\n  {}", lines.join("\n  "))
        }
    }
}

/// The backend behind whatever an assertion is given.
#[doc(hidden)]
pub trait AsMemory {
    fn as_memory(&self) -> &MemoryBackend;
}

impl AsMemory for MemoryBackend {
    fn as_memory(&self) -> &MemoryBackend {
        self
    }
}

impl<T: AsMemory> AsMemory for Arc<T> {
    fn as_memory(&self) -> &MemoryBackend {
        T::as_memory(self)
    }
}

impl<T: AsMemory> AsMemory for &T {
    fn as_memory(&self) -> &MemoryBackend {
        T::as_memory(self)
    }
}

/// Asserts that a job waits on its queue, ready or held: `assert_enqueued!(backend, SendEmail)`. A number asserts how many
/// (`assert_enqueued!(backend, SendEmail, 2)`), a closure that one matches
/// (`assert_enqueued!(backend, SendEmail, |job| job.to == "ada")`). A failure shows all that is there.
#[macro_export]
macro_rules! assert_enqueued {
    ($backend:expr, $job:ty $(, $($wanted:tt)+)?) => {
        // A match keeps a temporary in `$backend` alive to its end.
        match $crate::testing::AsMemory::as_memory(&$backend) {
            backend => {
                let found = $crate::testing::enqueued::<$job>(backend);
                $crate::testing::check(backend, "enqueued", &found, &$crate::__wanted!($job $(, $($wanted)+)?));
            }
        }
    };
}

/// Asserts that a job was settled so (one of [`Settled`](crate::testing::Settled)):
/// `assert_settled!(backend, SendEmail, Succeeded)`. A number or a closure may follow, as in
/// [`assert_enqueued!`](crate::assert_enqueued). A failure shows all that is there.
#[macro_export]
macro_rules! assert_settled {
    ($backend:expr, $job:ty, $how:ident $(, $($wanted:tt)+)?) => {
        match $crate::testing::AsMemory::as_memory(&$backend) {
            backend => {
                let found = $crate::testing::settled::<$job>(backend, $crate::testing::Settled::$how);
                $crate::testing::check(backend, stringify!($how), &found, &$crate::__wanted!($job $(, $($wanted)+)?));
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __wanted {
    ($job:ty) => {
        $crate::testing::Wanted::Any
    };
    ($job:ty, |$name:pat_param| $body:expr) => {
        $crate::testing::Wanted::Matching(&|$name: &$job| $body)
    };
    ($job:ty, $count:expr) => {
        $crate::testing::Wanted::Count($count)
    };
}

pub use crate::{assert_enqueued, assert_settled};
