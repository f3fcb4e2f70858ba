//! The memory backend: enqueue and handle no-op jobs, beside a bare tokio program, and over backlogs.

use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Instant,
};

use queuey::prelude::*;
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::table::Row;

const JOBS: u64 = 1_000_000;
const CONCURRENCY: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum BenchQueues {
    #[queue(prefetch = 1000)]
    Work,
}

/// About 200 bytes of JSON.
#[derive(Serialize, Deserialize, Job)]
#[job(queue = BenchQueues::Work, name = "bench.noop")]
struct Noop {
    number: u64,
    name: String,
    tags: Vec<String>,
    text: String,
}

fn noop(number: u64) -> Noop {
    Noop {
        number,
        name: "a name of some length".into(),
        tags: vec!["alpha".into(), "beta".into()],
        text: "x".repeat(100),
    }
}

/// Runs a measurement on the threads of a runtime of its own.
fn on_a_runtime(measure: impl Future<Output = f64> + Send + 'static) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let task = runtime.spawn(measure);
    runtime.block_on(task).unwrap_or_else(|error| panic!("the measurement failed: {error}"))
}

/// Enqueues and handles a million jobs at once.
pub(crate) fn beside_bare_tokio(rounds: usize) -> Vec<Row> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(on_a_runtime(queuey(0, JOBS)));
        theirs.push(on_a_runtime(bare_tokio(JOBS)));
    }
    let scenario = "memory: enqueue and handle a million no-ops".to_owned();
    vec![Row { scenario, queuey: ours, compared_with: "bare tokio", other: theirs }]
}

/// The same with a backlog that is there before and stays there: each job that is handled is replaced.
pub(crate) fn over_backlogs(rounds: usize) -> Vec<Row> {
    let backlogs = [1_000, 100_000, 1_000_000];
    let mut measured = vec![Vec::new(); backlogs.len()];
    for _ in 0..rounds {
        for (backlog, results) in backlogs.iter().zip(&mut measured) {
            results.push(on_a_runtime(queuey(*backlog, JOBS)));
        }
    }
    let smallest = measured[0].clone();
    let rows = backlogs.iter().zip(measured).map(|(backlog, queuey)| Row {
        scenario: format!("memory: a million no-ops with {backlog} waiting"),
        queuey,
        compared_with: "1000 waiting",
        other: smallest.clone(),
    });
    rows.collect()
}

/// Jobs per second through a producer and a worker, with `backlog` jobs waiting all the while.
async fn queuey(backlog: u64, jobs: u64) -> f64 {
    let backend = Arc::new(MemoryBackend::new());
    let producer = queuey_unwrap(Producer::<BenchQueues>::new(backend.clone()).await);
    for number in 0..backlog {
        queuey_unwrap(producer.enqueue(&noop(number)).await);
    }
    let (handled, done) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let state = (handled, done.clone());
    let handler = FnHandler::<Noop, _>::with(
        state,
        move |(handled, done): (Arc<AtomicU64>, Arc<Notify>), job, _ctx| {
            std::hint::black_box(&job);
            if handled.fetch_add(1, SeqCst) + 1 == jobs {
                done.notify_one();
            }
            std::future::ready(Ok(()))
        },
    );
    let worker =
        Worker::<BenchQueues>::builder(backend).handler(handler).concurrency(CONCURRENCY).build().await;
    let worker = queuey_unwrap(worker);
    let start = Instant::now();
    let running = tokio::spawn(worker.run_until(async move { done.notified().await }));
    for number in 0..jobs {
        queuey_unwrap(producer.enqueue(&noop(number)).await);
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let report = running.await;
    let took = start.elapsed();
    drop(report);
    jobs as f64 / took.as_secs_f64()
}

fn queuey_unwrap<T>(result: queuey::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Jobs per second of what one would write by hand: JSON in a queue, a task per job, as many at once.
async fn bare_tokio(jobs: u64) -> f64 {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Vec<u8>>();
    let slots = Arc::new(Semaphore::new(CONCURRENCY));
    let (handled, done) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
    let errors = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let consumer = tokio::spawn({
        let (handled, done, errors) = (handled.clone(), done.clone(), errors.clone());
        async move {
            while let Some(body) = receiver.recv().await {
                let Ok(slot) = slots.clone().acquire_owned().await else { return };
                let (handled, done, errors) = (handled.clone(), done.clone(), errors.clone());
                tokio::spawn(async move {
                    match serde_json::from_slice::<Noop>(&body) {
                        Ok(job) => drop(std::hint::black_box(job)),
                        Err(error) => errors.lock().unwrap_or_else(|e| e.into_inner()).push(error),
                    }
                    if handled.fetch_add(1, SeqCst) + 1 == jobs {
                        done.notify_one();
                    }
                    drop(slot);
                });
            }
        }
    });
    for number in 0..jobs {
        let body = serde_json::to_vec(&noop(number)).unwrap_or_default();
        if sender.send(body).is_err() {
            break;
        }
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    done.notified().await;
    let took = start.elapsed();
    consumer.abort();
    jobs as f64 / took.as_secs_f64()
}
