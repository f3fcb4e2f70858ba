//! What the tests share: worlds to run in, queue sets with names of their own, waiting for events, and the ledger; for those on
//! a broker the shared one, or one of their own, a network that fails on demand, and an operator.

#![allow(clippy::missing_panics_doc, reason = "a test support library panics where a test fails")]

#[cfg(doctest)]
mod documents;
mod broker;
mod node;
mod proxy;
mod admin;
mod ledger;
mod log;
mod queues;
mod rabbit;
mod running;
mod world;

use std::{
    env,
    future::Future,
    time::{Duration, Instant},
};

pub use admin::{Admin, Message, QueueState};
pub use broker::shared_broker;
pub use ledger::Ledger;
pub use log::{Captured, captured, captured_at};
pub use node::{Node, NodeOptions, broker_version};
pub use proxy::{Direction, Fault, Frame, NoFrame, Proxy};
pub use queues::{configure, unique};
pub use running::Running;
pub use world::{DeadBody, Operator, World};

/// Whether this run takes its time: `QUEUEY_TEST_LONG` is set.
pub fn is_long() -> bool {
    env::var_os("QUEUEY_TEST_LONG").is_some()
}

/// Waits until a condition holds, asking again and again. Never a bare sleep: the deadline is only for failures, and is in
/// real time, for under a paused clock hours may have to pass.
pub async fn eventually<F, Fut>(what: &str, condition: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = bool>,
{
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < Duration::from_secs(60), "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// [`eventually`] for conditions that need no waiting of their own.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    eventually(what, || std::future::ready(condition())).await;
}
