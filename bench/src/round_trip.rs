//! One job at a time: enqueued, confirmed and handled before the next.

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result};
use lapin::options::BasicAckOptions;
use queuey::prelude::*;
use tokio::sync::{Notify, mpsc};

use crate::{
    bare,
    broker::Broker,
    measure::{Effort, each, in_turn},
    message::Kind,
    ours,
    statistics::percentile,
    table::{Bar, Row, Unit},
    work::{BenchQueue, Noop},
};

pub(crate) fn one_at_a_time(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let jobs = effort.jobs(3_000);
    let url = || broker.url().to_owned();
    let (ours, theirs) = in_turn(effort.rounds, || queuey(url(), jobs), || lapin(url(), jobs))?;
    let row = |share: f64, what: &str| {
        let of = |rounds: &[Vec<f64>]| each(rounds, |micros| percentile(micros, share));
        Row::new(format!("round trip, {what}"), Unit::Microseconds, of(&ours)).beside("lapin", of(&theirs))
    };
    Ok(vec![row(0.5, "p50").bar(Bar::RatioAtMost(1.1)), row(0.99, "p99")])
}

/// The microseconds of each round trip.
async fn queuey(url: String, jobs: u64) -> Result<Vec<f64>> {
    let backend = ours::connect(&url).await?;
    let producer = ours::producer(&backend, BenchQueue::Plain).await?;
    let (handled, mut next) = mpsc::unbounded_channel();
    let worker = ours::worker(&backend, move |job: Noop, _ctx| {
        let _ = handled.send(job.number);
        std::future::ready(Ok(()))
    });
    let worker = worker.await?;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    let running = tokio::spawn(worker.run_until(async move { stopped.notified().await }));
    let mut micros = Vec::with_capacity(jobs as usize);
    for number in 0..jobs {
        let start = Instant::now();
        producer.enqueue(&Noop::from(number)).await?;
        next.recv().await.context("the worker has ended")?;
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    stop.notify_one();
    running.await??;
    backend.close().await?;
    ours::leave_with(&url, BenchQueue::Plain, 0).await?;
    Ok(micros)
}

/// A connection to publish and one to consume, as queuey has them.
async fn lapin(url: String, jobs: u64) -> Result<Vec<f64>> {
    let (publishing, consuming) = (bare::connect(&url).await?, bare::connect(&url).await?);
    let channel = bare::confirming(&publishing).await?;
    let queue = BenchQueue::Plain.name();
    bare::declare(&channel, queue, 0).await?;
    let (handled, mut next) = mpsc::unbounded_channel();
    let receiving = consuming.create_channel().await?;
    let consumer = receiving.clone();
    let running = tokio::spawn(async move {
        let handle = |delivery: lapin::message::Delivery| {
            let handled = handled.clone();
            async move {
                let job = Kind::Same.read(&delivery.data)?;
                let _ = handled.send(job.number);
                delivery.ack(BasicAckOptions::default()).await?;
                Ok(())
            }
        };
        bare::consume(&consumer, queue, jobs, handle).await
    });
    let mut micros = Vec::with_capacity(jobs as usize);
    for number in 0..jobs {
        let start = Instant::now();
        bare::publish(&channel, queue.into(), Kind::Same.message::<Noop>(queue, number)?).await?;
        next.recv().await.context("the consumer has ended")?;
        micros.push(start.elapsed().as_secs_f64() * 1e6);
    }
    running.await??;
    receiving.close(200, "done".into()).await?;
    bare::close(&publishing).await?;
    bare::close(&consuming).await?;
    ours::leave_with(&url, BenchQueue::Plain, 0).await?;
    Ok(micros)
}
