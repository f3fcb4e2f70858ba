//! What `build()` worked out, and every job of the worker needs.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{
    dead_letter::ErasedHook,
    layer::Layers,
    queue::QueueConfig,
    worker::{
        registry::Registry,
        stats::{self, Counters, Stats},
    },
};

/// RabbitMQ's default limit on how long a delivery may stay unacknowledged.
pub(crate) const DEFAULT_ACK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A worker's settings, resolved and checked.
pub(crate) struct Plan {
    pub(crate) queues: Vec<QueuePlan>,
    pub(crate) registry: Registry,
    pub(crate) layers: Layers,
    pub(crate) hook: Option<Box<dyn ErasedHook>>,
    /// Jobs that run at once.
    pub(crate) concurrency: usize,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) close_backend: bool,
    /// Fires when the worker is to come to an end.
    pub(crate) shutdown: CancellationToken,
    /// Fires when it is to end without waiting for its jobs.
    pub(crate) stop_now: CancellationToken,
}

/// A queue this worker consumes.
pub(crate) struct QueuePlan {
    pub(crate) name: &'static str,
    pub(crate) config: QueueConfig,
    pub(crate) counters: Counters,
}

impl QueuePlan {
    /// How long a delivery may wait unstarted before it is handed back: half of the broker's limit.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.config.ack_timeout.unwrap_or(DEFAULT_ACK_TIMEOUT) / 2
    }
}

impl Plan {
    pub(crate) fn stats(&self) -> Stats {
        stats::snapshot(self.queues.iter().map(|queue| (queue.name, &queue.counters)))
    }
}
