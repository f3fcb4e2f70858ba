//! All that can be measured.

use anyhow::Result;

use crate::{
    arguments::Known, broker::Broker, consume, enqueue, measure::Effort, memory, retry, round_trip, stalled,
    start_up, sweeps, table::Row,
};

/// Something that can be measured.
pub(crate) struct Scenario {
    pub(crate) known: Known,
    /// For `--list`.
    pub(crate) about: &'static str,
    pub(crate) run: Run,
}

/// How it is measured.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    InMemory(fn(Effort) -> Result<Vec<Row>>),
    OnABroker(fn(Effort, &Broker) -> Result<Vec<Row>>),
}

use Run::{InMemory, OnABroker};

/// In the order of the table.
pub(crate) const SCENARIOS: [Scenario; 17] = [
    scenario("enqueue-1", "a task that awaits each job", OnABroker(enqueue::from_1)),
    scenario("enqueue-64", "64 such tasks", OnABroker(enqueue::from_64)),
    scenario("enqueue-512", "512 such tasks", OnABroker(enqueue::from_512)),
    scenario("enqueue-many", "a thousand jobs a call", OnABroker(enqueue::many)),
    scenario("consume", "a no-op handler, prefetch 100, a plain queue", OnABroker(consume::plain)),
    scenario("consume-priorities", "the same on a queue with 10 priorities", OnABroker(consume::priorities)),
    scenario("round-trip", "one job at a time, enqueued and handled", OnABroker(round_trip::one_at_a_time)),
    scenario("retry", "20,000 jobs fail once, backoff 1 s", OnABroker(retry::storm)),
    scenario(
        "stalled-queue",
        "enqueue beside a queue that never confirms",
        OnABroker(stalled::beside_a_stalled_queue),
    ),
    scenario("start-up", "a worker on 200 queues", OnABroker(start_up::on_many_queues)),
    scenario("memory", "the memory backend beside a bare tokio program", InMemory(memory::beside_bare_tokio)),
    scenario(
        "memory-backlog",
        "a thousand to a million jobs waiting in memory",
        InMemory(memory::over_backlogs),
    ),
    long("memory-endurance", "resident memory over 10 million jobs", InMemory(memory::endurance)),
    scenario("sweep-holds", "cost per job over 1 to 300 hold queues", OnABroker(sweeps::holds::sweep)),
    scenario(
        "sweep-handlers",
        "cost per job over 1 to 1,000 handlers, in memory",
        InMemory(sweeps::handlers::sweep),
    ),
    scenario("sweep-queues", "cost per job over 1 to 200 queues", OnABroker(sweeps::queues::sweep)),
    long(
        "sweep-backlog",
        "a thousand to a million jobs waiting on the broker",
        OnABroker(sweeps::backlog::sweep),
    ),
];

const fn scenario(name: &'static str, about: &'static str, run: Run) -> Scenario {
    Scenario { known: Known { name, long: false }, about, run }
}

const fn long(name: &'static str, about: &'static str, run: Run) -> Scenario {
    Scenario { known: Known { name, long: true }, about, run }
}
