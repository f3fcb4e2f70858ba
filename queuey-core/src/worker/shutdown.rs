//! How a worker comes to its end: signals in, one deadline for all of it, a report out.

use std::{future::Future, io, sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::{error, info, warn};
use uuid::Uuid;

use crate::{
    backend::Backend,
    clock,
    error::with_sources,
    worker::{crew::Crew, plan::Plan, receive::Sources, stats::Stats},
};

/// How long each step past the deadline may take: the aborted jobs to be gone, their deliveries to be handed back, the
/// backend to flush.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long a backend may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// What a worker that came to its end has left behind. What it did before is in [`WorkerHandle::stats`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunReport {
    /// Jobs that were under way when the stop came, and came to their end.
    pub finished: u64,
    /// Deliveries that had not started, and were handed back.
    pub returned: u64,
    /// Jobs that were cut off at the deadline, while they ran or were being settled; they will run again.
    pub aborted: Vec<Uuid>,
}

/// Stops a worker and tells how it stands, from anywhere. Cheap to clone.
#[derive(Clone)]
pub struct WorkerHandle(pub(crate) Arc<Plan>);

impl WorkerHandle {
    /// Begins the shutdown: no new job starts, running ones may finish. Repeating it changes nothing.
    pub fn shutdown(&self) {
        self.0.shutdown.cancel();
    }

    /// Whether the shutdown has begun.
    pub fn is_shutdown(&self) -> bool {
        self.0.shutdown.is_cancelled()
    }

    /// What the worker has done so far.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }
}

impl std::fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerHandle").field("is_shutdown", &self.is_shutdown()).finish_non_exhaustive()
    }
}

/// Brings everything to its end within the plan's `shutdown_timeout`, give or take the steps past it.
pub(crate) async fn drain(
    backend: &(impl Backend + ?Sized),
    plan: &Plan,
    sources: Sources,
    mut crew: Crew,
) -> RunReport {
    let deadline = clock::after(plan.shutdown_timeout);
    // The consumers end first, so that nothing that is handed back comes straight in again.
    drop(sources);
    let finished_before = crew.finished();
    let returned = crew.hand_back_waiting();
    info!(returned, "worker shuts down");
    let in_time = tokio::select! {
        biased;
        () = crew.all_ended() => true,
        () = tokio::time::sleep_until(deadline) => false,
        () = plan.stop_now.cancelled() => false,
    };
    let aborted = if in_time { Vec::new() } else { crew.abort(PATIENCE).await };
    if !aborted.is_empty() {
        warn!(?aborted, "jobs cut off: handed back");
    }
    // Past the deadline, or told to stop at once, there is still a moment for what was handed back to be sent.
    let latest = deadline.max(Instant::now() + PATIENCE);
    tokio::select! {
        biased;
        () = flush(backend, plan, latest) => {}
        () = told_to_hurry(plan) => error!("stopped before all that was settled was known to have reached the broker"),
    }
    RunReport { finished: crew.finished() - finished_before, returned, aborted }
}

/// Resolves a moment after the worker was told to stop at once.
async fn told_to_hurry(plan: &Plan) {
    plan.stop_now.cancelled().await;
    tokio::time::sleep(PATIENCE).await;
}

async fn flush(backend: &(impl Backend + ?Sized), plan: &Plan, deadline: Instant) {
    let flushed = tokio::time::timeout_at(deadline, async {
        for queue in &plan.queues {
            if let Err(error) = backend.flush(&queue.config).await {
                error!(
                    queue = queue.name,
                    error = with_sources(&error),
                    "not all that was settled reached the broker"
                );
            }
        }
    });
    if flushed.await.is_err() {
        error!("the broker did not answer before the deadline: what was not settled will be delivered again");
    }
}

/// Closes the backend, where the plan says so.
pub(crate) async fn close(backend: &(impl Backend + ?Sized), plan: &Plan) {
    if !plan.close_backend {
        return;
    }
    match tokio::time::timeout(CLOSE_TIMEOUT, backend.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => error!(error = with_sources(&error), "the backend was closed with an error"),
        Err(_) => error!("the backend did not close in time"),
    }
}

/// The signals that ask a process to end.
#[cfg(unix)]
pub(crate) struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl StopSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Resolves on the next SIGINT or SIGTERM.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The signals that ask a process to end.
#[cfg(not(unix))]
pub(crate) struct StopSignals;

#[cfg(not(unix))]
impl StopSignals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(StopSignals)
    }

    /// Resolves on the next Ctrl-C.
    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Runs `run` to its end; `stop` begins the shutdown.
pub(crate) async fn until<T>(
    run: impl Future<Output = T>,
    stop: impl Future<Output = ()>,
    handle: WorkerHandle,
) -> T {
    tokio::pin!(run);
    tokio::select! {
        biased;
        ended = &mut run => return ended,
        () = stop => handle.shutdown(),
    }
    run.await
}
