//! Many jobs that fail at once and wait for the same time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use queuey::prelude::*;
use queuey_tests::{Admin, Proxy, Running, queue_set, shared_broker};

use crate::scene::{SECOND, clear, connect, is_long};

const WAIT: Duration = Duration::from_secs(3);

queue_set!(Set { Work: |queue| queue.prefetch(100).retry(RetryPolicy::fixed(2, WAIT)) });

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work, name = "task")]
struct Task {
    number: usize,
}

/// When the runs of a job began, by its number.
type Runs = Arc<Mutex<HashMap<usize, Vec<Instant>>>>;

/// One declare serves all that waits for the same time while its lease is good.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_retries_makes_a_few_declares_and_loses_none() {
    let Some(url) = shared_broker() else { return };
    let proxy = Proxy::start(&url).await;
    let jobs = if is_long() { 20_000 } else { 2_000 };
    let runs = Runs::default();
    let handler = FnHandler::<Task, _>::with(runs.clone(), async |runs: Runs, job: Task, ctx: JobContext| {
        runs.lock().unwrap().entry(job.number).or_default().push(Instant::now());
        if ctx.attempt == 1 { Err(JobError::retryable_msg("at first it never works")) } else { Ok(()) }
    });
    let (backend, _) = connect(proxy.url(), RabbitMqOptions::default()).await;
    let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
    let all: Vec<_> = (0..jobs).map(|number| Task { number }).collect();
    assert!(producer.enqueue_many(&all).await.iter().all(Result::is_ok));
    let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
    let count =
        || proxy.frames().iter().filter(|frame| frame.to_string().contains(">queue.declare#")).count();
    let (before, start) = (count(), Instant::now());
    let admin = Admin::new(&url);
    while worker.ended() < jobs as u64 {
        assert!(start.elapsed() < 600 * SECOND, "{} of {jobs} ended", worker.ended());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (declares, leases) = (count() - before, start.elapsed().as_millis() / (WAIT / 4).as_millis() + 1);
    println!("{jobs} retries in {:?}: {declares} declares, {leases} leases", start.elapsed());
    assert!(declares as u128 <= 3 * leases, "{declares} declares in {:?}", start.elapsed());
    for (number, runs) in runs.lock().unwrap().iter() {
        assert_eq!(runs.len(), 2, "job {number}");
        assert!(runs[1] - runs[0] >= WAIT, "job {number} ran again after {:?}", runs[1] - runs[0]);
    }
    worker.stop().await;
    clear(&backend, &admin, &[Set::Work.name()], &[WAIT]).await;
}
