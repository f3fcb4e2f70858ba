//! From one hold queue to 300: jobs with that many different delays, which go on waiting.

use std::time::Duration;

use anyhow::Result;
use lapin::{
    Channel,
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable},
};
use queuey::{prelude::*, topology};

use crate::{
    bare,
    broker::Broker,
    measure::{Effort, Measured, Stopwatch, in_tasks, in_turn_at_each},
    message::Kind,
    ours,
    sweeps::Sweep,
    table::Row,
    work::{BenchQueue, Noop, made_of},
};

const POINTS: [u64; 4] = [1, 10, 100, 300];
const TASKS: u64 = 64;

/// So long that none comes back meanwhile.
const SHORTEST: u64 = 3_600;

pub(crate) fn sweep(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let (points, jobs) = (effort.queues(POINTS), effort.jobs(10_000));
    let url = || broker.url().to_owned();
    let (ours, theirs) = (|holds| queuey(url(), holds, jobs), |holds| lapin(url(), holds, jobs));
    let measured = in_turn_at_each(effort.rounds, &points, ours, theirs)?;
    Ok(Sweep::beside_lapin("hold queues", &points, 1.1, &measured).rows())
}

/// The seconds that a job is held for.
fn seconds(number: u64, holds: u64) -> u64 {
    SHORTEST + number % holds
}

async fn queuey(url: String, holds: u64, jobs: u64) -> Result<Measured> {
    let backend = ours::connect(&url).await?;
    let producer = ours::producer(&backend, BenchQueue::Plain).await?;
    let enqueue = move |number: u64| {
        let delay = Duration::from_secs(seconds(number, holds));
        let enqueued = producer.enqueue_after(&Noop::from(number), delay);
        async move { Ok(enqueued.await.map(drop)?) }
    };
    // Each is declared by its first job, which is not what is measured.
    in_tasks(TASKS, holds, enqueue.clone()).await?;
    let stopwatch = Stopwatch::start();
    in_tasks(TASKS, jobs, enqueue).await?;
    let measured = stopwatch.stop(jobs);
    backend.close().await?;
    clean_up(&url, holds).await?;
    Ok(measured)
}

async fn lapin(url: String, holds: u64, jobs: u64) -> Result<Measured> {
    let connection = bare::connect(&url).await?;
    let channel = bare::confirming(&connection).await?;
    for number in 0..holds {
        declare(&channel, seconds(number, holds)).await?;
    }
    let publisher = channel.clone();
    let publish = move |number: u64| {
        let channel = publisher.clone();
        async move {
            let seconds = seconds(number, holds);
            // All of queuey's message but the time at which a delayed job is due, which its envelope has as well.
            let message = Kind::Same.message::<Noop>(BenchQueue::Plain.name(), number)?;
            bare::publish(&channel, hold(seconds).into(), message.held(seconds * 1_000)?).await
        }
    };
    in_tasks(TASKS, holds, publish.clone()).await?;
    let stopwatch = Stopwatch::start();
    in_tasks(TASKS, jobs, publish).await?;
    let measured = stopwatch.stop(jobs);
    bare::close(&connection).await?;
    clean_up(&url, holds).await?;
    Ok(measured)
}

fn hold(seconds: u64) -> String {
    topology::deferred_queue_name(BenchQueue::Plain.name(), ".deferred", seconds as u32 * 1_000)
}

async fn declare(channel: &Channel, seconds: u64) -> Result<()> {
    let ttl = seconds as i32 * 1_000;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(ttl));
    arguments.insert("x-expires".into(), AMQPValue::LongInt(2 * ttl));
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments
        .insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(BenchQueue::Plain.name().into()));
    channel.queue_declare(hold(seconds).into(), QueueDeclareOptions::durable(), arguments).await?;
    Ok(())
}

async fn clean_up(url: &str, holds: u64) -> Result<()> {
    let mut queues: Vec<_> = (0..holds).map(|number| hold(seconds(number, holds))).collect();
    queues.extend(made_of(&[BenchQueue::Plain]));
    bare::delete(url, &queues).await
}
