//! A storm of retries: every job fails once and comes back after a second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use anyhow::Result;
use lapin::{
    Channel,
    message::Delivery,
    options::{BasicAckOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use queuey::prelude::*;

use crate::{
    bare,
    broker::Broker,
    enqueue::{cpu, rate},
    measure::{Effort, Measured, Stopwatch, Tally, in_turn},
    message::{Envelope, Kind},
    ours,
    table::{Bar, Row},
    work::{BenchQueue, Flaky},
};

const BACKOFF: Duration = Duration::from_secs(1);

pub(crate) fn storm(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let jobs = effort.jobs(20_000);
    let url = || broker.url().to_owned();
    let (ours, theirs) = in_turn(effort.rounds, || queuey(url(), jobs), || lapin(url(), jobs))?;
    let what = "retry, every job fails once, 1 s backoff";
    Ok(vec![rate(what, &ours, &theirs).bar(Bar::RatioAtLeast(0.8)), cpu(what, &ours, &theirs)])
}

/// Every job is counted once: where the broker is so slow that a hold can't be trusted, a job comes back twice.
async fn queuey(url: String, jobs: u64) -> Result<Measured> {
    ours::fill::<Flaky>(&url, jobs).await?;
    let backend = ours::connect(&url).await?;
    let tally = Arc::new(Tally::of(jobs));
    let handled = tally.clone();
    let seen: Vec<_> = (0..jobs).map(|_| AtomicBool::new(false)).collect();
    let worker = ours::worker(&backend, move |Flaky(job), ctx: JobContext| {
        std::hint::black_box(&job);
        std::future::ready(if ctx.attempt == 1 {
            Err(JobError::retryable_msg("not yet"))
        } else {
            if !seen[job.number as usize].swap(true, SeqCst) {
                handled.one();
            }
            Ok(())
        })
    });
    let worker = worker.await?;
    let stopwatch = Stopwatch::start();
    worker.run_until(ours::all_of(tally)).await?;
    let measured = stopwatch.stop(jobs);
    backend.close().await?;
    let twice = bare::ready(&url, BenchQueue::Retried.name()).await?;
    if twice > 0 {
        eprintln!("retry: the machine is slow, {twice} jobs or more came back twice");
    }
    ours::leave_with(&url, BenchQueue::Retried, twice).await?;
    Ok(measured)
}

/// Its hold queue is declared once a second. As many jobs at a time as the prefetch allows are published there, confirmed,
/// and then acknowledged.
async fn lapin(url: String, jobs: u64) -> Result<Measured> {
    let queue = BenchQueue::Retried.name();
    bare::fill::<Flaky>(&url, Kind::Same, 0, jobs).await?;
    let (publishing, consuming) = (bare::connect(&url).await?, bare::connect(&url).await?);
    let (publisher, consumer) = (bare::confirming(&publishing).await?, consuming.create_channel().await?);
    declare_hold(&publisher, queue).await?;
    let declaring = tokio::spawn(keep_declared(publishing.create_channel().await?, queue));
    let stopwatch = Stopwatch::start();
    // Each job is delivered twice.
    bare::consume(&consumer, queue, 2 * jobs, |delivery| attempt(delivery, publisher.clone(), queue)).await?;
    consumer.close(200, "done".into()).await?;
    let measured = stopwatch.stop(jobs);
    declaring.abort();
    bare::delete(&url, &[hold(queue)]).await?;
    bare::close(&publishing).await?;
    bare::close(&consuming).await?;
    ours::leave_with(&url, BenchQueue::Retried, 0).await?;
    Ok(measured)
}

async fn attempt(delivery: Delivery, publisher: Channel, queue: &'static str) -> Result<()> {
    let mut envelope: Envelope<'_> = serde_json::from_slice(&delivery.data)?;
    std::hint::black_box(&envelope.payload);
    if envelope.attempt == 1 {
        envelope.attempt = 2;
        let message = envelope.message()?.held(BACKOFF.as_millis() as u64)?;
        bare::publish(&publisher, hold(queue).into(), message).await?;
    }
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(())
}

fn hold(queue: &str) -> String {
    format!("{queue}.held")
}

async fn keep_declared(channel: Channel, queue: &'static str) -> Result<()> {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        declare_hold(&channel, queue).await?;
    }
}

/// It expires much later than it needs to, so that this program loses nothing on a machine that stalls.
async fn declare_hold(channel: &Channel, queue: &str) -> Result<()> {
    let ttl = BACKOFF.as_millis() as i32;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(ttl));
    arguments.insert("x-expires".into(), AMQPValue::LongInt(60 * ttl));
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(queue.into()));
    channel.queue_declare(hold(queue).into(), QueueDeclareOptions::durable(), arguments).await?;
    Ok(())
}
