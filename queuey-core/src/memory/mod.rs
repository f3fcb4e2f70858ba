//! A backend within the process, as strict as a broker: for tests, and for a first run without one.

use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    BoxFuture,
    backend::{Backend, DeliveryStream, Health},
    envelope::Envelope,
    error::{Error, Result},
    queue::{Names, QueueConfig, check_queues},
};

mod hold;
mod history;
mod queue;
mod delivery;

pub use history::AckKind;

use delivery::Consumer;
use history::History;
use hold::deferral;
use queue::{MemoryQueue, Message, check_size};

/// A backend within the process, with the contract of the RabbitMQ backend: priorities, prefetch, delays, TTL,
/// redelivery and its count, dead letters, and the same refusals.
///
/// Delays are exact (RabbitMQ's are rounded up) and run on tokio's clock, so that a paused clock works. A clone shares
/// the queues. For tests it tells what is where; every such look is a snapshot.
///
/// ```
/// # extern crate queuey_core as queuey;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queuey::Result<()> {
/// use queuey::{Backend, Envelope, MemoryBackend, QueueConfig};
///
/// let backend = MemoryBackend::new();
/// backend.declare(&[QueueConfig::new("emails")]).await?;
/// backend.publish(&Envelope::raw("emails.send", "emails", Default::default()), None).await?;
/// assert_eq!(backend.pending("emails").len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryBackend(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queues: RwLock<HashMap<String, Arc<MemoryQueue>>>,
    history: Arc<History>,
    /// Fires when the backend is closed: what is in hand then is lost.
    closed: CancellationToken,
}

impl MemoryBackend {
    /// A backend with no queues.
    pub fn new() -> Self {
        Self::default()
    }

    /// The jobs that are ready on a queue, the next one first. Those in a worker's hands are not among them.
    pub fn pending(&self, queue: &str) -> Vec<Envelope> {
        self.0.look(queue, MemoryQueue::ready)
    }

    /// How many jobs of a queue are in the hands of workers.
    pub fn unsettled(&self, queue: &str) -> usize {
        self.0
            .queues()
            .get(queue)
            .map_or(0, |queue| queue.unsettled.load(std::sync::atomic::Ordering::SeqCst))
    }

    /// Whether these queues have nothing ready, held or in the hands of workers, all at one instant; foreign messages
    /// count too.
    pub fn is_idle(&self, queues: &[&str]) -> bool {
        let look = || {
            let known = self.0.queues();
            let of = |queue: &&str| known.get(*queue).map_or(Some(0), |queue| queue.idle_after());
            queues.iter().map(of).collect::<Option<Vec<u64>>>()
        };
        // A job may go from one queue to another between two looks; then something came in.
        look().is_some_and(|first| look().as_ref() == Some(&first))
    }

    /// The jobs that are held for a queue, the first one due first.
    pub fn deferred(&self, queue: &str) -> Vec<Envelope> {
        self.0.look(queue, MemoryQueue::held)
    }

    /// The dead letters of a queue with their reasons, the oldest first.
    pub fn dead_letters(&self, queue: &str) -> Vec<(Envelope, String)> {
        self.0.look(queue, MemoryQueue::dead)
    }

    /// The messages of a queue that were no jobs, byte for byte with the reason, the oldest first.
    pub fn malformed(&self, queue: &str) -> Vec<(Vec<u8>, String)> {
        self.0.look(queue, MemoryQueue::malformed)
    }

    /// Everything that was acknowledged, whatever came of it, the oldest first; of the last 10,000.
    pub fn acked(&self) -> Vec<Envelope> {
        self.0.history.of(|_| true)
    }

    /// The jobs that were done, the oldest first; of the last 10,000 settled.
    pub fn succeeded(&self) -> Vec<Envelope> {
        self.0.history.of(|kind| kind == AckKind::Succeeded)
    }

    /// The attempts that were retried, as they were before the retry, the oldest first; of the last 10,000 settled.
    pub fn retried(&self) -> Vec<Envelope> {
        self.0.history.of(|kind| kind == AckKind::Retried)
    }

    /// Everything that was acknowledged with what came of it, the oldest first; the last 10,000.
    pub fn settled(&self) -> Vec<(Envelope, AckKind)> {
        self.0.history.all()
    }

    /// The names of the queues, sorted; their dead-letter queues are not among them.
    pub fn queue_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.queues().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// How a queue was first declared.
    pub fn queue_config(&self, name: &str) -> Option<QueueConfig> {
        self.0.queues().get(name).map(|queue| queue.config().clone())
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.0.closed.is_cancelled()
    }

    /// Puts any bytes on a queue, as a foreign client may. What is no envelope is put aside when it is delivered.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`], [`Error::TooLarge`], [`Error::ShutDown`].
    pub fn publish_bytes(&self, queue: &str, body: impl Into<Vec<u8>>) -> Result<()> {
        let body = body.into();
        check_size(body.len())?;
        self.0.known(queue)?.push(Message::from_bytes(body));
        Ok(())
    }
}

impl Shared {
    fn queues(&self) -> std::sync::RwLockReadGuard<'_, HashMap<String, Arc<MemoryQueue>>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look<T>(&self, queue: &str, read: impl Fn(&MemoryQueue) -> Vec<T>) -> Vec<T> {
        self.queues().get(queue).map(|queue| read(queue)).unwrap_or_default()
    }

    fn open(&self) -> Result<()> {
        if self.closed.is_cancelled() { Err(Error::ShutDown) } else { Ok(()) }
    }

    fn known(&self, queue: &str) -> Result<Arc<MemoryQueue>> {
        self.open()?;
        self.queues().get(queue).cloned().ok_or_else(|| Error::UnknownQueue(queue.to_owned()))
    }

    fn declare(&self, configs: &[QueueConfig]) -> Result<()> {
        self.open()?;
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let others = queues.values().map(|queue| queue.config());
        let others = others.filter(|other| configs.iter().all(|config| config.name != other.name));
        let all: Vec<QueueConfig> = configs.iter().chain(others).cloned().collect();
        check_queues(&all, Names::DEFAULT)?;
        for config in configs {
            if let Some(existing) = queues.get(&config.name) {
                existing.check_same(config)?;
            }
        }
        for config in configs {
            if let MapEntry::Vacant(place) = queues.entry(config.name.clone()) {
                place.insert(Arc::new(MemoryQueue::new(config.clone())));
            }
        }
        Ok(())
    }

    fn publish(&self, envelope: &Envelope, delay: Option<Duration>) -> Result<()> {
        self.open()?;
        let queues = self.queues();
        let Some(queue) = queues.get(&envelope.queue) else {
            let queue = envelope.queue.clone();
            return Err(match delay {
                None => Error::Unroutable { job_id: envelope.job_id, queue },
                Some(_) => Error::UnknownQueue(queue),
            });
        };
        queue.publish(envelope.clone(), delay.unwrap_or(Duration::ZERO))
    }
}

impl Backend for MemoryBackend {
    fn declare<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.declare(queues) })
    }

    fn publish<'a>(&'a self, envelope: &'a Envelope, delay: Option<Duration>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.publish(envelope, delay) })
    }

    fn publish_many<'a>(&'a self, envelopes: &'a [Envelope]) -> BoxFuture<'a, Vec<Result<()>>> {
        Box::pin(async move { envelopes.iter().map(|envelope| self.0.publish(envelope, None)).collect() })
    }

    fn defer<'a>(&'a self, envelope: &'a Envelope, delay: Duration) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.publish(envelope, Some(deferral(delay))) })
    }

    fn consume<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<DeliveryStream>> {
        Box::pin(async move {
            let known = self.0.known(&queue.name)?;
            Ok(Consumer::subscribe(known, self.0.history.clone(), self.0.closed.clone(), queue.prefetch))
        })
    }

    fn health(&self) -> BoxFuture<'_, Health> {
        Box::pin(async move {
            let queues = self.0.queues();
            let consumed = queues.values().filter(|queue| queue.has_consumers());
            let mut health = Health { connected: !self.is_closed(), ..Health::default() };
            if health.connected {
                health.consuming = consumed.map(|queue| queue.config().name.clone()).collect();
                health.consuming.sort_unstable();
            }
            health
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.0.closed.cancel();
            self.0.queues().values().for_each(|queue| queue.wake_all());
            Ok(())
        })
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").field("queues", &self.queue_names()).finish_non_exhaustive()
    }
}
