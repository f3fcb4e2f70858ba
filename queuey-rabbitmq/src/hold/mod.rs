//! Waiting: a delay is rounded up, its hold queue declared, the message put there, and trusted only when it is certain
//! to come back. When and why that is, is told in [`lease`].

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, ready},
    time::Duration,
};

use lapin::{Channel, types::ShortString};
use queuey_core::{Error, MAX_DELAY, QueueConfig, Result};
use tracing::{debug, warn};

mod lease;

use crate::{
    connection::{Link, Live, not_connected},
    error::{once_more, with_sources},
    message::{Message, now_ms},
    options::RabbitMqOptions,
    publisher::Publisher,
    topology::{DeclareError, QueueShape, deferred_ttl_ms, hold_shape, make},
};
use lease::{Moment, has_lived, is_fresh, is_trusted, longer};

/// After this many publishes that were too slow, the hold is made longer.
const TOO_SLOW: u32 = 2;

/// How often a hold queue may vanish under a publish before the caller hears of it.
const MAX_VANISHED: u32 = 5;

/// From this many leases on, those are forgotten that can not be renewed when another comes.
const MANY_LEASES: usize = 256;

/// A wait for a queue.
#[derive(Debug, Clone)]
pub(crate) struct Wait {
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) delay: Duration,
    pub(crate) granularity: Duration,
}

impl Wait {
    /// What is held for, in milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::DelayTooLong`].
    pub(crate) fn ttl_ms(&self) -> Result<u32> {
        deferred_ttl_ms(self.delay, self.granularity)
            .ok_or(Error::DelayTooLong { delay: self.delay, max: MAX_DELAY })
    }
}

/// Puts messages into hold queues.
pub(crate) struct Holds {
    link: Link,
    publisher: Publisher,
    options: Arc<RabbitMqOptions>,
    leases: Mutex<HashMap<ShortString, Lease>>,
    /// The channel holds are declared on, one after the other: a refusal closes it, and must close it for nobody else.
    declaring: tokio::sync::Mutex<Option<(Channel, Arc<Live>)>>,
}

/// A declare of a hold queue.
#[derive(Clone)]
struct Lease {
    /// When the declare was sent.
    sent: Moment,
    /// When the first declare of a row was sent over which the queue has lived throughout.
    alive_since: Moment,
    ttl_ms: u32,
    live: Arc<Live>,
}

impl Lease {
    fn age(&self) -> Duration {
        self.sent.age()
    }

    fn is_fresh(&self) -> bool {
        is_fresh(self.age(), self.ttl_ms) && !self.live.lost.is_cancelled()
    }

    /// The lease of a queue that has just answered another declare.
    fn renewed(&self, sent: Moment) -> Self {
        let alive_since = if has_lived(self.age(), self.ttl_ms) { self.alive_since } else { sent };
        Lease { sent, alive_since, ..self.clone() }
    }

    /// Whether the queue of an earlier lease is still the one of this.
    fn continues(&self, earlier: &Lease) -> bool {
        Arc::ptr_eq(&self.live, &earlier.live) && self.alive_since <= earlier.sent
    }
}

impl Holds {
    pub(crate) fn new(link: Link, publisher: Publisher, options: Arc<RabbitMqOptions>) -> Self {
        let (leases, declaring) = (Mutex::default(), tokio::sync::Mutex::default());
        Holds { link, publisher, options, leases, declaring }
    }

    /// Holds a message; it is certain to come back when this is Ok. Gives up when `enough` resolves.
    ///
    /// # Errors
    ///
    /// As a publish; once a message was put into a queue that can't be trusted, [`Error::Unconfirmed`].
    pub(crate) async fn hold(
        &self,
        message: &Message,
        wait: &Wait,
        enough: impl Future<Output = Error>,
    ) -> Result<()> {
        let mut enough = pin!(lasting(enough));
        let mut ttl_ms = wait.ttl_ms()?;
        let (mut slow, mut vanished) = (0, 0);
        loop {
            let shape = hold_shape(&wait.config, ttl_ms, &self.options)?;
            match self.try_hold(message, &shape, ttl_ms, enough.as_mut()).await {
                Ok(true) => return Ok(()),
                Ok(false) => slow += 1,
                Err(Error::Unroutable { .. }) if vanished < MAX_VANISHED => vanished += 1,
                // An earlier try may come back all the same.
                Err(_) if slow > 0 => return Err(Error::Unconfirmed { job_id: message.job_id }),
                Err(error) => return Err(error),
            }
            if slow >= TOO_SLOW {
                ttl_ms = longer(ttl_ms);
                warn!(
                    queue = wait.config.name,
                    ttl_ms, "the broker is slow: a job is held longer, to be safe"
                );
            }
        }
    }

    /// Puts a message into its hold queue once. False where it is there, but may go down with its queue.
    async fn try_hold(
        &self,
        message: &Message,
        shape: &QueueShape,
        ttl_ms: u32,
        mut enough: Pin<&mut impl Future<Output = Error>>,
    ) -> Result<bool> {
        let lease = tokio::select! {
            lease = self.lease(shape, ttl_ms) => lease?,
            reason = enough.as_mut() => return Err(reason),
        };
        let held = message.held(&shape.name, now_ms().saturating_add(ttl_ms.into()));
        if let Err(error) = self.publisher.publish_until(held, enough.as_mut()).await {
            if matches!(error, Error::Unroutable { .. }) {
                self.forget(&shape.name, &lease);
            }
            return Err(error);
        }
        if is_trusted(lease.age(), ttl_ms) {
            return Ok(true);
        }
        // The confirm came late: the queue must answer another declare, our own or one that was made in the meantime.
        tokio::select! {
            now = self.lease(shape, ttl_ms) => Ok(now.is_ok_and(|now| now.continues(&lease))),
            _ = enough => Err(Error::Unconfirmed { job_id: message.job_id }),
        }
    }

    /// The lease at hand where enough is left of it, else a new one.
    async fn lease(&self, shape: &QueueShape, ttl_ms: u32) -> Result<Lease> {
        if let Some(lease) = self.fresh(&shape.name) {
            return Ok(lease);
        }
        let mut channel = self.declaring.lock().await;
        // Another caller may have declared it in the meantime.
        if let Some(lease) = self.fresh(&shape.name) {
            return Ok(lease);
        }
        loop {
            match self.declare(&mut channel, shape, ttl_ms).await? {
                Ok(lease) => {
                    self.keep(&shape.name, lease.clone());
                    return Ok(lease);
                }
                // The connection broke; wait for the next one.
                Err(error) => {
                    debug!(
                        queue = shape.name.as_str(),
                        error = with_sources(&error),
                        "hold queue not declared"
                    );
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn declare(
        &self,
        slot: &mut Option<(Channel, Arc<Live>)>,
        shape: &QueueShape,
        ttl_ms: u32,
    ) -> Result<Result<Lease, lapin::Error>> {
        let live = self.link.ready().await?;
        let usable =
            |(channel, on): &(Channel, Arc<Live>)| Arc::ptr_eq(on, &live) && channel.status().connected();
        let channel = match slot.take().filter(usable) {
            Some((channel, _)) => channel,
            None => match live.channel().await {
                Ok(channel) => channel,
                Err(error) => return Ok(Err(error)),
            },
        };
        let sent = Moment::now();
        let declared = tokio::time::timeout(self.options.publish_timeout, make(&channel, shape)).await;
        let Ok(declared) = declared else { return Ok(Err(not_connected())) };
        *slot = Some((channel, live.clone()));
        match declared {
            Ok(()) => Ok(Ok(match self.spent(&shape.name, &live) {
                Some(spent) => spent.renewed(sent),
                None => Lease { sent, alive_since: sent, ttl_ms, live },
            })),
            Err(DeclareError::Lost(error)) => Ok(Err(error)),
            Err(DeclareError::Refused { error, .. }) => Err(error),
        }
    }

    fn fresh(&self, queue: &ShortString) -> Option<Lease> {
        self.lock().get(queue).filter(|lease| lease.is_fresh()).cloned()
    }

    /// The lease that another declare renews.
    fn spent(&self, queue: &ShortString, live: &Arc<Live>) -> Option<Lease> {
        self.lock().get(queue).filter(|lease| Arc::ptr_eq(&lease.live, live)).cloned()
    }

    fn keep(&self, queue: &ShortString, lease: Lease) {
        let mut leases = self.lock();
        if leases.len() >= MANY_LEASES {
            leases.retain(|_, lease| has_lived(lease.age(), lease.ttl_ms));
        }
        leases.insert(queue.clone(), lease);
    }

    /// The queue is gone, unless it was declared anew in the meantime.
    fn forget(&self, queue: &ShortString, gone: &Lease) {
        let mut leases = self.lock();
        if leases.get(queue).is_some_and(|lease| lease.sent <= gone.sent) {
            leases.remove(queue);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ShortString, Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Once it has resolved, it does so whenever it is asked again: an answer may come at that very moment, and leave more to
/// be done.
fn lasting(enough: impl Future<Output = Error>) -> impl Future<Output = Error> {
    let (mut enough, mut told) = (Box::pin(enough), None);
    poll_fn(move |cx| {
        let reason = match &told {
            Some(reason) => reason,
            None => told.insert(ready!(enough.as_mut().poll(cx))),
        };
        Poll::Ready(once_more(reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn enough_is_enough_whenever_it_is_asked_again() {
        let mut enough = pin!(lasting(async {
            tokio::task::yield_now().await;
            Error::Blocked { reason: "memory".into() }
        }));
        for _ in 0..3 {
            assert!(matches!(enough.as_mut().await, Error::Blocked { reason } if reason == "memory"));
        }
    }
}
