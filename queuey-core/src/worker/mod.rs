//! The worker: deliveries come in, jobs run, deliveries are settled.

use std::{fmt, future::Future, marker::PhantomData, sync::Arc};

use tracing::{error, info};

use crate::{
    backend::Backend,
    dead_letter::Malformed,
    error::{Error, Result, with_sources},
    queue::QueueSet,
};

mod registry;
mod discovery;
mod job_names;
mod attempt;
mod judge;
mod stats;
mod plan;
mod settle;
mod redelivery;
mod slots;
mod isolation;
mod in_hand;
mod receive;
mod dispatch;
mod waiting;
mod crew;
mod shutdown;
mod builder;

pub use builder::WorkerBuilder;
pub use discovery::{Found, HandlerRegistration, Wanted};
pub use shutdown::{RunReport, WorkerHandle};
pub use stats::{Counts, Stats};

use crew::Crew;
use plan::Plan;
use receive::{Received, Sources};
use shutdown::{StopSignals, close, drain, until};

/// Consumes the queues of a set and runs its jobs. Built by [`Worker::builder`], ended by its [`WorkerHandle`].
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queuey::Result<()> {
/// use std::sync::Arc;
/// use queuey::{FnHandler, MemoryBackend, Producer, Worker};
///
/// let backend = Arc::new(MemoryBackend::new());
/// let worker = Worker::<AppQueues>::builder(backend.clone())
///     .handler(FnHandler::<SendEmail, _>::new(async |job, _ctx| {
///         println!("to {}", job.to);
///         Ok(())
///     }))
///     .build()
///     .await?;
/// let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
///
/// Producer::<AppQueues>::new(backend.clone()).await?.enqueue(&SendEmail { to: "ada".into() }).await?;
/// while handle.stats().succeeded == 0 {
///     tokio::task::yield_now().await;
/// }
/// handle.shutdown();
/// running.await.expect("the worker does not panic")?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a worker does nothing until it is run"]
pub struct Worker<Q, B: Backend + ?Sized = dyn Backend> {
    backend: Arc<B>,
    plan: Arc<Plan>,
    set: PhantomData<fn() -> Q>,
}

impl<Q: QueueSet, B: Backend + ?Sized> Worker<Q, B> {
    /// Begins to build a worker on a backend.
    pub fn builder(backend: Arc<B>) -> WorkerBuilder<Q, B> {
        WorkerBuilder::new(backend)
    }

    /// What stops the worker and tells how it stands. It works before [`run`](Self::run) and after.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle(self.plan.clone())
    }

    /// Runs jobs until [`WorkerHandle::shutdown`], then drains within the `shutdown_timeout`: deliveries that have not
    /// started are handed back, running jobs see [`cancelled()`](crate::JobContext::cancelled) and may finish, and what
    /// still runs at the deadline is aborted and handed back.
    ///
    /// # Errors
    ///
    /// What [`Backend::consume`] gives; [`Error::ConsumerStopped`], or what its consumer gave, when a queue can't be
    /// consumed any more. What was running is drained first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts what runs; every delivery in hand goes back to its queue.
    pub async fn run(self) -> Result<RunReport> {
        let Worker { backend, plan, .. } = self;
        let report = run(&*backend, &plan).await;
        close(&*backend, &plan).await;
        report
    }

    /// [`run`](Self::run), with the shutdown begun when `stop` resolves.
    ///
    /// # Errors
    ///
    /// See [`run`](Self::run).
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<RunReport> {
        let handle = self.handle();
        until(self.run(), stop, handle).await
    }

    /// [`run`](Self::run), with the shutdown begun by SIGINT or SIGTERM (Ctrl-C on Windows). A second signal stops at
    /// once: what runs is aborted and handed back.
    ///
    /// # Errors
    ///
    /// See [`run`](Self::run); [`Error::Backend`] where the process can't listen to signals.
    pub async fn run_until_signal(self) -> Result<RunReport> {
        let mut signals = StopSignals::listen().map_err(Error::backend)?;
        let (handle, stop_now) = (self.handle(), self.plan.stop_now.clone());
        let signalled = async {
            signals.next().await;
            info!("signal received: worker shuts down; a second signal stops it at once");
            handle.shutdown();
            signals.next().await;
            info!("second signal received: worker stops at once");
            stop_now.cancel();
            std::future::pending().await
        };
        tokio::select! {
            ended = self.run() => ended,
            never = signalled => never,
        }
    }
}

/// Subscribes, works and drains.
async fn run(backend: &(impl Backend + ?Sized), plan: &Arc<Plan>) -> Result<RunReport> {
    let mut crew = Crew::new(plan.clone());
    let sources = tokio::select! {
        biased;
        () = plan.shutdown.cancelled() => return Ok(RunReport::default()),
        sources = Sources::open(backend, plan) => sources,
    };
    let mut sources = sources?;
    info!(queues = ?plan.queues.iter().map(|queue| queue.name).collect::<Vec<_>>(), concurrency = plan.concurrency, "worker runs");
    let stopped = work(plan, &mut sources, &mut crew).await;
    // A worker that has lost a consumer comes to its end like any other.
    plan.shutdown.cancel();
    let report = drain(backend, plan, sources, crew).await;
    stopped.map(|()| report)
}

/// Runs jobs until the shutdown begins or a consumer ends.
async fn work(plan: &Plan, sources: &mut Sources, crew: &mut Crew) -> Result<()> {
    let shutdown = plan.shutdown.cancelled();
    tokio::pin!(shutdown);
    while !plan.shutdown.is_cancelled() {
        crew.start();
        // Where everything is ready at once, others of the runtime still have their turn.
        tokio::task::coop::consume_budget().await;
        tokio::select! {
            biased;
            () = &mut shutdown => {}
            () = crew.progress() => {}
            received = sources.next() => take_in(plan, crew, received)?,
        }
    }
    Ok(())
}

/// Takes in what came from a queue.
fn take_in(plan: &Plan, crew: &mut Crew, Received { queue, ticket, item }: Received) -> Result<()> {
    match item {
        Some(Ok(delivery)) => crew.enter(queue, ticket, delivery),
        Some(Err(Error::Malformed { queue: name, reason, body })) => {
            crew.report(queue, ticket, Malformed::new(name, reason, body.0));
        }
        Some(Err(error)) => {
            error!(queue = plan.queues[queue].name, error = with_sources(&error), "consumer failed");
            return Err(error);
        }
        None => return Err(Error::ConsumerStopped(plan.queues[queue].name.to_owned())),
    }
    Ok(())
}

impl<Q, B: Backend + ?Sized> fmt::Debug for Worker<Q, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("concurrency", &self.plan.concurrency).finish_non_exhaustive()
    }
}
