//! A backend to test, and an operator who looks at it from the side.

use std::{sync::Arc, time::Duration};

use queuey::{Backend, BoxFuture, MemoryBackend};

/// A backend with its operator.
#[derive(Clone)]
pub struct World {
    /// What is tested.
    pub backend: Arc<dyn Backend>,
    /// Who looks at it.
    pub operator: Arc<dyn Operator>,
    /// How late things may be beyond what the contract says: nothing where the clock is paused, much where it is real, for
    /// a busy machine is no broken promise. Early is never forgiven.
    pub slack: Duration,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    /// A backend within the process.
    pub fn memory() -> Self {
        let backend = MemoryBackend::new();
        World { backend: Arc::new(backend.clone()), operator: Arc::new(backend), slack: Duration::ZERO }
    }
}

/// A message in a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadBody {
    /// The message as it is there.
    pub body: Vec<u8>,
    /// The reason beside it.
    pub reason: String,
}

/// Looks at a backend as a foreign client or an operator would.
pub trait Operator: Send + Sync {
    /// Puts any bytes on a queue.
    fn publish_bytes<'a>(&'a self, queue: &'a str, body: &'a [u8]) -> BoxFuture<'a, ()>;

    /// How many messages are ready on a queue.
    fn ready<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, usize>;

    /// How many messages are held for a queue.
    fn held<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, usize>;

    /// What is in the dead-letter queue of a queue, in no particular order.
    fn dead<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, Vec<DeadBody>>;

    /// The queues that were made, where they must be deleted after a test.
    fn made(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Operator for MemoryBackend {
    fn publish_bytes<'a>(&'a self, queue: &'a str, body: &'a [u8]) -> BoxFuture<'a, ()> {
        Box::pin(async move { MemoryBackend::publish_bytes(self, queue, body).expect("the queue is there") })
    }

    fn ready<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, usize> {
        Box::pin(async move { self.pending(queue).len() })
    }

    fn held<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, usize> {
        Box::pin(async move { self.deferred(queue).len() })
    }

    fn dead<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, Vec<DeadBody>> {
        Box::pin(async move {
            let jobs = self.dead_letters(queue);
            let jobs =
                jobs.into_iter().map(|(envelope, reason)| DeadBody { body: envelope.to_bytes(), reason });
            let foreign = self.malformed(queue).into_iter().map(|(body, reason)| DeadBody { body, reason });
            jobs.chain(foreign).collect()
        })
    }
}
