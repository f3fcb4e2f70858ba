//! What the programs on queuey have in common, written as an application writes them.

use std::{future::Future, sync::Arc};

use anyhow::{Result, ensure};
use queuey::prelude::*;

use crate::{
    bare,
    measure::{Tally, in_tasks},
    work::{BenchQueue, PREFETCH, made_of},
};

/// How many tasks fill a queue, where that isn't measured.
const FILLING: u64 = 512;

pub(crate) async fn connect(url: &str) -> Result<Arc<RabbitMqBackend>> {
    Ok(Arc::new(RabbitMqBackend::connect(url).await?))
}

/// A producer for one queue, which is declared.
pub(crate) async fn producer(
    backend: &Arc<RabbitMqBackend>,
    queue: BenchQueue,
) -> Result<Producer<BenchQueue, RabbitMqBackend>> {
    backend.declare(&[queue.config()]).await?;
    Ok(Producer::new_undeclared(backend.clone()))
}

/// Enqueues jobs from a number of tasks, each of which awaits every job before the next.
pub(crate) async fn enqueue<J>(
    producer: &Producer<BenchQueue, RabbitMqBackend>,
    tasks: u64,
    jobs: u64,
) -> Result<()>
where
    J: Job<Queue = BenchQueue> + From<u64>,
{
    let producer = producer.clone();
    in_tasks(tasks, jobs, move |number| {
        let enqueued = producer.enqueue(&J::from(number));
        async move {
            enqueued.await?;
            Ok(())
        }
    })
    .await
}

/// Declares the queue of a job with this many of them on it.
pub(crate) async fn fill<J>(url: &str, jobs: u64) -> Result<()>
where
    J: Job<Queue = BenchQueue> + From<u64>,
{
    let backend = connect(url).await?;
    let producer = producer(&backend, J::QUEUE).await?;
    enqueue::<J>(&producer, FILLING, jobs).await?;
    backend.close().await?;
    Ok(())
}

/// A worker that runs jobs of one kind, as many at once as the consumer of lapin's side.
pub(crate) async fn worker<J, F, Fut>(
    backend: &Arc<RabbitMqBackend>,
    handle: F,
) -> Result<Worker<BenchQueue, RabbitMqBackend>>
where
    J: Job<Queue = BenchQueue>,
    F: Fn(J, JobContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = JobResult> + Send + 'static,
{
    let worker = Worker::<BenchQueue, _>::builder(backend.clone())
        .queues(&[J::QUEUE])
        .handler(FnHandler::<J, _>::new(handle))
        .concurrency(PREFETCH.into());
    Ok(worker.build().await?)
}

/// Waits for the last job; for [`Worker::run_until`].
pub(crate) async fn all_of(tally: Arc<Tally>) {
    // Only handlers count on this side, and they report no failures.
    let _ = tally.done().await;
}

/// Looks whether a queue has what it is to have once a measurement is over, and deletes it.
pub(crate) async fn leave_with(url: &str, queue: BenchQueue, ready: u64) -> Result<()> {
    let found = bare::ready(url, queue.name()).await?;
    ensure!(found == ready, "{found} jobs are on the queue in the end, not {ready}");
    bare::delete(url, &made_of(&[queue])).await
}
