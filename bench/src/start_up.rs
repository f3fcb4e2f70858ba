//! How long a worker on many queues takes until it works on all of them.

use std::{sync::Arc, time::Instant};

use anyhow::Result;
use queuey::prelude::*;

use crate::{
    bare,
    broker::Broker,
    measure::{Effort, Tally, at_each, each},
    ours,
    sweeps::flow,
    table::{Row, Unit},
    work::{MANY, made_of, many_of, spread},
};

/// Milliseconds.
struct StartUp {
    /// `build()`, which declares the queues and their dead-letter queues, none of which exist.
    declared: f64,
    /// `build()` and `run()` of another worker, until a job of each queue is handled.
    works: f64,
}

pub(crate) fn on_many_queues(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    let queues = effort.queues([MANY as u64]);
    let measured = at_each(effort.rounds, &queues, |queues| start(broker.url().to_owned(), queues))?;
    let [rounds] = &measured[..] else { return Ok(Vec::new()) };
    let row = |what: &str, of: fn(&StartUp) -> f64| {
        Row::new(
            format!("start-up of a worker on {MANY} queues, {what}"),
            Unit::Milliseconds,
            each(rounds, of),
        )
    };
    Ok(vec![
        row("none exists: until they are declared", |start| start.declared),
        row("all exist: until a job of each is handled", |start| start.works),
    ])
}

async fn start(url: String, queues: u64) -> Result<StartUp> {
    let queues = many_of(queues);
    let backend = ours::connect(&url).await?;
    let begin = Instant::now();
    drop(flow::worker(&backend, queues, |_| std::future::ready(Ok(()))).await?);
    let declared = begin.elapsed();
    for queue in queues {
        backend.publish(&spread(0, *queue)?, None).await?;
    }
    backend.close().await?;

    let backend = ours::connect(&url).await?;
    let tally = Arc::new(Tally::of(queues.len() as u64));
    let handled = tally.clone();
    let begin = Instant::now();
    let worker = flow::worker(&backend, queues, move |_| {
        handled.one();
        std::future::ready(Ok(()))
    });
    let running = flow::start(worker.await?);
    tally.done().await?;
    let works = begin.elapsed();
    running.stop().await?;
    backend.close().await?;
    bare::delete(&url, &made_of(queues)).await?;
    Ok(StartUp { declared: declared.as_secs_f64() * 1e3, works: works.as_secs_f64() * 1e3 })
}
