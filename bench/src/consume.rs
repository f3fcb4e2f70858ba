//! Consuming jobs that wait already, with a handler that does nothing.

use std::sync::Arc;

use anyhow::Result;
use lapin::{message::Delivery, options::BasicAckOptions};
use queuey::prelude::*;

use crate::{
    bare,
    broker::Broker,
    enqueue::{KINDS, beside_both, rate},
    measure::{Effort, Measured, Stopwatch, Tally, in_turn, in_turn_beside},
    message::Kind,
    ours,
    table::{Bar, Row},
    work::{BenchQueue, Noop, Ranked},
};

const JOBS: u64 = 60_000;

pub(crate) fn plain(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let jobs = effort.jobs(JOBS);
    let url = || broker.url().to_owned();
    let (ours, theirs) = in_turn_beside(
        effort.rounds,
        || queuey::<Noop>(url(), jobs),
        KINDS,
        |kind| lapin::<Noop>(url(), kind, 0, jobs),
    )?;
    let [rate, cpu, bare] = beside_both("consume, prefetch 100", &ours, &theirs, 1.6);
    Ok(vec![rate, cpu, bare.floor(15_000.0)])
}

pub(crate) fn priorities(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let jobs = effort.jobs(JOBS);
    let url = || broker.url().to_owned();
    let (ours, theirs) = in_turn(
        effort.rounds,
        || queuey::<Ranked>(url(), jobs),
        || lapin::<Ranked>(url(), Kind::Same, 10, jobs),
    )?;
    let what = "consume, prefetch 100, 10 priorities";
    Ok(vec![rate(what, &ours, &theirs).bar(Bar::RatioAtLeast(1.2))])
}

async fn queuey<J: Job<Queue = BenchQueue> + From<u64>>(url: String, jobs: u64) -> Result<Measured> {
    ours::fill::<J>(&url, jobs).await?;
    let backend = ours::connect(&url).await?;
    let tally = Arc::new(Tally::of(jobs));
    let handled = tally.clone();
    let worker = ours::worker(&backend, move |job: J, _ctx| {
        std::hint::black_box(&job);
        handled.one();
        std::future::ready(Ok(()))
    });
    let worker = worker.await?;
    let stopwatch = Stopwatch::start();
    // It returns when the broker has every acknowledgement.
    worker.run_until(ours::all_of(tally)).await?;
    let measured = stopwatch.stop(jobs);
    backend.close().await?;
    ours::leave_with(&url, J::QUEUE, 0).await?;
    Ok(measured)
}

async fn lapin<J: Job<Queue = BenchQueue>>(
    url: String,
    kind: Kind,
    priorities: u8,
    jobs: u64,
) -> Result<Measured> {
    bare::fill::<J>(&url, kind, priorities, jobs).await?;
    let connection = bare::connect(&url).await?;
    let channel = connection.create_channel().await?;
    let stopwatch = Stopwatch::start();
    bare::consume(&channel, J::QUEUE.name(), jobs, |delivery| read_and_ack(delivery, kind)).await?;
    // The broker answers when it has every acknowledgement.
    channel.close(200, "done".into()).await?;
    let measured = stopwatch.stop(jobs);
    bare::close(&connection).await?;
    ours::leave_with(&url, J::QUEUE, 0).await?;
    Ok(measured)
}

/// What a task does with its delivery.
async fn read_and_ack(delivery: Delivery, kind: Kind) -> Result<()> {
    let job = kind.read(&delivery.data)?;
    std::hint::black_box(&job);
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(())
}
