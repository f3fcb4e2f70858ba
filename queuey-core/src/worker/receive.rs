//! The streams of all queues as one: fair between them, and never more unsettled than their prefetch.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt, stream::SelectAll, task::AtomicWaker};

use crate::{
    backend::{Backend, Delivery, DeliveryStream},
    error::Result,
    worker::plan::Plan,
};

/// The deliveries of all queues of a worker. Dropping it cancels the consumers.
pub(crate) struct Sources(SelectAll<Source>);

/// What came from a queue.
pub(crate) struct Received {
    pub(crate) queue: usize,
    pub(crate) ticket: Ticket,
    /// `None` when the consumer has ended.
    pub(crate) item: Option<Result<Box<dyn Delivery>>>,
}

impl Sources {
    /// Subscribes to every queue of the plan.
    pub(crate) async fn open(backend: &(impl Backend + ?Sized), plan: &Plan) -> Result<Self> {
        let mut sources = SelectAll::new();
        for (queue, queue_plan) in plan.queues.iter().enumerate() {
            let stream = backend.consume(&queue_plan.config).await?;
            sources.push(Source::new(queue, stream, queue_plan.config.prefetch.into()));
        }
        Ok(Sources(sources))
    }

    pub(crate) async fn next(&mut self) -> Received {
        match self.0.next().await {
            Some(received) => received,
            // Every consumer has ended, and each end was reported.
            None => std::future::pending().await,
        }
    }
}

struct Source {
    queue: usize,
    stream: DeliveryStream,
    prefetch: Arc<Prefetch>,
    /// What came though the prefetch was full. A backend that keeps to it gives none, so that an end is seen at once.
    early: Option<Result<Box<dyn Delivery>>>,
    ended: bool,
}

/// How much of a queue is unsettled. A backend bounds that too; this holds for those that don't.
struct Prefetch {
    most: usize,
    unsettled: AtomicUsize,
    freed: AtomicWaker,
}

/// A place in a queue's prefetch; given back when it is dropped.
pub(crate) struct Ticket(Arc<Prefetch>);

impl Source {
    fn new(queue: usize, stream: DeliveryStream, most: usize) -> Self {
        let prefetch = Prefetch { most, unsettled: AtomicUsize::new(0), freed: AtomicWaker::new() };
        Source { queue, stream, prefetch: Arc::new(prefetch), early: None, ended: false }
    }
}

impl Stream for Source {
    type Item = Received;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Received>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let is_free = self.prefetch.poll_free(cx).is_ready();
        let item = match self.early.take() {
            Some(early) if is_free => Some(early),
            Some(early) => {
                self.early = Some(early);
                return Poll::Pending;
            }
            None => ready!(self.stream.as_mut().poll_next(cx)),
        };
        if !is_free && item.is_some() {
            self.early = item;
            return Poll::Pending;
        }
        self.ended = item.is_none();
        self.prefetch.unsettled.fetch_add(1, SeqCst);
        Poll::Ready(Some(Received { queue: self.queue, ticket: Ticket(self.prefetch.clone()), item }))
    }
}

impl Prefetch {
    fn poll_free(&self, cx: &Context<'_>) -> Poll<()> {
        let full = || self.unsettled.load(SeqCst) >= self.most;
        if full() {
            self.freed.register(cx.waker());
            // A ticket may have been given back in between.
            if full() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.0.unsettled.fetch_sub(1, SeqCst) == self.0.most {
            self.0.freed.wake();
        }
    }
}
