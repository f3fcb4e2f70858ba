//! From one handler to a thousand, on the memory backend: what a handler costs is the client's, and a broker would hide it.

use std::{future::Future, marker::PhantomData, sync::Arc, time::Instant};

use anyhow::Result;
use queuey::{Envelope, prelude::*};
use serde::{Deserializer, Serializer, de::IgnoredAny};

use crate::{
    measure::{Effort, Tally, at_each},
    ours,
    sweeps::Sweep,
    table::Row,
    work::Noop,
};

/// A thousand types take minutes to compile, which a build that is not for measuring can do without.
#[cfg(debug_assertions)]
const POINTS: &[u64] = &[1, 10, 100];
#[cfg(not(debug_assertions))]
const POINTS: &[u64] = &[1, 10, 100, 1_000];

const CONCURRENCY: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum HandlerQueues {
    #[queue(prefetch = 1000)]
    Handled,
}

/// A job type of its own for each three digits. Its payload is passed over, for a thousand readers of a larger one take
/// minutes to compile.
struct Numbered<const A: u8, const B: u8, const C: u8>;

impl<const A: u8, const B: u8, const C: u8> Numbered<A, B, C> {
    const TEXT: [u8; 9] = [b'b', b'e', b'n', b'c', b'h', b'.', b'0' + A, b'0' + B, b'0' + C];
}

impl<const A: u8, const B: u8, const C: u8> Job for Numbered<A, B, C> {
    type Queue = HandlerQueues;
    const NAME: &'static str = match std::str::from_utf8(&Self::TEXT) {
        Ok(name) => name,
        Err(_) => panic!("digits are text"),
    };
    const QUEUE: HandlerQueues = HandlerQueues::Handled;
}

impl<const A: u8, const B: u8, const C: u8> Serialize for Numbered<A, B, C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de, const A: u8, const B: u8, const C: u8> Deserialize<'de> for Numbered<A, B, C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pass_over(deserializer).map(|()| Self)
    }
}

/// Once for all job types.
#[inline(never)]
fn pass_over<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    IgnoredAny::deserialize(deserializer).map(drop)
}

/// Counts its jobs.
struct Counts<J>(Arc<Tally>, PhantomData<fn() -> J>);

impl<J: Job> JobHandler for Counts<J> {
    type Job = J;

    fn handle(&self, _job: J, _ctx: JobContext) -> impl Future<Output = JobResult> {
        self.0.one();
        std::future::ready(Ok(()))
    }
}

type Builder = WorkerBuilder<HandlerQueues, MemoryBackend>;

/// A job's name, and what adds its handler to a worker.
type Known = (&'static str, fn(Builder, Arc<Tally>) -> Builder);

fn known<const A: u8, const B: u8, const C: u8>() -> Known {
    let add = |builder: Builder, tally| builder.handler(Counts::<Numbered<A, B, C>>(tally, PhantomData));
    (Numbered::<A, B, C>::NAME, add)
}

/// A hundred for each of the first digits that are given.
macro_rules! hundreds {
    ($($a:literal)*) => { [$(hundreds!(@hundred $a; 0 1 2 3 4 5 6 7 8 9)),*].concat() };
    (@hundred $a:literal; $($b:literal)*) => { [$(hundreds!(@ten $a $b; 0 1 2 3 4 5 6 7 8 9)),*].concat() };
    (@ten $a:literal $b:literal; $($c:literal)*) => { [$(known::<$a, $b, $c>()),*] };
}

/// As many as the last point.
fn all() -> Vec<Known> {
    #[cfg(debug_assertions)]
    return hundreds!(0);
    #[cfg(not(debug_assertions))]
    return hundreds!(0 1 2 3 4 5 6 7 8 9);
}

pub(crate) fn sweep(effort: Effort) -> Result<Vec<Row>> {
    let jobs = effort.jobs(500_000);
    let queuey = at_each(effort.rounds, POINTS, |handlers| micros(handlers, jobs))?;
    Ok(Sweep { over: "handlers", points: POINTS, most: 1.1, queuey, lapin: None }.rows())
}

/// Microseconds per job, enqueued and handled in turn by each handler.
async fn micros(handlers: u64, jobs: u64) -> Result<f64> {
    let mut known = all();
    known.truncate(handlers as usize);
    let backend = Arc::new(MemoryBackend::new());
    let tally = Arc::new(Tally::of(jobs));
    let none = Worker::<HandlerQueues, _>::builder(backend.clone()).concurrency(CONCURRENCY);
    let worker = known.iter().fold(none, |builder, (_, add)| add(builder, tally.clone())).build().await?;
    let queue = HandlerQueues::Handled.name();
    let start = Instant::now();
    let running = tokio::spawn(worker.run_until(ours::all_of(tally)));
    for number in 0..jobs {
        let (name, _) = known[number as usize % known.len()];
        let payload = serde_json::value::to_raw_value(&Noop::from(number))?;
        backend.publish(&Envelope::raw(name, queue, payload), None).await?;
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    running.await??;
    Ok(start.elapsed().as_secs_f64() * 1e6 / jobs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_has_its_own_name() {
        let mut names: Vec<_> = all().iter().map(|(name, _)| *name).collect();
        assert_eq!((names[0], names[99]), ("bench.000", "bench.099"));
        names.sort_unstable();
        names.dedup();
        assert_eq!(Some(&(names.len() as u64)), POINTS.last());
    }
}
