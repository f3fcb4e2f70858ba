//! A flow of jobs over a number of queues: for each that is enqueued one is handled, so that whatever waits goes on waiting.

use std::{future::Future, sync::Arc};

use anyhow::Result;
use lapin::{Connection, message::Delivery, options::BasicAckOptions};
use queuey::prelude::*;
use tokio::{
    sync::{Notify, Semaphore},
    task::{JoinHandle, JoinSet},
};

use crate::{
    bare,
    measure::{Measured, Stopwatch, Tally, in_tasks},
    message::Kind,
    ours,
    work::{OneOfMany, PREFETCH, Spread, spread},
};

/// How many tasks enqueue.
const TASKS: u64 = 64;

/// Who counts, and who lets a job be handled.
#[derive(Clone)]
struct Gate {
    /// A permit for each job that was enqueued.
    enqueued: Arc<Semaphore>,
    /// The first job of each queue: from then on there is nothing to start up any more.
    first: Arc<Tally>,
    /// All jobs, the first ones included.
    all: Arc<Tally>,
}

impl Gate {
    fn new(queues: u64, jobs: u64) -> Self {
        let tally = |jobs| Arc::new(Tally::of(jobs));
        Gate { enqueued: Arc::new(Semaphore::new(0)), first: tally(queues), all: tally(queues + jobs) }
    }

    /// Lets those through that wait: nothing is measured any more.
    fn open(&self) {
        self.enqueued.close();
    }

    async fn pass(&self) {
        if let Ok(permit) = self.enqueued.acquire().await {
            permit.forget();
        }
        self.first.one();
    }
}

/// The flow through queuey over queues that exist or not.
pub(crate) async fn queuey(url: String, queues: &'static [OneOfMany], jobs: u64) -> Result<Measured> {
    let backend = ours::connect(&url).await?;
    let gate = Gate::new(queues.len() as u64, jobs);
    let passing = gate.clone();
    let worker = worker(&backend, queues, move |job: Spread| {
        let gate = passing.clone();
        async move {
            gate.pass().await;
            std::hint::black_box(&job);
            gate.all.one();
            Ok(())
        }
    });
    let running = start(worker.await?);
    let (gated, shared) = (gate.clone(), backend.clone());
    let enqueue = move |number: u64| {
        let (backend, gate) = (shared.clone(), gated.clone());
        async move {
            let queue = queues[number as usize % queues.len()];
            backend.publish(&spread(number, queue)?, None).await?;
            gate.enqueued.add_permits(1);
            Ok(())
        }
    };
    for number in 0..queues.len() as u64 {
        enqueue(number).await?;
    }
    gate.first.done().await?;
    let stopwatch = Stopwatch::start();
    in_tasks(TASKS, jobs, enqueue).await?;
    gate.all.done().await?;
    let measured = stopwatch.stop(jobs);
    gate.open();
    running.stop().await?;
    backend.close().await?;
    Ok(measured)
}

/// The flow through bare lapin over queues that exist.
pub(crate) async fn lapin(url: String, queues: &'static [OneOfMany], jobs: u64) -> Result<Measured> {
    let (publishing, consuming) = (bare::connect(&url).await?, bare::connect(&url).await?);
    let publisher = bare::confirming(&publishing).await?;
    let gate = Gate::new(queues.len() as u64, jobs);
    let mut receiving = consume(&consuming, queues, &gate).await?;
    let (gated, shared) = (gate.clone(), publisher.clone());
    let enqueue = move |number: u64| {
        let (publisher, gate) = (shared.clone(), gated.clone());
        async move {
            let queue = queues[number as usize % queues.len()].name();
            bare::publish(&publisher, queue.into(), Kind::Same.message::<Spread>(queue, number)?).await?;
            gate.enqueued.add_permits(1);
            Ok(())
        }
    };
    for number in 0..queues.len() as u64 {
        enqueue(number).await?;
    }
    gate.first.done().await?;
    let stopwatch = Stopwatch::start();
    in_tasks(TASKS, jobs, enqueue).await?;
    tokio::select! {
        Some(ended) = receiving.join_next() => ended??,
        done = gate.all.done() => done?,
    }
    let measured = stopwatch.stop(jobs);
    bare::close(&publishing).await?;
    bare::close(&consuming).await?;
    Ok(measured)
}

/// A channel with a consumer for each queue.
async fn consume(
    connection: &Connection,
    queues: &'static [OneOfMany],
    gate: &Gate,
) -> Result<JoinSet<Result<()>>> {
    let mut receiving = JoinSet::new();
    for queue in queues {
        let (channel, gate) = (connection.create_channel().await?, gate.clone());
        receiving.spawn(async move {
            let all = gate.all.clone();
            let handle = move |delivery: Delivery| {
                let gate = gate.clone();
                async move {
                    gate.pass().await;
                    let job = Kind::Same.read(&delivery.data)?;
                    std::hint::black_box(&job);
                    delivery.ack(BasicAckOptions::default()).await?;
                    Ok(())
                }
            };
            bare::receive(&channel, queue.name(), all, handle).await
        });
    }
    Ok(receiving)
}

/// A worker on many queues.
pub(crate) async fn worker<F, Fut>(
    backend: &Arc<RabbitMqBackend>,
    queues: &[OneOfMany],
    handle: F,
) -> Result<Worker<OneOfMany, RabbitMqBackend>>
where
    F: Fn(Spread) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = JobResult> + Send + 'static,
{
    let worker = Worker::<OneOfMany, _>::builder(backend.clone())
        .queues(queues)
        .handler(FnHandler::<Spread, _>::new(move |job, _ctx| handle(job)))
        .concurrency(PREFETCH.into());
    Ok(worker.build().await?)
}

/// A worker that runs beside what is measured.
pub(crate) struct Running {
    stop: Arc<Notify>,
    worker: JoinHandle<queuey::Result<queuey::RunReport>>,
}

pub(crate) fn start<Q: QueueSet>(worker: Worker<Q, RabbitMqBackend>) -> Running {
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let worker = tokio::spawn(worker.run_until(async move { stopped.notified().await }));
    Running { stop, worker }
}

impl Running {
    /// Ends it, with everything acknowledged.
    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.notify_one();
        self.worker.await??;
        Ok(())
    }
}
