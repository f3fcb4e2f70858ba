//! Collects what a worker is made of, checks all of it at once, declares, builds.

use std::{collections::HashMap, fmt, marker::PhantomData, panic::Location, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{
    backend::Backend,
    dead_letter::{DeadLetterHook, ErasedHook},
    duration::human,
    error::{BuildError, Error, Origin, Result},
    extract::States,
    handler::JobHandler,
    job::{Job, JobRegistration, SameSet},
    layer::{ErasedLayer, Layer},
    queue::{MAX_DELAY, QueueConfig, QueueKind, QueueSet},
    retry::RetryPolicy,
    worker::{
        Worker,
        discovery::discover,
        job_names::check_job_names,
        plan::{DEFAULT_ACK_TIMEOUT, Plan, QueuePlan},
        registry::{Registered, Registry},
        stats::Counters,
    },
};

const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);

/// Collects handlers and settings; [`build`](Self::build) checks them, all at once.
#[must_use = "a worker is made by `build()`"]
pub struct WorkerBuilder<Q, B: Backend + ?Sized = dyn Backend> {
    backend: Arc<B>,
    handlers: Vec<Registered>,
    discover_handlers: bool,
    states: States,
    /// What was wrong with the calls so far; the rest is found by `build()`.
    mistakes: Vec<BuildError>,
    queues: Option<Vec<Q>>,
    concurrency: Option<usize>,
    job_timeout: Option<Duration>,
    queue_overrides: HashMap<&'static str, RetryPolicy>,
    job_overrides: HashMap<&'static str, RetryPolicy>,
    hook: Option<Box<dyn ErasedHook>>,
    layers: Vec<Arc<dyn ErasedLayer>>,
    shutdown_timeout: Duration,
    close_backend: bool,
    require_all_handlers: bool,
    set: PhantomData<fn() -> Q>,
}

impl<Q: QueueSet, B: Backend + ?Sized> WorkerBuilder<Q, B> {
    pub(crate) fn new(backend: Arc<B>) -> Self {
        WorkerBuilder {
            backend,
            handlers: Vec::new(),
            discover_handlers: false,
            states: States::default(),
            mistakes: Vec::new(),
            queues: None,
            concurrency: None,
            job_timeout: None,
            queue_overrides: HashMap::new(),
            job_overrides: HashMap::new(),
            hook: None,
            layers: Vec::new(),
            shutdown_timeout: DEFAULT_SHUTDOWN_TIMEOUT,
            close_backend: false,
            require_all_handlers: false,
            set: PhantomData,
        }
    }

    /// Adds the handler of a job. Two for one job are an error of [`build`](Self::build) that names both places; a
    /// discovered one is left aside for it, which is how a test puts a fake in its place.
    #[track_caller]
    pub fn handler<H>(mut self, handler: H) -> Self
    where
        H: JobHandler,
        <H::Job as Job>::Queue: SameSet<Q>,
    {
        let origin = Origin { function: None, place: Location::caller().into() };
        self.handlers.push(Registered::new(handler, origin));
        self
    }

    /// Adds every function with `#[handler]` for jobs of this queue set that is linked into the program. Two for one
    /// job are an error of [`build`](Self::build).
    ///
    /// The linker sees a crate of handlers only where it is named once in the program, as in `use my_jobs as _;`.
    /// Where none is found at all, that is a warning.
    pub fn discover_handlers(mut self) -> Self {
        self.discover_handlers = true;
        self
    }

    /// Gives a value to the discovered handlers that take it as `State<T>`: each run gets a clone. A value that no
    /// one gave, and two of one type, are errors of [`build`](Self::build).
    #[track_caller]
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.mistakes.extend(self.states.give(value, Location::caller().into()).err());
        self
    }

    /// Consumes, and declares, only these queues. Default: all of the set.
    pub fn queues(mut self, queues: &[Q]) -> Self {
        self.queues = Some(queues.to_vec());
        self
    }

    /// How many jobs run at once in this process, shared fairly between the queues. Default: the sum of the prefetches
    /// of the consumed queues.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// Bounds one run, where neither the handler nor the job does. Default: no bound.
    pub fn job_timeout(mut self, limit: Duration) -> Self {
        self.job_timeout = Some(limit);
        self
    }

    /// Replaces the retry policy of a queue's jobs in this process, those with a policy of their own included.
    pub fn retry_override(mut self, queue: Q, policy: RetryPolicy) -> Self {
        self.queue_overrides.insert(queue.name(), policy);
        self
    }

    /// Replaces the retry policy of a job in this process; it beats [`retry_override`](Self::retry_override), and only
    /// a handler's own [`retry_policy`](JobHandler::retry_policy) beats it.
    pub fn job_retry_override<J>(mut self, policy: RetryPolicy) -> Self
    where
        J: Job,
        J::Queue: SameSet<Q>,
    {
        self.job_overrides.insert(J::NAME, policy);
        self
    }

    /// Sets who hears of dead letters and of messages that are no jobs. Default: only the log.
    pub fn on_dead_letter(mut self, hook: impl DeadLetterHook) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Adds middleware around every job; the first one added is outermost.
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// How long a shutdown may take in all. Default: 30 s.
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.shutdown_timeout = limit;
        self
    }

    /// Whether the end of the worker closes the backend too. Default: false, for others may use it.
    pub fn close_backend_on_shutdown(mut self, close: bool) -> Self {
        self.close_backend = close;
        self
    }

    /// Makes it an error of [`build`](Self::build) when a known job of a consumed queue has no handler. Without it,
    /// that is a warning.
    pub fn require_all_handlers(mut self) -> Self {
        self.require_all_handlers = true;
        self
    }

    /// Checks everything, declares the queues, makes sure that their jobs can wait, resolves the policies, and warns in
    /// the log of what will hurt.
    ///
    /// # Errors
    ///
    /// [`Error::NoHandler`]; [`Error::Build`] with every mistake; what [`Backend::declare`] and
    /// [`Backend::prepare_holds`] give.
    pub async fn build(mut self) -> Result<Worker<Q, B>> {
        if self.handlers.is_empty() && !self.discover_handlers {
            return Err(Error::NoHandler);
        }
        let mut mistakes = std::mem::take(&mut self.mistakes);
        let queues = self.queue_plans(&mut mistakes);
        let registry = self.registry(&queues, &mut mistakes);
        check_job_names::<Q>(&registry, &mut mistakes);
        self.check_handlers_present(&queues, &registry, &mut mistakes);
        check_waits(&queues, &registry, &mut mistakes);
        check_room(&registry, self.concurrency, &mut mistakes);
        if !mistakes.is_empty() {
            return Err(Error::Build(mistakes));
        }
        self.prepare(&queues, &registry).await?;
        let prefetched = || queues.iter().map(|queue| usize::from(queue.config.prefetch)).sum();
        let concurrency = self.concurrency.unwrap_or_else(prefetched).max(1);
        let plan = Plan {
            queues,
            registry,
            layers: self.layers.into(),
            hook: self.hook,
            concurrency,
            shutdown_timeout: self.shutdown_timeout,
            close_backend: self.close_backend,
            shutdown: CancellationToken::new(),
            stop_now: CancellationToken::new(),
        };
        warn_of_idle_settings(&plan, &self.queue_overrides);
        warn_of_expiry(&plan);
        warn_of_timeouts(&plan);
        Ok(Worker { backend: self.backend, plan: Arc::new(plan), set: PhantomData })
    }

    async fn prepare(&self, queues: &[QueuePlan], registry: &Registry) -> Result<()> {
        let mut configs: Vec<QueueConfig> = queues.iter().map(|queue| queue.config.clone()).collect();
        self.backend.declare(&configs).await?;
        // A handler can defer its job and retry it after a time, whatever the policy says; without one all is dead letters.
        configs.retain(|config| registry.iter().any(|handler| handler.queue == config.name));
        self.backend.prepare_holds(&configs).await
    }

    fn queue_plans(&self, mistakes: &mut Vec<BuildError>) -> Vec<QueuePlan> {
        let mut plans: Vec<QueuePlan> = Vec::new();
        for queue in self.queues.as_deref().unwrap_or(Q::all()) {
            if plans.iter().all(|plan| plan.name != queue.name()) {
                plans.push(QueuePlan {
                    name: queue.name(),
                    config: queue.config(),
                    counters: Counters::default(),
                });
            }
        }
        if plans.is_empty() {
            mistakes.push(BuildError::NoQueues);
        }
        plans
    }

    /// Registers the handlers, each with the policy and the limits that win.
    fn registry(&mut self, queues: &[QueuePlan], mistakes: &mut Vec<BuildError>) -> Registry {
        let mut handlers = std::mem::take(&mut self.handlers);
        if self.discover_handlers {
            let is_consumed = |name: &str| queues.iter().any(|queue| queue.name == name);
            handlers.extend(discover::<Q>(&handlers, &self.states, is_consumed, mistakes));
        }
        for handler in &mut handlers {
            if let Some(policy) = self.queue_overrides.get(handler.queue) {
                handler.policy = policy.clone();
            }
            if let Some(policy) = self.job_overrides.get(handler.job) {
                handler.policy = policy.clone();
            }
            handler.timeout = handler.timeout.or(self.job_timeout);
        }
        let registry = Registry::collect(handlers, mistakes);
        let unused = self.job_overrides.keys().filter(|job| registry.find(job).is_none());
        mistakes.extend(unused.map(|job| BuildError::UnusedOverride { job }));
        registry
    }

    fn check_handlers_present(
        &self,
        queues: &[QueuePlan],
        registry: &Registry,
        mistakes: &mut Vec<BuildError>,
    ) {
        let consumed = |name| queues.iter().any(|queue| queue.name == name);
        let unhandled = JobRegistration::all::<Q>()
            .filter(|job| consumed(job.queue()) && registry.find(job.name).is_none())
            .map(|job| BuildError::MissingHandler { job: job.name, queue: job.queue(), place: job.place });
        if self.require_all_handlers {
            mistakes.extend(unhandled);
        } else {
            unhandled.for_each(|missing| warn!("{missing}; without one it becomes a dead letter here"));
        }
    }
}

/// Refuses policies with waits that no backend can keep.
fn check_waits(queues: &[QueuePlan], registry: &Registry, mistakes: &mut Vec<BuildError>) {
    let of_queues = queues.iter().map(|queue| (format!("queue `{}`", queue.name), &queue.config.retry));
    let of_jobs = registry.iter().map(|handler| (format!("job `{}`", handler.job), &handler.policy));
    for (what, policy) in of_queues.chain(of_jobs) {
        let delay = policy.longest_wait();
        if delay > MAX_DELAY {
            let source = Box::new(Error::DelayTooLong { delay, max: MAX_DELAY });
            mistakes.push(BuildError::RetryTooLong { what, source });
        }
    }
}

/// Refuses bounds that would let nothing run.
fn check_room(registry: &Registry, concurrency: Option<usize>, mistakes: &mut Vec<BuildError>) {
    if concurrency == Some(0) {
        mistakes.push(BuildError::NoRoom { what: "the worker's concurrency".to_owned() });
    }
    for handler in registry.iter() {
        if handler.concurrency == Some(0) {
            mistakes.push(BuildError::NoRoom { what: format!("the concurrency of job `{}`", handler.job) });
        }
        if handler.timeout.is_some_and(|limit| limit.is_zero()) {
            mistakes.push(BuildError::NoRoom { what: format!("the timeout of job `{}`", handler.job) });
        }
    }
}

/// Warns of what was said of queues that this worker does not consume.
fn warn_of_idle_settings(plan: &Plan, overrides: &HashMap<&'static str, RetryPolicy>) {
    let consumed = |name: &str| plan.queues.iter().any(|queue| queue.name == name);
    for handler in plan.registry.iter().filter(|handler| !consumed(handler.queue)) {
        warn!(
            job = handler.job,
            queue = handler.queue,
            "this worker does not consume the queue of one of its handlers"
        );
    }
    for queue in overrides.keys().filter(|queue| !consumed(queue)) {
        warn!(queue, "this worker does not consume the queue of one of its retry overrides");
    }
}

fn warn_of_expiry(plan: &Plan) {
    for queue in &plan.queues {
        let is_kept = queue.config.dead_letter_expired || queue.config.kind == QueueKind::Quorum;
        if let (Some(ttl), false) = (queue.config.message_ttl, is_kept) {
            warn!(
                queue = queue.name,
                "jobs that wait longer than {} are destroyed by the broker: set `dead_letter_expired` to keep them",
                human(ttl)
            );
        }
    }
}

/// Warns of runs that the broker may not wait for: a prefetched delivery waits for those before it.
fn warn_of_timeouts(plan: &Plan) {
    let longest = plan.registry.iter().filter_map(|handler| handler.timeout).max();
    let Some(longest) = longest else { return };
    for queue in &plan.queues {
        let limit = queue.config.ack_timeout.unwrap_or(DEFAULT_ACK_TIMEOUT);
        let rounds = usize::from(queue.config.prefetch).div_ceil(plan.concurrency);
        let in_a_row = longest.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
        if in_a_row > limit {
            warn!(
                queue = queue.name,
                "a delivery may wait for {rounds} runs of up to {}, longer than the broker waits for its acknowledgement ({}): lower the prefetch or the timeout, or raise the broker's limit",
                human(longest),
                human(limit)
            );
        }
    }
}

impl<Q, B: Backend + ?Sized> fmt::Debug for WorkerBuilder<Q, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs: Vec<_> = self.handlers.iter().map(|handler| handler.job).collect();
        f.debug_struct("WorkerBuilder").field("handlers", &jobs).finish_non_exhaustive()
    }
}
