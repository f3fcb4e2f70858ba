//! Enqueuing: from a number of tasks that each await every job, and a thousand jobs a call.

use anyhow::Result;
use lapin::types::ShortString;
use queuey::prelude::*;

use crate::{
    bare,
    broker::Broker,
    measure::{Effort, Measured, Stopwatch, each, in_tasks, in_turn_beside},
    message::Kind,
    ours,
    table::{Bar, Row, Unit},
    work::{BenchQueue, Noop},
};

/// How many jobs a call of `enqueue_many` takes, and how many confirms lapin's program waits for at once.
const A_CALL: usize = 1_000;

/// The programs on lapin that queuey is measured beside.
pub(crate) const KINDS: [Kind; 2] = [Kind::Same, Kind::Bare];

pub(crate) fn from_1(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    from_tasks(effort, broker, 1, 5_000, 0.95)
}

pub(crate) fn from_64(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    from_tasks(effort, broker, 64, 30_000, 0.90)
}

pub(crate) fn from_512(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    from_tasks(effort, broker, 512, 40_000, 0.95)
}

fn from_tasks(effort: Effort, broker: &Broker, tasks: u64, jobs: u64, bar: f64) -> Result<Vec<Row>> {
    let jobs = effort.jobs(jobs);
    let url = || broker.url().to_owned();
    let (ours, theirs) = in_turn_beside(
        effort.rounds,
        || queuey(url(), tasks, jobs),
        KINDS,
        |kind| lapin(url(), kind, tasks, jobs),
    )?;
    let what = format!("enqueue, {tasks} task{}", if tasks == 1 { "" } else { "s" });
    let [rate, cpu, mut bare] = beside_both(&what, &ours, &theirs, bar);
    if tasks == 64 {
        bare = bare.floor(9_000.0);
    }
    Ok(vec![rate, cpu, bare])
}

async fn queuey(url: String, tasks: u64, jobs: u64) -> Result<Measured> {
    let backend = ours::connect(&url).await?;
    let producer = ours::producer(&backend, BenchQueue::Plain).await?;
    let stopwatch = Stopwatch::start();
    ours::enqueue::<Noop>(&producer, tasks, jobs).await?;
    let measured = stopwatch.stop(jobs);
    backend.close().await?;
    ours::leave_with(&url, BenchQueue::Plain, jobs).await?;
    Ok(measured)
}

/// The tasks share one channel, and each awaits its own confirm.
async fn lapin(url: String, kind: Kind, tasks: u64, jobs: u64) -> Result<Measured> {
    let connection = bare::connect(&url).await?;
    let channel = bare::confirming(&connection).await?;
    let queue = BenchQueue::Plain.name();
    bare::declare(&channel, queue, 0).await?;
    let stopwatch = Stopwatch::start();
    let publisher = channel.clone();
    in_tasks(tasks, jobs, move |number| {
        let channel = publisher.clone();
        async move { bare::publish(&channel, queue.into(), kind.message::<Noop>(queue, number)?).await }
    })
    .await?;
    let measured = stopwatch.stop(jobs);
    bare::close(&connection).await?;
    ours::leave_with(&url, BenchQueue::Plain, jobs).await?;
    Ok(measured)
}

pub(crate) fn many(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let calls = effort.jobs(50);
    let url = || broker.url().to_owned();
    let (ours, theirs) = in_turn_beside(
        effort.rounds,
        || queuey_many(url(), calls),
        KINDS,
        |kind| lapin_many(url(), kind, calls),
    )?;
    Ok(beside_both("enqueue_many, 1,000 a call", &ours, &theirs, 0.95).into())
}

async fn queuey_many(url: String, calls: u64) -> Result<Measured> {
    let backend = ours::connect(&url).await?;
    let producer = ours::producer(&backend, BenchQueue::Plain).await?;
    let jobs = calls * A_CALL as u64;
    let stopwatch = Stopwatch::start();
    for call in 0..calls {
        let first = call * A_CALL as u64;
        let batch: Vec<_> = (first..first + A_CALL as u64).map(Noop::from).collect();
        for enqueued in producer.enqueue_many(&batch).await {
            enqueued?;
        }
    }
    let measured = stopwatch.stop(jobs);
    backend.close().await?;
    ours::leave_with(&url, BenchQueue::Plain, jobs).await?;
    Ok(measured)
}

/// One task with a window of confirms, which slides.
async fn lapin_many(url: String, kind: Kind, calls: u64) -> Result<Measured> {
    let connection = bare::connect(&url).await?;
    let channel = bare::confirming(&connection).await?;
    let queue = BenchQueue::Plain.name();
    bare::declare(&channel, queue, 0).await?;
    let jobs = calls * A_CALL as u64;
    let stopwatch = Stopwatch::start();
    let messages = (0..jobs).map(|number| kind.message::<Noop>(queue, number));
    bare::publish_all(&channel, &ShortString::from(queue), messages, A_CALL).await?;
    let measured = stopwatch.stop(jobs);
    bare::close(&connection).await?;
    ours::leave_with(&url, BenchQueue::Plain, jobs).await?;
    Ok(measured)
}

/// Beside lapin's program with the same message, the rate and the client's CPU; and the rate beside the one with bare payloads,
/// which is another message, so that it has no bar.
pub(crate) fn beside_both(
    what: &str,
    ours: &[Measured],
    [same, bare]: &[Vec<Measured>; 2],
    bar: f64,
) -> [Row; 3] {
    [
        rate(what, ours, same).bar(Bar::RatioAtLeast(bar)),
        cpu(what, ours, same),
        rate(&format!("{what}, beside bare payloads"), ours, bare),
    ]
}

/// The jobs per second of both sides.
pub(crate) fn rate(what: &str, ours: &[Measured], theirs: &[Measured]) -> Row {
    let rate = |rounds: &[Measured]| each(rounds, |round| round.jobs_per_second);
    Row::new(what, Unit::JobsPerSecond, rate(ours)).beside("lapin", rate(theirs))
}

/// What the clients worked for each job in the same rounds.
pub(crate) fn cpu(what: &str, ours: &[Measured], theirs: &[Measured]) -> Row {
    let cpu = |rounds: &[Measured]| each(rounds, |round| round.cpu_micros);
    Row::new(format!("{what}: client CPU per job"), Unit::Microseconds, cpu(ours))
        .beside("lapin", cpu(theirs))
        .bar(Bar::RatioAtMost(1.5))
}
