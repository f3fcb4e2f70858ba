//! A worker under way.

use queuey::{Backend, QueueSet, Result, RunReport, Stats, Worker, WorkerBuilder, WorkerHandle};
use tokio::task::JoinHandle;

/// A worker that runs in a task of its own.
#[derive(Debug)]
pub struct Running {
    /// Its handle.
    pub handle: WorkerHandle,
    run: JoinHandle<Result<RunReport>>,
}

impl Running {
    /// Builds and starts a worker.
    pub async fn start<Q: QueueSet, B: Backend + ?Sized>(builder: WorkerBuilder<Q, B>) -> Self {
        Self::start_built(builder.build().await.expect("the worker is built"))
    }

    /// Starts a worker that was built.
    pub fn start_built<Q: QueueSet, B: Backend + ?Sized>(worker: Worker<Q, B>) -> Self {
        let handle = worker.handle();
        Running { run: tokio::spawn(worker.run()), handle }
    }

    /// What it has done so far.
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// How many jobs have come to their end.
    pub fn ended(&self) -> u64 {
        let stats = self.stats();
        stats.succeeded + stats.discarded + stats.dead_total()
    }

    /// Waits until this many jobs have come to their end.
    pub async fn until_ended(&self, jobs: u64) {
        crate::until(&format!("{jobs} jobs ended"), || self.ended() >= jobs).await;
    }

    /// Shuts down and waits for the report.
    pub async fn stop(self) -> RunReport {
        self.handle.shutdown();
        self.join().await.expect("the worker ran to its end")
    }

    /// Waits for what `run` gives.
    pub async fn join(self) -> Result<RunReport> {
        self.run.await.expect("the worker does not panic")
    }

    /// Drops the future of `run`, as a program does that is careless or in a hurry.
    pub async fn cut_off(self) {
        self.run.abort();
        let _ = self.run.await;
    }
}
