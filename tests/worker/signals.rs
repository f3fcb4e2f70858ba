//! SIGTERM drains; a second signal stops at once. Alone in its process, for a signal is for all of it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::{
    process::{Command, id},
    time::Duration,
};

use queuey::prelude::*;
use queuey_tests::{queue_set, until};

queue_set!(Set { Work });

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
struct Task {
    endless: bool,
}

fn terminate_self() {
    assert!(Command::new("kill").args(["-TERM", &id().to_string()]).status().unwrap().success());
}

async fn worker(backend: &Arc<MemoryBackend>, endless: bool) -> Worker<Set> {
    Producer::<Set>::new(backend.clone()).await.unwrap().enqueue(&Task { endless }).await.unwrap();
    let handler = FnHandler::<Task, _>::new(async |job, ctx: JobContext| {
        ctx.cancelled().await;
        if job.endless { std::future::pending().await } else { Ok(()) }
    });
    Worker::<Set>::builder(backend.clone())
        .handler(handler)
        .shutdown_timeout(Duration::from_secs(3600))
        .build()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_first_signal_drains_and_a_second_one_stops_at_once() {
    let backend = Arc::new(MemoryBackend::new());
    let polite = worker(&backend, false).await;
    let (handle, running) = (polite.handle(), tokio::spawn(polite.run_until_signal()));
    until("it runs", || handle.stats().in_flight == 1).await;
    terminate_self();
    let report = running.await.unwrap().unwrap();
    assert_eq!((report.finished, report.aborted.len()), (1, 0));

    let stubborn = worker(&backend, true).await;
    let (handle, running) = (stubborn.handle(), tokio::spawn(stubborn.run_until_signal()));
    until("it runs", || handle.stats().in_flight == 1).await;
    terminate_self();
    until("the drain has begun", || handle.is_shutdown()).await;
    terminate_self();
    // Its limit is an hour.
    let report = running.await.unwrap().unwrap();
    assert_eq!((report.finished, report.aborted.len()), (0, 1));
    assert_eq!(backend.pending(Set::Work.name()).len(), 1);
}
