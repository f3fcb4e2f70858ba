//! Deliveries and the consumers that hand them out.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, ready},
};

use futures_util::{Stream, task::AtomicWaker};
use tokio::time::{Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    history::{AckKind, History},
    hold::deferral,
    queue::{Body, MemoryQueue, Message, Place},
};
use crate::{
    BoxFuture,
    backend::{Delivery, DeliveryStream, SettleError},
    envelope::Envelope,
    error::{self, Error, Result},
    queue::QueueKind,
    settlement::Settlement,
};

/// The most bytes of a message that is no job that its error carries.
const MAX_REPORTED_BODY: usize = 64 * 1024;

/// A subscription to a queue, shared by its stream and its deliveries.
pub(super) struct Consumer {
    queue: Arc<MemoryQueue>,
    history: Arc<History>,
    /// Fires when the backend is closed.
    closed: CancellationToken,
    prefetch: usize,
    unsettled: AtomicUsize,
    stream: Arc<AtomicWaker>,
}

impl Consumer {
    pub(super) fn subscribe(
        queue: Arc<MemoryQueue>,
        history: Arc<History>,
        closed: CancellationToken,
        prefetch: u16,
    ) -> DeliveryStream {
        let (unsettled, stream) = (AtomicUsize::new(0), Arc::<AtomicWaker>::default());
        queue.consumer_joins(stream.clone());
        let consumer = Consumer { queue, history, closed, prefetch: prefetch.into(), unsettled, stream };
        Box::pin(Deliveries { consumer: Arc::new(consumer), next_due: None })
    }

    fn is_full(&self) -> bool {
        self.unsettled.load(SeqCst) >= self.prefetch
    }

    /// Hands a message out, unless it is no job: that one is put aside.
    fn deliver(self: &Arc<Self>, Message { body, place }: Message) -> Result<Box<dyn Delivery>> {
        match body {
            Body::Job(envelope) => {
                self.unsettled.fetch_add(1, SeqCst);
                Ok(Box::new(MemoryDelivery { consumer: self.clone(), envelope: Some(envelope), place }))
            }
            Body::Foreign(bytes, reason) => {
                self.queue.unsettled.fetch_sub(1, SeqCst);
                let reported = bytes.get(..MAX_REPORTED_BODY).unwrap_or(&bytes).to_vec();
                self.queue.kill(Message { body: Body::Foreign(bytes, reason.clone()), place }, String::new());
                let queue = self.queue.config().name.clone();
                Err(Error::Malformed { queue, reason, body: error::Body(reported) })
            }
        }
    }

    /// A delivery is out of a worker's hands.
    fn settled(&self) {
        self.queue.unsettled.fetch_sub(1, SeqCst);
        if self.unsettled.fetch_sub(1, SeqCst) == self.prefetch {
            self.stream.wake();
        }
    }
}

/// The stream of a consumer. It takes a message from the queue only when it is asked for one.
struct Deliveries {
    consumer: Arc<Consumer>,
    next_due: Option<Pin<Box<Sleep>>>,
}

impl Stream for Deliveries {
    type Item = Result<Box<dyn Delivery>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let consumer = self.consumer.clone();
        consumer.stream.register(cx.waker());
        loop {
            if consumer.closed.is_cancelled() {
                return Poll::Ready(None);
            }
            if consumer.is_full() {
                return Poll::Pending;
            }
            let next_due = match consumer.queue.next(&consumer.stream) {
                Ok(message) => return Poll::Ready(Some(consumer.deliver(message))),
                Err(next_due) => next_due,
            };
            self.next_due = next_due.map(|due| Box::pin(sleep_until(due)));
            match &mut self.next_due {
                Some(sleep) => ready!(sleep.as_mut().poll(cx)),
                None => return Poll::Pending,
            }
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.consumer.queue.consumer_leaves(&self.consumer.stream);
    }
}

struct MemoryDelivery {
    consumer: Arc<Consumer>,
    /// Taken when it is settled.
    envelope: Option<Envelope>,
    place: Place,
}

impl MemoryDelivery {
    fn settle_now(&mut self, settlement: Settlement) -> Result<()> {
        if self.consumer.closed.is_cancelled() {
            return Err(Error::ShutDown);
        }
        let queue = &self.consumer.queue.clone();
        let kind = match settlement {
            Settlement::Requeue => {
                self.hand_back(true);
                return Ok(());
            }
            Settlement::DeadLetter { reason, .. } => {
                if let Some(envelope) = self.envelope.take() {
                    queue.kill(Message { body: Body::Job(envelope), place: self.place }, reason);
                    self.consumer.settled();
                }
                return Ok(());
            }
            Settlement::Redeliver { next } => {
                queue.publish_first(next)?;
                self.take();
                return Ok(());
            }
            Settlement::Ack => AckKind::Succeeded,
            Settlement::Discard => AckKind::Discarded,
            Settlement::Retry { next, delay } => {
                queue.publish(next, delay)?;
                AckKind::Retried
            }
            Settlement::Defer { next, delay } => {
                queue.publish(next, deferral(delay))?;
                AckKind::Deferred
            }
        };
        if let Some(envelope) = self.take() {
            self.consumer.history.record(envelope, kind);
        }
        Ok(())
    }

    /// The envelope, once; the delivery is then out of the worker's hands.
    fn take(&mut self) -> Option<Envelope> {
        let envelope = self.envelope.take();
        if envelope.is_some() {
            self.consumer.settled();
        }
        envelope
    }

    /// Goes back to its queue, `given` back or lost.
    fn hand_back(&mut self, given: bool) {
        if let Some(envelope) = self.envelope.take() {
            let message = Message { body: Body::Job(envelope), place: self.place };
            self.consumer.queue.take_back(message, given);
            self.consumer.settled();
        }
    }
}

impl Delivery for MemoryDelivery {
    fn envelope(&self) -> &Envelope {
        self.envelope.as_ref().unwrap_or_else(|| unreachable!("settling consumes the delivery"))
    }

    fn redelivered(&self) -> bool {
        self.place.redelivered
    }

    fn delivery_count(&self) -> Option<u32> {
        (self.consumer.queue.config().kind == QueueKind::Quorum).then_some(self.place.returns)
    }

    fn settle(mut self: Box<Self>, settlement: Settlement) -> BoxFuture<'static, Result<(), SettleError>> {
        Box::pin(async move {
            match self.settle_now(settlement) {
                Ok(()) => Ok(()),
                // A closed backend hands out nothing any more: the delivery is lost.
                Err(error @ Error::ShutDown) => Err(SettleError { error, delivery: None }),
                Err(error) => Err(SettleError { error, delivery: Some(self) }),
            }
        })
    }

    fn is_lost(&self) -> bool {
        self.consumer.closed.is_cancelled()
    }

    fn lost(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.consumer.closed.clone().cancelled_owned())
    }
}

impl Drop for MemoryDelivery {
    fn drop(&mut self) {
        self.hand_back(false);
    }
}
