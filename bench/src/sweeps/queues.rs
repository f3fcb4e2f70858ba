//! From one queue to 200.

use anyhow::Result;
use queuey::prelude::*;

use crate::{
    bare,
    broker::Broker,
    measure::{Effort, Measured, in_turn_at_each},
    sweeps::{Sweep, flow},
    table::Row,
    work::{MANY, made_of, many_of},
};

const POINTS: [u64; 4] = [1, 10, 50, MANY as u64];

pub(crate) fn sweep(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let (points, jobs) = (effort.queues(POINTS), effort.jobs(20_000));
    let url = || broker.url().to_owned();
    let (ours, theirs) = (|queues| queuey(url(), queues, jobs), |queues| lapin(url(), queues, jobs));
    let measured = in_turn_at_each(effort.rounds, &points, ours, theirs)?;
    Ok(Sweep::beside_lapin("queues", &points, 1.1, &measured).rows())
}

async fn queuey(url: String, queues: u64, jobs: u64) -> Result<Measured> {
    let measured = flow::queuey(url.clone(), many_of(queues), jobs).await?;
    bare::delete(&url, &made_of(many_of(queues))).await?;
    Ok(measured)
}

async fn lapin(url: String, queues: u64, jobs: u64) -> Result<Measured> {
    let connection = bare::connect(&url).await?;
    let channel = connection.create_channel().await?;
    for queue in many_of(queues) {
        bare::declare(&channel, queue.name(), 0).await?;
    }
    bare::close(&connection).await?;
    let measured = flow::lapin(url.clone(), many_of(queues), jobs).await?;
    bare::delete(&url, &made_of(many_of(queues))).await?;
    Ok(measured)
}
