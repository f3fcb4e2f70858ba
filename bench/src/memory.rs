//! The memory backend: enqueue and handle no-op jobs, beside a bare tokio program, over backlogs, and for a long time.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Instant,
};

use anyhow::{Result, ensure};
use queuey::prelude::*;
use tokio::sync::{Semaphore, mpsc};

use crate::{
    measure::{Effort, Tally, at_each, each, in_turn, on_a_runtime},
    ours,
    process::resident_mebibytes,
    sweeps::Sweep,
    table::{Bar, Row, Unit},
    work::Noop,
};

const JOBS: u64 = 1_000_000;
const CONCURRENCY: usize = 100;

/// What another framework makes of the same, on a machine of two cores.
const ANOTHER_FRAMEWORK: f64 = 521_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum MemoryQueues {
    #[queue(prefetch = 1000)]
    Work,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = MemoryQueues::Work, name = "bench.memory")]
struct InMemory(Noop);

/// Enqueues and handles a million jobs at once.
pub(crate) fn beside_bare_tokio(effort: Effort) -> Result<Vec<Row>> {
    let jobs = effort.jobs(JOBS);
    let (ours, theirs) = in_turn(effort.rounds, || queuey(0, jobs), || bare_tokio(jobs))?;
    let row = Row::new("memory: enqueue and handle a million no-ops", Unit::JobsPerSecond, ours)
        .beside("bare tokio", theirs)
        .bar(Bar::RatioAtLeast(0.6))
        .bar(Bar::AtLeast(ANOTHER_FRAMEWORK));
    Ok(vec![row])
}

/// The same with a backlog that is there before and stays there: each job that is handled is replaced.
pub(crate) fn over_backlogs(effort: Effort) -> Result<Vec<Row>> {
    let points = [1_000, 10_000, 100_000, 1_000_000].map(|point| effort.jobs(point));
    let jobs = effort.jobs(JOBS);
    let rates = at_each(effort.rounds, &points, |backlog| queuey(backlog, jobs))?;
    let queuey = rates.iter().map(|rounds| each(rounds, |rate| 1e6 / rate)).collect();
    Ok(Sweep { over: "jobs waiting in memory", points: &points, most: 2.0, queuey, lapin: None }.rows())
}

/// Jobs per second through a producer and a worker, with `backlog` jobs waiting all the while.
async fn queuey(backlog: u64, jobs: u64) -> Result<f64> {
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<MemoryQueues, _>::new(backend.clone()).await?;
    for number in 0..backlog {
        producer.enqueue(&InMemory(number.into())).await?;
    }
    let tally = Arc::new(Tally::of(jobs));
    let handler = FnHandler::<InMemory, _>::with(tally.clone(), |tally: Arc<Tally>, job, _ctx| {
        std::hint::black_box(&job);
        tally.one();
        std::future::ready(Ok(()))
    });
    let worker = Worker::<MemoryQueues, _>::builder(backend).handler(handler).concurrency(CONCURRENCY);
    let worker = worker.build().await?;
    let start = Instant::now();
    let running = tokio::spawn(worker.run_until(ours::all_of(tally)));
    for number in 0..jobs {
        producer.enqueue(&InMemory(number.into())).await?;
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    running.await??;
    Ok(jobs as f64 / start.elapsed().as_secs_f64())
}

/// Jobs per second of what one would write by hand: JSON in a queue, a task per job, as many at once.
async fn bare_tokio(jobs: u64) -> Result<f64> {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Vec<u8>>();
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    let tally = Arc::new(Tally::of(jobs));
    let start = Instant::now();
    let handled = tally.clone();
    let consumer = tokio::spawn(async move {
        while let Some(body) = receiver.recv().await {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            let tally = handled.clone();
            tokio::spawn(async move {
                let read = serde_json::from_slice::<Noop>(&body);
                tally.outcome(read.map(|job| drop(std::hint::black_box(job))).map_err(Into::into));
                drop(slot);
            });
        }
    });
    for number in 0..jobs {
        let sent = sender.send(serde_json::to_vec(&Noop::from(number))?);
        ensure!(sent.is_ok(), "the consumer has ended");
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    tally.done().await?;
    let took = start.elapsed();
    consumer.abort();
    Ok(jobs as f64 / took.as_secs_f64())
}

/// The memory of this process while ten million jobs go through a worker, a thousand at a time.
pub(crate) fn endurance(effort: Effort) -> Result<Vec<Row>> {
    let jobs = effort.jobs(10_000_000);
    // No round warms up: what a program's first million takes is what its tenth is compared with.
    let rounds = (0..effort.rounds).map(|_| on_a_runtime(residence(jobs))).collect::<Result<Vec<_>>>()?;
    let at = |tenth: usize| each(&rounds, |tenths| tenths.get(tenth).copied().unwrap_or(f64::NAN));
    let row = Row::new("resident memory after 10 million jobs", Unit::Mebibytes, at(9))
        .beside("after 1 million", at(0))
        .bar(Bar::RatioAtMost(1.05));
    Ok(vec![row])
}

/// The resident memory after each tenth of the jobs.
async fn residence(jobs: u64) -> Result<Vec<f64>> {
    const WAITING: usize = 1_000;
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<MemoryQueues, _>::new(backend.clone()).await?;
    let (room, tally) = (Arc::new(Semaphore::new(WAITING)), Arc::new(Tally::of(jobs)));
    let (handled, residents) = (AtomicU64::new(0), Arc::new(Mutex::new(Vec::new())));
    let (leaves, counts, sees) = (room.clone(), tally.clone(), residents.clone());
    let handler = FnHandler::<InMemory, _>::new(move |job, _ctx| {
        std::hint::black_box(&job);
        leaves.add_permits(1);
        if (handled.fetch_add(1, SeqCst) + 1).is_multiple_of((jobs / 10).max(1)) {
            let resident = resident_mebibytes().unwrap_or(f64::NAN);
            sees.lock().unwrap_or_else(PoisonError::into_inner).push(resident);
        }
        counts.one();
        std::future::ready(Ok(()))
    });
    let worker = Worker::<MemoryQueues, _>::builder(backend).handler(handler).concurrency(CONCURRENCY);
    let running = tokio::spawn(worker.build().await?.run_until(ours::all_of(tally)));
    for number in 0..jobs {
        room.acquire().await?.forget();
        producer.enqueue(&InMemory(number.into())).await?;
    }
    running.await??;
    let residents = residents.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(residents.clone())
}
