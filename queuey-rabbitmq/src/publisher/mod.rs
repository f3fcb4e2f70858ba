//! Publishing: every message mandatory and confirmed, and every caller told what became of its own.
//!
//! A caller's message waits in a bounded queue until one of the writers takes it, with all others that wait. Each writer has
//! a channel of its own, and publishes there all that it has taken at once; as confirms come in, a window of what is under
//! way slides on. Nobody else writes there, so that what the broker returns or refuses can be told to the one it concerns.
//!
//! ```text
//! publish ── request ──┬─▶ intake ─▶ writer ── window ─▶ the broker
//!                      │               ▲  │ a confirm is overdue: aside, and the queue gets a lane
//!                      └─▶ lane ───────┼──┘
//!                                      └─ the channel died: what is in doubt is written again, same id
//! ```

use std::{future::Future, sync::Arc};

use queuey_core::{Error, Result};
use tokio::sync::{Mutex, Semaphore, mpsc};

mod request;
mod matching;
mod window;
mod intake;
mod lanes;
mod blame;
mod writer;

use crate::{connection::Link, error::once_more, message::Message};
use lanes::Lanes;
use request::{Parcel, ask};
use writer::{Desk, Writer};

/// How many messages may wait for a writer; whoever comes later waits for room.
const WAITING: usize = 1024;

/// How many channels may wait for an overdue confirm.
const ASIDE: usize = 16;

/// Publishes over the channels of one link.
#[derive(Clone)]
pub(crate) struct Publisher {
    parcels: mpsc::Sender<Parcel>,
    lanes: Lanes,
    link: Link,
}

impl Publisher {
    /// Starts the writers; they end when the last clone of the publisher is gone.
    pub(crate) fn start(link: &Link, channels: u16) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let lanes = Lanes::default();
        let desk = Desk {
            link: link.clone(),
            lanes: lanes.clone(),
            again: sender.downgrade(),
            aside: Arc::new(Semaphore::new(ASIDE)),
            suspects: Arc::default(),
            timeout: link.publish_timeout(),
        };
        let parcels = Arc::new(Mutex::new(receiver));
        for _ in 0..channels {
            tokio::spawn(Writer::new(desk.clone(), parcels.clone()).write_all());
        }
        Publisher { parcels: sender, lanes, link: link.clone() }
    }

    /// Publishes a message, with the patience of a producer.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`] and [`Error::Blocked`] mean that nothing was sent, [`Error::Unconfirmed`] that it may be
    /// there; else what the broker said.
    pub(crate) fn publish(&self, message: Message) -> impl Future<Output = Result<()>> + Send + '_ {
        self.publish_until(message, self.link.patience())
    }

    /// Publishes a message, and gives up when `enough` resolves, with its reason where nothing was sent.
    pub(crate) fn publish_until<'a, E>(
        &'a self,
        message: Message,
        enough: E,
    ) -> impl Future<Output = Result<()>> + use<'a, E>
    where
        E: Future<Output = Error>,
    {
        // The message is put away at once: a future that holds it would be a large one, and be moved about.
        let (job_id, lane) = (message.job_id, self.lanes.of(&message.queue));
        let (request, mut asked) = ask(message);
        async move {
            let answered = async {
                self.send(lane, Parcel::One(request)).await?;
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

    /// Publishes messages in their order, with the patience of a producer, and gives each its own result.
    pub(crate) async fn publish_many(&self, messages: Vec<Message>) -> Vec<Result<()>> {
        let mut requests = Vec::with_capacity(messages.len());
        let mut waiting = Vec::with_capacity(messages.len());
        for message in messages {
            let (job_id, (request, asked)) = (message.job_id, ask(message));
            requests.push(request);
            waiting.push((job_id, asked));
        }
        let mut results = Vec::with_capacity(waiting.len());
        let answered = async {
            if self.parcels.send(Parcel::Many(requests)).await.is_ok() {
                for (_, asked) in &mut waiting {
                    results.push((&mut asked.answer).await.unwrap_or(Err(Error::ShutDown)));
                }
            }
        };
        let reason = tokio::select! {
            biased;
            () = answered => Error::ShutDown,
            reason = self.link.patience() => reason,
        };
        for (job_id, mut asked) in waiting.into_iter().skip(results.len()) {
            results.push(match asked.give_up() {
                true => Err(once_more(&reason)),
                false => asked.answer.try_recv().unwrap_or(Err(Error::Unconfirmed { job_id })),
            });
        }
        results
    }

    async fn send(&self, lane: Option<mpsc::Sender<Parcel>>, mut parcel: Parcel) -> Result<()> {
        if let Some(lane) = lane {
            match lane.send(parcel).await {
                Ok(()) => return Ok(()),
                // It was closed at this moment.
                Err(mpsc::error::SendError(unsent)) => parcel = unsent,
            }
        }
        self.parcels.send(parcel).await.map_err(|_| Error::ShutDown)
    }
}
