//! What runs a job.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc, time::Duration};

use crate::{
    context::JobContext,
    job::Job,
    job_error::{JobError, JobResult},
    retry::RetryPolicy,
};

/// Runs the jobs of one type. Written as a plain `async fn handle`.
///
/// A handler may run more than once for the same job: its work should be safe to repeat.
///
/// ```
/// # extern crate queuey_core as queuey;
/// # use queuey::{Job, QueueConfig, QueueSet};
/// # #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
/// # enum AppQueues { Emails }
/// # impl QueueSet for AppQueues {
/// #     fn all() -> &'static [Self] { &[Self::Emails] }
/// #     fn name(&self) -> &'static str { "emails" }
/// #     fn config(&self) -> QueueConfig { QueueConfig::new("emails") }
/// #     fn from_name(name: &str) -> Option<Self> { (name == "emails").then_some(Self::Emails) }
/// # }
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct SendEmail { to: String }
/// # impl Job for SendEmail {
/// #     type Queue = AppQueues;
/// #     const NAME: &'static str = "emails.send";
/// #     const QUEUE: AppQueues = AppQueues::Emails;
/// # }
/// use queuey::{JobContext, JobError, JobHandler};
///
/// struct Mailer { from: String }
///
/// impl JobHandler for Mailer {
///     type Job = SendEmail;
///
///     async fn handle(&self, job: SendEmail, ctx: JobContext) -> Result<(), JobError> {
///         println!("{} to {}, attempt {}", self.from, job.to, ctx.attempt);
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler",
    label = "expected a handler",
    note = "wrap a function or closure of a job and its `JobContext` in `FnHandler::new(...)`, or put `#[handler]` on an async function and call `discover_handlers()`"
)]
pub trait JobHandler: Send + Sync + 'static {
    /// The job it runs.
    type Job: Job;

    /// Runs one attempt.
    fn handle(&self, job: Self::Job, ctx: JobContext) -> impl Future<Output = Result<(), JobError>> + Send;

    /// The retry policy of this very job, above all others. Asked before the run.
    fn retry_policy(&self, job: &Self::Job) -> Option<RetryPolicy> {
        let _ = job;
        None
    }

    /// The longest a single run may take, above the job's own and the worker's.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// How many of its jobs run at once in this process, within the worker's concurrency.
    fn concurrency(&self) -> Option<usize> {
        None
    }
}

/// A handler that is shared, with a test that looks at its state for instance.
impl<H: JobHandler> JobHandler for Arc<H> {
    type Job = H::Job;

    fn handle(&self, job: Self::Job, ctx: JobContext) -> impl Future<Output = Result<(), JobError>> + Send {
        H::handle(self, job, ctx)
    }

    fn retry_policy(&self, job: &Self::Job) -> Option<RetryPolicy> {
        H::retry_policy(self, job)
    }

    fn timeout(&self) -> Option<Duration> {
        H::timeout(self)
    }

    fn concurrency(&self) -> Option<usize> {
        H::concurrency(self)
    }
}

/// A [`JobHandler`] made of a function of a job and its context.
///
/// ```
/// # extern crate queuey_core as queuey;
/// # use queuey::{Job, QueueConfig, QueueSet};
/// # #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
/// # enum AppQueues { Emails }
/// # impl QueueSet for AppQueues {
/// #     fn all() -> &'static [Self] { &[Self::Emails] }
/// #     fn name(&self) -> &'static str { "emails" }
/// #     fn config(&self) -> QueueConfig { QueueConfig::new("emails") }
/// #     fn from_name(name: &str) -> Option<Self> { (name == "emails").then_some(Self::Emails) }
/// # }
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct SendEmail { to: String }
/// # impl Job for SendEmail {
/// #     type Queue = AppQueues;
/// #     const NAME: &'static str = "emails.send";
/// #     const QUEUE: AppQueues = AppQueues::Emails;
/// # }
/// use std::sync::Arc;
/// use queuey::{FnHandler, JobContext};
///
/// let plain = FnHandler::<SendEmail, _>::new(async |job, _ctx| {
///     println!("to {}", job.to);
///     Ok(())
/// });
/// let sent = Arc::new(std::sync::Mutex::new(Vec::new()));
/// let with_state = FnHandler::<SendEmail, _>::with(sent, async |sent, job, _ctx: JobContext| {
///     sent.lock().unwrap().push(job.to);
///     Ok(())
/// });
/// ```
pub struct FnHandler<J, F> {
    run: F,
    pub(crate) timeout: Option<Duration>,
    pub(crate) concurrency: Option<usize>,
    job: PhantomData<fn() -> J>,
}

impl<J, F, Fut> FnHandler<J, F>
where
    J: Job,
    F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = JobResult> + Send,
{
    /// Runs every job of type `J` with `f`.
    pub fn new(f: F) -> Self {
        FnHandler { run: f, timeout: None, concurrency: None, job: PhantomData }
    }
}

impl<J: Job> FnHandler<J, ()> {
    /// Runs every job of type `J` with `f`, which is given a clone of `state`.
    pub fn with<S, F, Fut>(
        state: S,
        f: F,
    ) -> FnHandler<J, impl Fn(J, JobContext) -> Fut + Send + Sync + 'static>
    where
        S: Clone + Send + Sync + 'static,
        F: Fn(S, J, JobContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = JobResult> + Send,
    {
        FnHandler::new(move |job, ctx| f(state.clone(), job, ctx))
    }
}

impl<J, F> FnHandler<J, F> {
    /// Bounds one run.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        Self { timeout: Some(limit), ..self }
    }

    /// Bounds how many of these jobs run at once in this process.
    #[must_use]
    pub fn concurrency(self, most: usize) -> Self {
        Self { concurrency: Some(most), ..self }
    }
}

impl<J, F> fmt::Debug for FnHandler<J, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnHandler").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl<J, F, Fut> JobHandler for FnHandler<J, F>
where
    J: Job,
    F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = JobResult> + Send,
{
    type Job = J;

    fn handle(&self, job: J, ctx: JobContext) -> impl Future<Output = JobResult> + Send {
        (self.run)(job, ctx)
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn concurrency(&self) -> Option<usize> {
        self.concurrency
    }
}
