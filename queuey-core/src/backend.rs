//! What the runtime asks of a broker. Implemented by the memory backend here, by the RabbitMQ backend, and by
//! whoever needs another.

use std::{fmt, pin::Pin, time::Duration, time::SystemTime};

use futures_util::{FutureExt, Stream};

use crate::{
    BoxFuture,
    dead_letter::DeadLetterCause,
    envelope::Envelope,
    error::{Error, Result},
    queue::QueueConfig,
    settlement::Settlement,
};

/// A broker, or what stands for one. Every call is bounded in time.
///
/// The trait only ever gains methods with a default.
pub trait Backend: Send + Sync + 'static {
    /// Makes the queues and their dead-letter queues, or finds them as wanted. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidQueue`], [`Error::QueueMismatch`], [`Error::AccessRefused`], or the state of the connection.
    fn declare<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>>;

    /// Makes sure that jobs of these queues can wait, where that takes more than their queues. Nothing to do by default.
    ///
    /// [`WorkerBuilder::build`](crate::WorkerBuilder::build) asks for it, after the queues are declared, for every queue that
    /// it consumes and has a handler for: any handler can defer its job.
    ///
    /// # Errors
    ///
    /// [`Error::AccessRefused`] that names what the broker's user lacks, [`Error::UnknownQueue`], or the state of the
    /// connection.
    fn prepare_holds<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        let _ = queues;
        Box::pin(async { Ok(()) })
    }

    /// Publishes an envelope to its queue, at once or after a delay, and resolves when it is kept there.
    ///
    /// # Errors
    ///
    /// [`Error::Unroutable`] for a missing queue; with a delay [`Error::UnknownQueue`] for one that was not declared
    /// here, and [`Error::DelayTooLong`]; else what the broker said.
    fn publish<'a>(&'a self, envelope: &'a Envelope, delay: Option<Duration>) -> BoxFuture<'a, Result<()>>;

    /// Publishes several envelopes at once; each has its own result, in their order. One by one by default.
    fn publish_many<'a>(&'a self, envelopes: &'a [Envelope]) -> BoxFuture<'a, Vec<Result<()>>> {
        Box::pin(async move {
            let mut results = Vec::with_capacity(envelopes.len());
            for envelope in envelopes {
                results.push(self.publish(envelope, None).await);
            }
            results
        })
    }

    /// Holds an envelope for `delay` (the shortest wait there is where it is zero), to come back at its priority.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish) with a delay.
    fn defer<'a>(&'a self, envelope: &'a Envelope, delay: Duration) -> BoxFuture<'a, Result<()>>;

    /// Subscribes to a queue. Dropping the stream cancels the consumer and hands back what it had not given out.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownQueue`] for a queue that was not declared here, or the state of the connection.
    fn consume<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<DeliveryStream>>;

    /// Resolves when all that was settled or handed back on a queue has reached the broker. Nothing to do by default.
    ///
    /// # Errors
    ///
    /// The state of the connection.
    fn flush<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<()>> {
        let _ = queue;
        Box::pin(async { Ok(()) })
    }

    /// How it stands, for a probe.
    fn health(&self) -> BoxFuture<'_, Health>;

    /// Ends every connection. What comes after fails with [`Error::ShutDown`].
    ///
    /// # Errors
    ///
    /// Where the broker could not be told; it is closed all the same.
    fn close(&self) -> BoxFuture<'_, Result<()>>;
}

/// The deliveries of one consumer. [`Error::Malformed`] is an item that more may follow; after any other error, and
/// after the end, the consumer is gone for good.
pub type DeliveryStream = Pin<Box<dyn Stream<Item = Result<Box<dyn Delivery>>> + Send>>;

/// An envelope in the hands of a worker. It is settled once; dropped unsettled, it goes back to its queue.
pub trait Delivery: Send + 'static {
    /// The job.
    fn envelope(&self) -> &Envelope;

    /// Whether it was handed out before and never settled, as the broker says.
    fn redelivered(&self) -> bool;

    /// How often it was handed out before, where the broker counts.
    fn delivery_count(&self) -> Option<u32>;

    /// Ends the delivery. A passing trouble is waited out inside, while the delivery lives.
    fn settle(self: Box<Self>, settlement: Settlement) -> BoxFuture<'static, Result<(), SettleError>>;

    /// Resolves when the broker will hand this delivery out again, whatever is done with it. Never by default.
    fn lost(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    /// Whether it is lost already. Override it where that can be told without a future.
    fn is_lost(&self) -> bool {
        self.lost().now_or_never().is_some()
    }

    /// Settles as done.
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<(), SettleError>> {
        self.settle(Settlement::Ack)
    }

    /// Publishes `next` after `delay` at the back of the queue, then acknowledges.
    fn retry(
        self: Box<Self>,
        next: Envelope,
        delay: Duration,
    ) -> BoxFuture<'static, Result<(), SettleError>> {
        self.settle(Settlement::Retry { next, delay })
    }

    /// Publishes `next` after `delay` ahead of the backlog, then acknowledges.
    fn defer(
        self: Box<Self>,
        next: Envelope,
        delay: Duration,
    ) -> BoxFuture<'static, Result<(), SettleError>> {
        self.settle(Settlement::Defer { next, delay })
    }

    /// Keeps the job as a dead letter of cause [`Fatal`](DeadLetterCause::Fatal), then acknowledges.
    fn dead_letter(self: Box<Self>, reason: String) -> BoxFuture<'static, Result<(), SettleError>> {
        self.settle(Settlement::DeadLetter { cause: DeadLetterCause::Fatal, reason })
    }

    /// Hands the delivery back.
    fn requeue(self: Box<Self>) -> BoxFuture<'static, Result<(), SettleError>> {
        self.settle(Settlement::Requeue)
    }
}

/// Why a delivery could not be settled.
#[derive(thiserror::Error)]
#[error("a delivery could not be settled")]
pub struct SettleError {
    /// What went wrong.
    #[source]
    pub error: Error,
    /// The delivery, where this settlement can never succeed and another may. `None` where the delivery is lost: the
    /// broker hands it out again.
    pub delivery: Option<Box<dyn Delivery>>,
}

impl fmt::Debug for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleError")
            .field("error", &self.error)
            .field("delivery", &self.delivery.as_ref().map(|delivery| delivery.envelope().job_id))
            .finish()
    }
}

/// How a backend stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Health {
    /// Whether there is a connection.
    pub connected: bool,
    /// Why the broker takes no messages at present.
    pub blocked: Option<String>,
    /// Since when the connection is being rebuilt.
    pub reconnecting: Option<Reconnecting>,
    /// The queues that have a consumer attached.
    pub consuming: Vec<String>,
    /// The queues that were given up on, and why.
    pub suspended: Vec<(String, String)>,
}

/// A connection that is being rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconnecting {
    /// When it was lost.
    pub since: SystemTime,
    /// How often it was dialled since.
    pub attempts: u32,
    /// Why it is not there: how it was lost, or what the last attempt failed with.
    pub reason: String,
}

impl Reconnecting {
    /// For backends to tell.
    pub fn new(since: SystemTime, attempts: u32, reason: impl Into<String>) -> Self {
        Reconnecting { since, attempts, reason: reason.into() }
    }
}
