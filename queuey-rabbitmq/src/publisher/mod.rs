//! Publishing: every message mandatory and confirmed, and every caller told what became of its own.
//!
//! A caller's message waits in a bounded queue until one of the writers takes it. Each writer has a channel of its own;
//! nobody else writes there, so that what the broker returns or refuses can be told to the one it concerns. A message
//! whose channel died may be there already: it is published again, under the same id.

use std::{future::Future, sync::Arc};

use queuey_core::{Error, Result};
use tokio::sync::{Mutex, Semaphore, mpsc};

mod request;
mod writer;

use crate::{connection::Link, message::Message};
use request::{Request, ask};
use writer::{Desk, write_all};

/// How many messages may wait for a writer; whoever comes later waits for room.
const WAITING: usize = 1024;

/// How many channels may wait for an overdue confirm.
const ASIDE: usize = 16;

/// Publishes over the channels of one link.
#[derive(Clone)]
pub(crate) struct Publisher {
    requests: mpsc::Sender<Request>,
    link: Link,
}

impl Publisher {
    /// Starts the writers; they end when the last clone of the publisher is gone.
    pub(crate) fn start(link: &Link, channels: u16) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let desk = Desk {
            link: link.clone(),
            requests: Arc::new(Mutex::new(receiver)),
            again: sender.downgrade(),
            aside: Arc::new(Semaphore::new(ASIDE)),
        };
        for _ in 0..channels {
            tokio::spawn(write_all(desk.clone()));
        }
        Publisher { requests: sender, link: link.clone() }
    }

    /// Publishes a message, with the patience of a producer.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`] and [`Error::Blocked`] mean that nothing was sent, [`Error::Unconfirmed`] that it may be
    /// there; else what the broker said.
    pub(crate) async fn publish(&self, message: Message) -> Result<()> {
        self.publish_until(message, self.link.patience()).await
    }

    /// Publishes a message, and gives up when `enough` resolves, with its reason where nothing was sent.
    pub(crate) async fn publish_until(
        &self,
        message: Message,
        enough: impl Future<Output = Error>,
    ) -> Result<()> {
        let job_id = message.job_id;
        let (request, mut asked) = ask(message);
        let answered = async {
            if self.requests.send(request).await.is_err() {
                return Err(Error::ShutDown);
            }
            (&mut asked.answer).await.unwrap_or(Err(Error::ShutDown))
        };
        tokio::select! {
            biased;
            answer = answered => return answer,
            reason = enough => if asked.give_up() { return Err(reason) },
        }
        // It was handed over: the answer may have come at this very moment.
        asked.answer.try_recv().unwrap_or(Err(Error::Unconfirmed { job_id }))
    }
}
