//! From a job's name to its handler, with everything that is known of the job before it comes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde_json::value::RawValue;

use crate::{
    BoxFuture,
    context::JobContext,
    error::{BuildError, Origin},
    handler::JobHandler,
    job::{Job, JobType},
    job_error::JobResult,
    queue::QueueSet,
    retry::RetryPolicy,
};

/// The handlers of a worker.
pub(crate) struct Registry {
    by_job: HashMap<&'static str, Registered>,
    /// How many jobs each limited handler runs at once.
    limits: Vec<usize>,
}

/// A handler, and what is known of its job.
pub(crate) struct Registered {
    pub(crate) job: &'static str,
    /// The queue the job is enqueued to.
    pub(crate) queue: &'static str,
    pub(crate) origin: Origin,
    /// What a payload is read as.
    pub(crate) job_type: JobType,
    /// The job's policy where the handler has none for a very job.
    pub(crate) policy: RetryPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_deferrals: Option<u32>,
    /// How many of its jobs run at once, where the handler says so.
    pub(crate) concurrency: Option<usize>,
    /// The place of that limit in [`Registry::limits`].
    pub(crate) limit: Option<usize>,
    pub(crate) handler: Box<dyn ErasedHandler>,
}

impl Registry {
    /// Collects handlers; two for one job are a mistake.
    pub(crate) fn collect(handlers: Vec<Registered>, mistakes: &mut Vec<BuildError>) -> Self {
        let mut registry = Registry { by_job: HashMap::with_capacity(handlers.len()), limits: Vec::new() };
        for mut handler in handlers {
            if let Some(first) = registry.by_job.get(handler.job) {
                let (first, second) = (first.origin, handler.origin);
                mistakes.push(BuildError::DuplicateHandler { job: handler.job, first, second });
                continue;
            }
            if let Some(most) = handler.concurrency {
                handler.limit = Some(registry.limits.len());
                registry.limits.push(most);
            }
            registry.by_job.insert(handler.job, handler);
        }
        registry
    }

    pub(crate) fn find(&self, job: &str) -> Option<&Registered> {
        self.by_job.get(job)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.by_job.values()
    }

    pub(crate) fn limits(&self) -> &[usize] {
        &self.limits
    }
}

impl Registered {
    /// Registers a handler with what its job says of itself; overrides come later.
    pub(crate) fn new<H: JobHandler>(handler: H, origin: Origin) -> Self {
        let queue = H::Job::QUEUE.config();
        Registered {
            job: H::Job::NAME,
            queue: H::Job::QUEUE.name(),
            origin,
            job_type: JobType::of::<H::Job>(),
            policy: H::Job::retry_policy().unwrap_or(queue.retry),
            timeout: handler.timeout().or_else(H::Job::timeout),
            max_deferrals: H::Job::max_deferrals().or(queue.max_deferrals),
            concurrency: handler.concurrency(),
            limit: None,
            handler: Box::new(Typed(Arc::new(handler))),
        }
    }
}

/// A handler behind a pointer.
pub(crate) trait ErasedHandler: Send + Sync {
    /// Reads the payload; what comes back can be run.
    fn decode(&self, payload: &RawValue) -> Result<Box<dyn Decoded>, serde_json::Error>;
}

/// A job with its handler, ready to run.
pub(crate) trait Decoded: Send {
    /// What the handler says of this very job.
    fn retry_policy(&self) -> Option<RetryPolicy>;

    fn run(self: Box<Self>, ctx: JobContext) -> BoxFuture<'static, JobResult>;
}

struct Typed<H>(Arc<H>);

impl<H: JobHandler> ErasedHandler for Typed<H> {
    fn decode(&self, payload: &RawValue) -> Result<Box<dyn Decoded>, serde_json::Error> {
        let job: H::Job = serde_json::from_str(payload.get())?;
        Ok(Box::new(Ready { handler: self.0.clone(), job }))
    }
}

struct Ready<H: JobHandler> {
    handler: Arc<H>,
    job: H::Job,
}

impl<H: JobHandler> Decoded for Ready<H> {
    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.handler.retry_policy(&self.job)
    }

    fn run(self: Box<Self>, ctx: JobContext) -> BoxFuture<'static, JobResult> {
        let Ready { handler, job } = *self;
        Box::pin(async move { handler.handle(job, ctx).await })
    }
}
