//! What both sides carry: a payload of 200 bytes of JSON, and queues whose names no other run has.

use std::sync::LazyLock;

use anyhow::Result;
use queuey::{Envelope, prelude::*, topology};
use uuid::Uuid;

/// How many queues the sweeps over queues go up to.
pub(crate) const MANY: usize = 200;

/// How many deliveries a consumer of either side has in hand.
pub(crate) const PREFETCH: u16 = 100;

/// What travels on either side.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(queue = BenchQueue::Plain, name = "bench.noop")]
pub(crate) struct Noop {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    pub(crate) text: String,
}

/// The same for the queue with priorities.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(queue = BenchQueue::Priorities, name = "bench.priorities")]
pub(crate) struct Ranked(pub(crate) Noop);

/// The same, to be retried a second after it failed.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(queue = BenchQueue::Retried, name = "bench.retried",
    retry(max_attempts = 3, backoff = "fixed", delay = "1s", jitter = false))]
pub(crate) struct Flaky(pub(crate) Noop);

/// The same for the queue that confirms nothing.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(queue = BenchQueue::Stalled, name = "bench.stalled")]
pub(crate) struct Stuck(pub(crate) Noop);

/// The same for any of many queues.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spread(pub(crate) Noop);

/// By hand, for its queue is no variant.
impl Job for Spread {
    type Queue = OneOfMany;
    const NAME: &'static str = "bench.many";
    const QUEUE: OneOfMany = OneOfMany(0);
}

impl From<u64> for Noop {
    fn from(number: u64) -> Self {
        Noop {
            number,
            name: "a name of some length".into(),
            tags: vec!["alpha".into(), "beta".into()],
            text: "x".repeat(120),
        }
    }
}

impl From<u64> for Ranked {
    fn from(number: u64) -> Self {
        Ranked(number.into())
    }
}

impl From<u64> for Flaky {
    fn from(number: u64) -> Self {
        Flaky(number.into())
    }
}

/// The queues of the scenarios. They are implemented by hand for their names only; a derive does the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BenchQueue {
    Plain,
    Priorities,
    Retried,
    Stalled,
}

/// One of many queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OneOfMany(usize);

static RUN: LazyLock<String> = LazyLock::new(|| Uuid::now_v7().simple().to_string());

static NAMES: LazyLock<[String; 4]> = LazyLock::new(|| {
    ["plain", "priorities", "retried", "stalled"].map(|queue| format!("bench.{}.{queue}", *RUN))
});

static MANY_NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..MANY).map(|number| format!("bench.{}.many.{number}", *RUN)).collect());

static ALL_OF_MANY: LazyLock<Vec<OneOfMany>> = LazyLock::new(|| (0..MANY).map(OneOfMany).collect());

impl QueueSet for BenchQueue {
    fn all() -> &'static [Self] {
        &[Self::Plain, Self::Priorities, Self::Retried, Self::Stalled]
    }

    fn name(&self) -> &'static str {
        &NAMES[*self as usize]
    }

    fn config(&self) -> QueueConfig {
        let config = QueueConfig::new(self.name()).prefetch(PREFETCH);
        match self {
            // A job that comes back after a hold takes its turn behind the others here, as on lapin's side.
            Self::Plain | Self::Retried | Self::Stalled => config.max_priority(0),
            Self::Priorities => config.max_priority(10),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::all().iter().copied().find(|queue| queue.name() == name)
    }
}

impl QueueSet for OneOfMany {
    fn all() -> &'static [Self] {
        &ALL_OF_MANY
    }

    fn name(&self) -> &'static str {
        &MANY_NAMES[self.0]
    }

    fn config(&self) -> QueueConfig {
        QueueConfig::new(self.name()).prefetch(PREFETCH).max_priority(0)
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::all().iter().copied().find(|queue| queue.name() == name)
    }
}

/// The first of the many queues, this many of them.
pub(crate) fn many_of(queues: u64) -> &'static [OneOfMany] {
    &OneOfMany::all()[..queues as usize]
}

/// A job for one of many queues. A job type has one queue, so this is what a producer makes of a job, for another queue.
pub(crate) fn spread(number: u64, queue: OneOfMany) -> Result<Envelope> {
    let payload = serde_json::value::to_raw_value(&Spread(number.into()))?;
    Ok(Envelope::raw(Spread::NAME, queue.name(), payload))
}

/// What was made of these queues on the broker, by either side: they and their dead-letter queues.
pub(crate) fn made_of<Q: QueueSet>(queues: &[Q]) -> Vec<String> {
    let names = queues.iter().map(QueueSet::name);
    names.flat_map(|name| [name.to_owned(), topology::dead_queue_name(name, ".dead")]).collect()
}

/// Every queue that a run can have made, but for hold queues, which go by themselves.
pub(crate) fn every_queue() -> Vec<String> {
    [made_of(BenchQueue::all()), made_of(OneOfMany::all())].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_about_200_bytes_of_json() {
        for number in [0, 999_999] {
            let length = serde_json::to_vec(&Noop::from(number)).unwrap().len();
            assert!((195..=210).contains(&length), "{length}");
        }
    }

    #[test]
    fn a_wrapped_payload_is_no_longer() {
        let plain = serde_json::to_string(&Noop::from(7)).unwrap();
        assert_eq!(serde_json::to_string(&Ranked::from(7)).unwrap(), plain);
        assert_eq!(serde_json::to_string(&Flaky::from(7)).unwrap(), plain);
    }

    #[test]
    fn every_queue_has_a_name_of_its_own() {
        let mut names = every_queue();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), all), (2 * (4 + MANY), 2 * (4 + MANY)));
    }
}
