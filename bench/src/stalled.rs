//! Enqueuing beside a queue whose confirms never come: what it does to the callers of another queue.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use queuey::prelude::*;
use tokio::task::JoinSet;

use crate::{
    bare,
    broker::Broker,
    measure::{Effort, each, on_a_runtime},
    ours,
    statistics::percentile,
    table::{Bar, Row, Unit},
    work::{BenchQueue, Noop, Stuck, made_of},
};

const HEALTHY: u64 = 64;

/// So few that the broker does not hold back their channel, and with it the whole connection, for the flow of one queue.
const STUCK: u64 = 16;

/// The rate is back to normal with a window of this length in which it is near what it was.
const WINDOW: Duration = Duration::from_millis(250);
const NORMAL: f64 = 0.8;

/// What the healthy callers saw in one round.
struct Seen {
    /// While the other queue was stalled.
    p99_millis: f64,
    /// From the stall until their rate was normal again.
    back_millis: f64,
    rate_before: f64,
    /// From three seconds after the stall on.
    rate_after: f64,
}

/// An enqueue of a healthy caller.
#[derive(Clone, Copy)]
struct Call {
    began: Instant,
    ended: Instant,
}

pub(crate) fn beside_a_stalled_queue(effort: Effort, broker: &Broker) -> Result<Vec<Row>> {
    // Stopping a queue is done to a node that nobody else uses.
    let own = if broker.is_own_node() { None } else { Some(Broker::on_a_node()?) };
    let broker = own.as_ref().unwrap_or(broker);
    // A round takes its seconds whatever the effort, for it is about times.
    let seen = (0..effort.rounds).map(|_| round(broker)).collect::<Result<Vec<_>>>()?;
    let row = |what: &str, unit, of: fn(&Seen) -> f64| {
        Row::new(format!("enqueue beside a queue that never confirms: {what}"), unit, each(&seen, of))
    };
    Ok(vec![
        row("p99 of the others", Unit::Milliseconds, |seen| seen.p99_millis).bar(Bar::AtMost(2_000.0)),
        row("their rate is normal after", Unit::Milliseconds, |seen| seen.back_millis)
            .bar(Bar::AtMost(3_000.0)),
        row("their rate from 3 s on", Unit::JobsPerSecond, |seen| seen.rate_after)
            .beside("before", each(&seen, |seen| seen.rate_before))
            .bar(Bar::RatioAtLeast(NORMAL)),
    ])
}

fn round(broker: &Broker) -> Result<Seen> {
    let stalled = BenchQueue::Stalled.name();
    let url = broker.url().to_owned();
    let (tell, told) = std::sync::mpsc::channel();
    let running = std::thread::spawn(move || on_a_runtime(callers(url, told)));
    let measured = (|| {
        std::thread::sleep(Duration::from_secs(4));
        broker.suspend(stalled)?;
        tell.send(Instant::now()).context("the callers have ended")?;
        std::thread::sleep(Duration::from_secs(8));
        tell.send(Instant::now()).context("the callers have ended")
    })();
    // Whatever came of it, the callers end only when the queue goes on.
    drop(tell);
    let resumed = broker.resume(stalled);
    let seen = running.join().map_err(|_| anyhow!("the callers panicked"))?;
    measured.and(resumed)?;
    seen
}

/// Enqueues to both queues until it is told of the stall and of its end.
async fn callers(url: String, told: std::sync::mpsc::Receiver<Instant>) -> Result<Seen> {
    let backend = ours::connect(&url).await?;
    backend.declare(&[BenchQueue::Plain.config(), BenchQueue::Stalled.config()]).await?;
    let producer = Producer::<BenchQueue, _>::new_undeclared(backend.clone());
    let (calls, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let mut running = JoinSet::new();
    for task in 0..HEALTHY {
        running.spawn(call_in_a_loop(producer.clone(), task, calls.clone(), stop.clone()));
    }
    for task in 0..STUCK {
        let (producer, stop) = (producer.clone(), stop.clone());
        running.spawn(async move {
            while !stop.load(SeqCst) {
                // It fails when its time is up, and is repeated as an application would.
                let _ = producer.enqueue(&Stuck(task.into())).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        });
    }
    let began = Instant::now();
    let ends = tokio::task::spawn_blocking(move || Some((told.recv().ok()?, told.recv().ok()?))).await?;
    stop.store(true, SeqCst);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    backend.close().await?;
    let (stalled, ended) = ends.context("the queue could not be stalled")?;
    let calls = std::mem::take(&mut *calls.lock().unwrap_or_else(PoisonError::into_inner));
    let seen = judge(&calls, began + Duration::from_secs(1), stalled, ended);
    bare::delete(&url, &made_of(&[BenchQueue::Plain, BenchQueue::Stalled])).await?;
    Ok(seen)
}

async fn call_in_a_loop(
    producer: Producer<BenchQueue, RabbitMqBackend>,
    task: u64,
    calls: Arc<Mutex<Vec<Call>>>,
    stop: Arc<AtomicBool>,
) -> Result<()> {
    while !stop.load(SeqCst) {
        let began = Instant::now();
        producer.enqueue(&Noop::from(task)).await?;
        let ended = Instant::now();
        calls.lock().unwrap_or_else(PoisonError::into_inner).push(Call { began, ended });
    }
    Ok(())
}

/// What the calls say. A call that began before the end of the stall counts with all its time, however late it ended.
fn judge(calls: &[Call], began: Instant, stalled: Instant, ended: Instant) -> Seen {
    let rate = |from: Instant, to: Instant| {
        let within = calls.iter().filter(|call| (from..to).contains(&call.ended)).count();
        within as f64 / (to - from).as_secs_f64()
    };
    let during = calls.iter().filter(|call| call.ended >= stalled && call.began < ended);
    let millis: Vec<_> = during.map(|call| (call.ended - call.began).as_secs_f64() * 1e3).collect();
    let rate_before = rate(began, stalled);
    let windows = (1_u32..).map(|number| stalled + WINDOW * number).take_while(|end| *end <= ended);
    let normal = windows.clone().find(|end| rate(*end - WINDOW, *end) >= NORMAL * rate_before);
    Seen {
        p99_millis: percentile(&millis, 0.99),
        // Where it never was, it was so for longer than was looked.
        back_millis: (normal.unwrap_or(ended + WINDOW) - stalled).as_secs_f64() * 1e3,
        rate_before,
        rate_after: rate(stalled + Duration::from_secs(3), ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_normal_again_with_the_first_window_that_has_it() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let call = |began: u64, ended: u64| Call { began: at(began), ended: at(ended) };
        // A call each 10 ms, but for 700 ms after a stall at 2 s, in which one waits.
        let begins = (0..1_000).map(|n| n * 10).filter(|n| !(2_000..2_700).contains(n));
        let mut calls: Vec<_> = begins.map(|n| call(n, n + 10)).collect();
        calls.push(call(2_000, 2_690));
        let seen = judge(&calls, at(0), at(2_000), at(8_000));
        assert_eq!(seen.back_millis, 1_000.0);
        assert!((seen.rate_before - 100.0).abs() < 1.0 && (seen.rate_after - 100.0).abs() < 1.0);
        assert_eq!(seen.p99_millis, 10.0);
    }

    #[test]
    fn a_rate_that_never_comes_back_is_late() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let calls = (0..100).map(|n| Call { began: at(n * 10), ended: at(n * 10 + 10) });
        let seen = judge(&calls.collect::<Vec<_>>(), at(0), at(1_000), at(9_000));
        assert!(seen.back_millis > 8_000.0 && seen.rate_after == 0.0);
    }
}
