//! A delivery of a job, and how each settlement is carried out: the successor first, then the acknowledgement.

use lapin::message::Delivery as Received;
use queuey_core::{BoxFuture, Delivery, Envelope, QueueKind, Result, SettleError, Settlement};

mod custody;

pub(crate) use custody::{Custody, Desk, Failed, Source, Successor};

use crate::{
    acks::End,
    hold::Wait,
    message::{Death, Message, delivery_count},
    options::DeadLetters,
};

/// A job in the hands of a worker.
pub(crate) struct RabbitMqDelivery {
    custody: Custody,
    envelope: Envelope,
    redelivered: bool,
    delivery_count: Option<u32>,
}

impl RabbitMqDelivery {
    pub(crate) fn new(custody: Custody, envelope: Envelope, received: &Received) -> Self {
        // Only a quorum queue counts; on a classic one the header may be anybody's.
        let counted = custody.source().config.kind == QueueKind::Quorum;
        let delivery_count = counted.then(|| delivery_count(&received.properties).unwrap_or(0));
        RabbitMqDelivery { custody, envelope, redelivered: received.redelivered, delivery_count }
    }

    /// Hands a delivery back that no worker has seen.
    pub(crate) fn hand_back_now(self) {
        self.custody.hand_back_now();
    }

    /// Whether the broker hands it out again, whatever is done with it.
    pub(crate) fn is_lost(&self) -> bool {
        self.custody.source().lost.is_cancelled()
    }

    async fn carry_out(&self, settlement: Settlement) -> Result<(), Failed> {
        match settlement {
            Settlement::Ack | Settlement::Discard => self.custody.end(End::Ack).await,
            Settlement::Requeue => self.custody.end(End::HandBack).await,
            Settlement::Retry { next, delay } if delay.is_zero() => {
                let successor = Successor::Now(self.message(&next)?);
                self.custody.succeed(successor).await
            }
            Settlement::Retry { next, delay } => {
                let granularity = self.custody.source().desk.context.options.retry_granularity;
                self.hold(&next, Wait { config: self.custody.source().config.clone(), delay, granularity })
                    .await
            }
            Settlement::Defer { next, delay } => {
                let granularity = self.custody.source().desk.context.options.deferred_granularity;
                self.hold(&next, Wait { config: self.custody.source().config.clone(), delay, granularity })
                    .await
            }
            Settlement::Redeliver { next } => {
                let top = self.custody.source().config.deferral_priority();
                let successor = Successor::Now(self.message(&next)?.at_priority(top));
                self.custody.succeed_once(successor).await
            }
            Settlement::DeadLetter { cause, reason } => self.bury(cause.as_str(), &reason).await,
            other => Err(Failed::Never(crate::error::Failure::plain(format!(
                "this version does not know how to settle a delivery like this: {other:?}"
            )))),
        }
    }

    async fn hold(&self, next: &Envelope, wait: Wait) -> Result<(), Failed> {
        wait.ttl_ms().map_err(Failed::Never)?;
        let successor = Successor::Held(self.message(next)?, wait);
        self.custody.succeed(successor).await
    }

    async fn bury(&self, cause: &str, reason: &str) -> Result<(), Failed> {
        let desk = &self.custody.source().desk;
        if desk.context.options.dead_letters == DeadLetters::Reject {
            return self.custody.end(End::Reject).await;
        }
        let queue = self.custody.source().config.name.as_str();
        let dead_queue = &desk.dead_queue(queue);
        let death = Death { queue, dead_queue, cause, reason, detail: None };
        let successor = Successor::Dead(Message::dead(&self.envelope, &death).map_err(Failed::Never)?);
        self.custody.succeed(successor).await
    }

    /// What is published for a delivery goes to the queue it was consumed from, whatever its body says.
    fn message(&self, next: &Envelope) -> Result<Message, Failed> {
        let config = &self.custody.source().config;
        Message::job(next, &config.name, config.durable).map_err(Failed::Never)
    }
}

impl Delivery for RabbitMqDelivery {
    fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    fn redelivered(&self) -> bool {
        self.redelivered
    }

    fn delivery_count(&self) -> Option<u32> {
        self.delivery_count
    }

    fn settle(self: Box<Self>, settlement: Settlement) -> BoxFuture<'static, Result<(), SettleError>> {
        Box::pin(async move {
            match self.carry_out(settlement).await {
                Ok(()) => Ok(()),
                Err(Failed::Lost(error)) => Err(SettleError { error, delivery: None }),
                Err(Failed::Never(error)) => Err(SettleError { error, delivery: Some(self) }),
            }
        })
    }

    fn lost(&self) -> BoxFuture<'static, ()> {
        self.custody.lost()
    }
}
