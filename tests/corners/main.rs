//! The corners of the contract: odd backends, extreme numbers, suspects in a row, stops at the wrong moment. Each test says
//! what the contract says, and each failed once.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::{sync::Mutex, time::Duration};

use futures_util::StreamExt;
use queuey::{
    BoxFuture, Delivery, DeliveryStream, Envelope, Error, Health, Result, SettleError, Settlement, prelude::*,
};
use queuey_tests::{Running, queue_set, until};
use tokio::time::Instant;

mod edges;
mod isolation;
mod odd;
mod reports;
mod misc;
mod drains;
mod stress;

pub(crate) type Log<T> = Arc<Mutex<Vec<T>>>;
pub(crate) fn note<T>(log: &Log<T>, entry: T) {
    log.lock().unwrap().push(entry);
}
pub(crate) fn noted<T: Clone>(log: &Log<T>) -> Vec<T> {
    log.lock().unwrap().clone()
}

pub(crate) type Settler =
    Arc<dyn Fn(Box<dyn Delivery>, Settlement) -> BoxFuture<'static, Result<(), SettleError>> + Send + Sync>;
pub(crate) type Loser = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A memory backend with its manners in the hands of the test.
#[derive(Clone)]
pub(crate) struct Odd {
    pub(crate) inner: MemoryBackend,
    pub(crate) settle: Settler,
    pub(crate) lost: Loser,
    pub(crate) hangs: bool,
    pub(crate) short_results: bool,
    pub(crate) accepts_all: bool,
}

impl Odd {
    pub(crate) fn new(
        settle: impl Fn(Box<dyn Delivery>, Settlement) -> BoxFuture<'static, Result<(), SettleError>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Odd {
            inner: MemoryBackend::new(),
            settle: Arc::new(settle),
            lost: Arc::new(|| Box::pin(std::future::pending())),
            hangs: false,
            short_results: false,
            accepts_all: false,
        }
    }
    pub(crate) fn plain() -> Self {
        Self::new(|inner, settlement| inner.settle(settlement))
    }
}

impl Backend for Odd {
    fn declare<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        if self.accepts_all {
            return Box::pin(async { Ok(()) });
        }
        self.inner.declare(queues)
    }
    fn publish<'a>(&'a self, envelope: &'a Envelope, delay: Option<Duration>) -> BoxFuture<'a, Result<()>> {
        self.inner.publish(envelope, delay)
    }
    fn publish_many<'a>(&'a self, envelopes: &'a [Envelope]) -> BoxFuture<'a, Vec<Result<()>>> {
        if self.short_results {
            return Box::pin(async { Vec::new() });
        }
        self.inner.publish_many(envelopes)
    }
    fn defer<'a>(&'a self, envelope: &'a Envelope, delay: Duration) -> BoxFuture<'a, Result<()>> {
        self.inner.defer(envelope, delay)
    }
    fn consume<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<DeliveryStream>> {
        Box::pin(async move {
            if self.accepts_all {
                return Ok(futures_util::stream::pending().boxed());
            }
            let stream = self.inner.consume(queue).await?;
            let odd = self.clone();
            Ok(stream
                .map(move |item| {
                    item.map(|inner| Box::new(OddDelivery { inner, odd: odd.clone() }) as Box<dyn Delivery>)
                })
                .boxed())
        })
    }
    fn flush<'a>(&'a self, _queue: &'a QueueConfig) -> BoxFuture<'a, Result<()>> {
        if self.hangs { Box::pin(std::future::pending()) } else { Box::pin(async { Ok(()) }) }
    }
    fn health(&self) -> BoxFuture<'_, Health> {
        self.inner.health()
    }
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        if self.hangs { Box::pin(std::future::pending()) } else { self.inner.close() }
    }
}

struct OddDelivery {
    inner: Box<dyn Delivery>,
    odd: Odd,
}

impl Delivery for OddDelivery {
    fn envelope(&self) -> &Envelope {
        self.inner.envelope()
    }
    fn redelivered(&self) -> bool {
        self.inner.redelivered()
    }
    fn delivery_count(&self) -> Option<u32> {
        self.inner.delivery_count()
    }
    fn settle(self: Box<Self>, settlement: Settlement) -> BoxFuture<'static, Result<(), SettleError>> {
        (self.odd.settle.clone())(self.inner, settlement)
    }
    fn lost(&self) -> BoxFuture<'static, ()> {
        (self.odd.lost)()
    }
}

pub(crate) fn refused() -> Error {
    Error::Refused { queue: "q".into() }
}
