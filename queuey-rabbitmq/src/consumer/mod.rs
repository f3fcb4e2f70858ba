//! Subscriptions: a channel for each, and a fresh one each time it is begun again.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use queuey_core::{Delivery, DeliveryStream, QueueConfig, Result};
use tokio::sync::mpsc;

mod attach;
mod ending;
mod subscription;

use crate::{connection::Link, delivery::Desk};
use subscription::{Item, Subscription};

/// The subscriptions of a backend.
#[derive(Default)]
pub(crate) struct Consumers(Mutex<Vec<Arc<Subscription>>>);

impl Consumers {
    /// Subscribes to a queue.
    pub(crate) async fn open(
        &self,
        desk: &Arc<Desk>,
        link: &Link,
        config: Arc<QueueConfig>,
    ) -> Result<DeliveryStream> {
        let (subscription, received) = Subscription::open(desk, link, config).await?;
        let mut all = self.lock();
        all.retain(|subscription| !subscription.is_over());
        all.push(subscription.clone());
        Ok(Box::pin(Deliveries { subscription, received }))
    }

    /// Resolves when all that was settled or handed back on a queue has reached the broker.
    pub(crate) async fn flush(&self, queue: &str) {
        let of_queue: Vec<_> = self.lock().iter().filter(|s| s.config.name == queue).cloned().collect();
        for subscription in of_queue {
            subscription.flush().await;
        }
        self.lock().retain(|subscription| !subscription.is_over());
    }

    /// The queues that have a consumer attached, each once, sorted.
    pub(crate) fn consuming(&self) -> Vec<String> {
        let all = self.lock();
        let attached = all.iter().filter(|subscription| subscription.is_attached());
        let mut queues: Vec<String> = attached.map(|subscription| subscription.config.name.clone()).collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    /// The queues that can't be consumed at present, and why.
    pub(crate) fn suspended(&self) -> Vec<(String, String)> {
        let all = self.lock();
        all.iter().filter_map(|s| Some((s.config.name.clone(), s.suspended()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Subscription>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stream of a subscription.
struct Deliveries {
    subscription: Arc<Subscription>,
    received: mpsc::Receiver<Item>,
}

impl Stream for Deliveries {
    type Item = Result<Box<dyn Delivery>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.received.poll_recv(cx)) {
                // The broker hands it out again.
                Some(Ok(delivery)) if delivery.is_lost() => delivery.hand_back_now(),
                Some(Ok(delivery)) => return Poll::Ready(Some(Ok(Box::new(delivery)))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.received.close();
        while let Ok(item) = self.received.try_recv() {
            if let Ok(delivery) = item {
                delivery.hand_back_now();
            }
        }
        self.subscription.dropped.cancel();
    }
}
