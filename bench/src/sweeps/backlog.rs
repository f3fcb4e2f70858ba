//! From a thousand waiting jobs to a million.

use anyhow::{Context, Result};
use queuey::prelude::*;

use crate::{
    bare,
    broker::Broker,
    measure::{AtEach, Effort, Measured, each, in_turn_at_each},
    message::Kind,
    process::resident_mebibytes,
    sweeps::{Sweep, flow},
    table::{Bar, Row, Unit},
    work::{Spread, made_of, many_of},
};

const POINTS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// A measurement, and the memory of this process at its end.
type WithMemory = (Measured, f64);

pub(crate) fn sweep(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let jobs = effort.jobs(20_000);
    let points = POINTS.map(|point| effort.jobs(point));
    let url = || broker.url().to_owned();
    let (ours, theirs) = (|waiting| queuey(url(), waiting, jobs), |waiting| lapin(url(), waiting, jobs));
    let measured = in_turn_at_each(effort.rounds, &points, ours, theirs)?;
    let mut rows = Sweep::beside_lapin("jobs waiting", &points, 2.0, &costs(&measured)).rows();
    if let (Some(first), Some(last)) = (measured.queuey.first(), measured.queuey.last()) {
        let memory = |rounds: &[WithMemory]| each(rounds, |round| round.1);
        rows.push(
            Row::new("resident memory of the worker, the most waiting", Unit::Mebibytes, memory(last))
                .beside("the fewest waiting", memory(first))
                .bar(Bar::RatioAtMost(1.05)),
        );
    }
    Ok(rows)
}

fn costs(measured: &AtEach<WithMemory>) -> AtEach<Measured> {
    let costs = |side: &[Vec<WithMemory>]| {
        side.iter().map(|rounds| rounds.iter().map(|round| round.0).collect()).collect()
    };
    AtEach { queuey: costs(&measured.queuey), other: costs(&measured.other) }
}

async fn queuey(url: String, waiting: u64, jobs: u64) -> Result<WithMemory> {
    fill(&url, waiting).await?;
    let measured = flow::queuey(url.clone(), many_of(1), jobs).await?;
    let memory = resident_mebibytes().unwrap_or(f64::NAN);
    bare::delete(&url, &made_of(many_of(1))).await?;
    Ok((measured, memory))
}

async fn lapin(url: String, waiting: u64, jobs: u64) -> Result<WithMemory> {
    fill(&url, waiting).await?;
    let measured = flow::lapin(url.clone(), many_of(1), jobs).await?;
    let memory = resident_mebibytes().unwrap_or(f64::NAN);
    bare::delete(&url, &made_of(many_of(1))).await?;
    Ok((measured, memory))
}

/// Declares the queue with a backlog, which is the same for both sides.
async fn fill(url: &str, waiting: u64) -> Result<()> {
    let queue = many_of(1).first().context("there is a queue")?.name();
    let connection = bare::connect(url).await?;
    let channel = bare::confirming(&connection).await?;
    bare::declare(&channel, queue, 0).await?;
    let messages = (0..waiting).map(|number| Kind::Same.message::<Spread>(queue, number));
    bare::publish_all(&channel, &queue.into(), messages, 1_000).await?;
    bare::close(&connection).await
}
