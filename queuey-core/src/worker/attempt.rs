//! One attempt: the payload is read, the job is run, and whatever happens is an outcome.

use std::{any::Any, borrow::Cow, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::warn;

use crate::{
    BoxFuture,
    backend::Delivery,
    clock,
    context::{JobContext, Signals},
    job_error::{JobError, JobErrorKind, JobResult},
    layer::{Layers, Next},
    retry::RetryPolicy,
    worker::registry::{Decoded, Registered},
};

/// A run that comes back this much after its limit did not get there by waiting.
const BLOCKED: Duration = Duration::from_millis(100);

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The job is done.
    Succeeded,
    /// The handler answered with an error, panicked or ran out of time.
    Failed { kind: JobErrorKind, reason: String },
    /// The payload does not have the job's shape. The reason may quote it, and so is kept out of the log.
    Undecodable { reason: String, at: String },
}

/// An outcome, and the policy it is judged by.
pub(crate) struct Attempt<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) policy: Cow<'a, RetryPolicy>,
}

/// A job whose payload was read, with its context.
pub(crate) struct Ready<'a> {
    job: Box<dyn Decoded>,
    ctx: JobContext,
    policy: Cow<'a, RetryPolicy>,
    timeout: Option<Duration>,
}

/// What came of reading a payload.
pub(crate) enum Prepared<'a> {
    /// It can be run.
    Ready(Ready<'a>),
    /// It can't be read, which is an outcome already.
    Over(Attempt<'a>),
}

/// Reads the payload of a job that came from `queue`.
pub(crate) fn prepare<'a>(
    registered: &'a Registered,
    queue: &'static str,
    delivery: &dyn Delivery,
    signals: Signals,
) -> Prepared<'a> {
    let envelope = delivery.envelope();
    let policy = Cow::Borrowed(&registered.policy);
    let read = guard(|| {
        let job = registered.handler.decode(&envelope.payload).map_err(|error| undecodable(&error))?;
        let own_policy = job.retry_policy();
        Ok((job, own_policy))
    });
    let (job, own_policy) = match read {
        Ok(Ok(read)) => read,
        Ok(Err(outcome)) => return Prepared::Over(Attempt { outcome, policy }),
        Err(panic) => {
            return Prepared::Over(Attempt { outcome: outcome_of(Err(JobError::panicked(panic))), policy });
        }
    };
    let policy = own_policy.map_or(policy, Cow::Owned);
    let mut ctx = JobContext::of(envelope, registered.job, queue, policy.max_attempts.max(1), signals);
    ctx.redeliveries = delivery.delivery_count().unwrap_or(ctx.redeliveries);
    Prepared::Ready(Ready { job, ctx, policy, timeout: registered.timeout })
}

impl<'a> Ready<'a> {
    /// Runs the handler within the layers.
    ///
    /// Panics are caught wherever they come from: the handler, a layer, the text of an error, a destructor.
    pub(crate) async fn run(self, layers: &Layers) -> Attempt<'a> {
        let Ready { job, ctx, policy, timeout } = self;
        let next = Next::new(layers.clone(), Box::new(move |ctx| bounded(job, ctx, timeout)));
        let run = AssertUnwindSafe(async move { outcome_of(next.run(ctx).await) }).catch_unwind();
        let outcome = run.await.unwrap_or_else(|panic| outcome_of(Err(JobError::panicked(message(panic)))));
        Attempt { outcome, policy }
    }
}

/// The handler within its time limit, its panics turned into failures.
fn bounded(
    job: Box<dyn Decoded>,
    ctx: JobContext,
    timeout: Option<Duration>,
) -> BoxFuture<'static, JobResult> {
    Box::pin(async move {
        // The handler's future is made, polled and dropped in here, so that a panic in any of it is caught.
        let run = AssertUnwindSafe(async move {
            match timeout {
                None => job.run(ctx).await,
                Some(limit) => within(limit, job, ctx).await,
            }
        });
        run.catch_unwind().await.unwrap_or_else(|panic| Err(JobError::panicked(message(panic))))
    })
}

async fn within(limit: Duration, job: Box<dyn Decoded>, ctx: JobContext) -> JobResult {
    let start = Instant::now();
    let run = job.run(ctx.cut_off_at(Some(cut_off(limit))));
    let result = tokio::time::timeout(limit, run).await.unwrap_or_else(|_| Err(JobError::timed_out(limit)));
    let took = start.elapsed();
    // Only an await lets a run be cut off.
    if took > limit + BLOCKED {
        warn!(
            ?took,
            ?limit,
            "the handler blocked its thread past its limit: use `tokio::task::spawn_blocking`"
        );
    }
    result
}

/// When `cancelled()` fires before a run is cut off: in its last tenth, at most a second before.
fn cut_off(timeout: Duration) -> Instant {
    clock::after(timeout - (timeout / 10).min(Duration::from_secs(1)))
}

fn undecodable(error: &serde_json::Error) -> Outcome {
    let at = format!("the payload does not fit at line {} column {}", error.line(), error.column());
    Outcome::Undecodable { reason: error.to_string(), at }
}

fn outcome_of(result: JobResult) -> Outcome {
    match result {
        Ok(()) => Outcome::Succeeded,
        Err(error) => Outcome::Failed { kind: error.kind(), reason: error.reason() },
    }
}

/// Runs `f`; a panic becomes its message.
pub(crate) fn guard<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(f)).map_err(message)
}

/// The message of a panic.
pub(crate) fn message(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<&'static str>() {
        Ok(text) => return (*text).to_owned(),
        Err(panic) => panic,
    };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => {
            // The payload's own destructor may panic in turn.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(other)));
            "a value that is no string".to_owned()
        }
    }
}
