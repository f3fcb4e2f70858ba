//! The claim on one delivery: it is ended once, its successor first, or goes back when it is dropped.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use lapin::types::ShortString;
use queuey_core::{BoxFuture, Error, QueueConfig, QueueKind, Result};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, warn};

use crate::{
    acks::{Acks, End},
    connection::{Context, Link},
    error::with_sources,
    hold::{Holds, Wait},
    message::Message,
    publisher::Publisher,
    topology::dead_queue_name,
};

/// How long a delivery may stay unsettled where its queue says nothing: the broker's own limit.
const ACK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long a successor is tried for at least, however late the delivery is settled.
const LEAST_TRIED: Duration = Duration::from_secs(30);

/// How long a settlement may go on that nobody waits for any more.
const GRACE: Duration = Duration::from_secs(2);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What settling needs of the backend.
pub(crate) struct Desk {
    pub(crate) context: Context,
    /// The link that messages are published over.
    pub(crate) link: Link,
    pub(crate) publisher: Publisher,
    pub(crate) holds: Holds,
    /// Held by the subscription that is tried alone, to find the queue with a message that can't be read.
    pub(crate) probing: tokio::sync::Mutex<()>,
}

impl Desk {
    /// The dead-letter queue of a queue.
    pub(crate) fn dead_queue(&self, queue: &str) -> String {
        dead_queue_name(queue, &self.context.options.dead_suffix)
    }

    async fn publish(&self, successor: &Successor, enough: impl Future<Output = Error>) -> Result<()> {
        match successor {
            Successor::Now(message) | Successor::Dead(message) => {
                self.publisher.publish_until(message.clone(), enough).await
            }
            Successor::Held(message, wait) => self.holds.hold(message, wait, enough).await,
        }
    }

    /// Makes a dead-letter queue that was found missing.
    async fn make_dead_queue(&self, queue: &str) {
        let Ok(live) = self.link.ready().await else { return };
        if let Err(error) = self.context.topology.declare_dead(&live.connection, queue).await {
            warn!(queue, ?error, "the dead-letter queue is missing, and can't be declared");
        }
    }
}

/// A consumer channel, as its deliveries see it. It is closed when the last of them is gone.
pub(crate) struct Source {
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) acks: Acks,
    /// Fires when the broker will hand out again all that was not settled.
    pub(crate) lost: CancellationToken,
    /// Fires when the broker has ended the subscription while the channel lives.
    pub(crate) cancelled: CancellationToken,
}

/// What takes the place of a delivery.
#[derive(Debug, Clone)]
pub(crate) enum Successor {
    Now(Message),
    Held(Message, Wait),
    Dead(Message),
}

impl Successor {
    fn queue(&self) -> &ShortString {
        match self {
            Successor::Now(message) | Successor::Held(message, _) | Successor::Dead(message) => {
                &message.queue
            }
        }
    }
}

/// Why a delivery could not be ended as it should.
pub(crate) enum Failed {
    /// It is out of our hands: the broker hands it out again.
    Lost(Error),
    /// This can never succeed; something else may.
    Never(Error),
}

/// The claim on a delivery. A clone is the same claim; when the last is gone and nobody has ended the delivery, it goes
/// back.
#[derive(Clone)]
pub(crate) struct Custody(Arc<Claim>);

struct Claim {
    source: Arc<Source>,
    tag: u64,
    received: Instant,
    ended: AtomicBool,
}

impl Custody {
    pub(crate) fn new(source: Arc<Source>, tag: u64) -> Self {
        Custody(Arc::new(Claim { source, tag, received: Instant::now(), ended: AtomicBool::new(false) }))
    }

    pub(crate) fn source(&self) -> &Arc<Source> {
        &self.0.source
    }

    /// Resolves when the broker hands the delivery out again, whatever is done with it.
    pub(crate) fn lost(&self) -> BoxFuture<'static, ()> {
        let (lost, cancelled) = (self.0.source.lost.clone(), self.0.source.cancelled.clone());
        let overdue = self.0.overdue();
        Box::pin(async move {
            let timed_out = async {
                cancelled.cancelled().await;
                match overdue {
                    Some(overdue) => tokio::time::sleep_until(overdue.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = lost.cancelled() => {}
                () = timed_out => {}
            }
        })
    }

    /// Ends the delivery.
    pub(crate) async fn end(&self, end: End) -> Result<(), Failed> {
        self.0.ended.store(true, SeqCst);
        if self.0.is_lost() || !self.0.source.acks.end(self.0.tag, end).await {
            return Err(self.0.loss());
        }
        Ok(())
    }

    /// Hands the delivery back without waiting for it.
    pub(crate) fn hand_back_now(&self) {
        self.0.ended.store(true, SeqCst);
        self.0.source.acks.end_now(self.0.tag, End::HandBack);
    }

    /// Publishes what takes the delivery's place, with the patience of a producer, and ends it.
    pub(crate) async fn succeed_once(&self, successor: Successor) -> Result<(), Failed> {
        let custody = self.clone();
        see_through(|abandoned| async move { custody.carry_once(&successor, abandoned).await }).await
    }

    /// Publishes what takes the delivery's place, as often as it takes while the delivery lives, and ends it.
    pub(crate) async fn succeed(&self, successor: Successor) -> Result<(), Failed> {
        let custody = self.clone();
        see_through(|abandoned| async move { custody.carry(&successor, abandoned).await }).await
    }

    async fn carry_once(self, successor: &Successor, abandoned: CancellationToken) -> Result<(), Failed> {
        let desk = &self.0.source.desk;
        let published = tokio::select! {
            biased;
            () = self.lost() => return Err(self.0.loss()),
            published = desk.publish(successor, desk.link.patience()) => published,
            () = grace(abandoned) => return Err(self.0.loss()),
        };
        published.map_err(Failed::Never)?;
        self.end(End::Ack).await
    }

    async fn carry(self, successor: &Successor, abandoned: CancellationToken) -> Result<(), Failed> {
        let half = self.0.source.config.ack_timeout.unwrap_or(ACK_TIMEOUT) / 2;
        let deadline = (self.0.received + half).max(Instant::now() + LEAST_TRIED.min(half));
        let published = tokio::select! {
            biased;
            () = self.lost() => return Err(self.0.loss()),
            published = persist(&self.0.source, successor) => published,
            () = tokio::time::sleep_until(deadline.into()) => return Err(self.hand_back().await),
            () = grace(abandoned) => return Err(self.0.loss()),
        };
        published.map_err(Failed::Never)?;
        self.end(End::Ack).await
    }

    async fn hand_back(&self) -> Failed {
        let queue = self.0.source.config.name.as_str();
        warn!(queue, "a delivery could not be settled in half the time the broker gives: handed back");
        match self.end(End::HandBack).await {
            Ok(()) => self.0.loss(),
            Err(failed) => failed,
        }
    }
}

/// Runs a settlement in a task of its own, so that a worker that is cut off does not part a successor that is confirmed
/// from the acknowledgement of its original.
async fn see_through<F>(start: impl FnOnce(CancellationToken) -> F) -> Result<(), Failed>
where
    F: Future<Output = Result<(), Failed>> + Send + 'static,
{
    let abandoned = CancellationToken::new();
    let _guard = abandoned.clone().drop_guard();
    let settling = tokio::spawn(start(abandoned).in_current_span());
    settling.await.unwrap_or(Err(Failed::Lost(Error::ShutDown)))
}

/// Resolves a while after nobody waits for a settlement any more.
async fn grace(abandoned: CancellationToken) {
    abandoned.cancelled().await;
    tokio::time::sleep(GRACE).await;
}

impl Claim {
    /// When the broker takes the delivery back by itself, where that is known. It says so by ending the subscription,
    /// and takes a late acknowledgement without a word.
    fn overdue(&self) -> Option<Instant> {
        let config = &self.source.config;
        if config.kind == QueueKind::Quorum { self.received.checked_add(config.ack_timeout?) } else { None }
    }

    fn is_lost(&self) -> bool {
        let timed_out = self.overdue().is_some_and(|overdue| overdue <= Instant::now());
        self.source.lost.is_cancelled() || (timed_out && self.source.cancelled.is_cancelled())
    }

    fn loss(&self) -> Failed {
        let closed = self.source.desk.context.closed.is_cancelled();
        Failed::Lost(if closed { Error::ShutDown } else { Error::NotConnected })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.ended.load(SeqCst) {
            self.source.acks.end_now(self.tag, End::GiveUp);
        }
    }
}

/// Publishes until it works or never can. Each publish is waited for as long as its connection lives, so that an alarm
/// leaves no row of copies.
async fn persist(source: &Source, successor: &Successor) -> Result<()> {
    let mut pause = FIRST_PAUSE;
    let mut troubled = false;
    loop {
        match source.desk.publish(successor, std::future::pending()).await {
            Ok(()) => {
                if troubled {
                    info!(queue = successor.queue().as_str(), "a delivery is settled after trouble");
                }
                return Ok(());
            }
            Err(error) if can_never_succeed(&error) => return Err(error),
            Err(error) => {
                if !troubled {
                    let error = with_sources(&error);
                    warn!(
                        queue = successor.queue().as_str(),
                        error, "a delivery can't be settled now: trying on"
                    );
                }
                troubled = true;
                if matches!((successor, &error), (Successor::Dead(_), Error::Unroutable { .. })) {
                    source.desk.make_dead_queue(&source.config.name).await;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn can_never_succeed(error: &Error) -> bool {
    !matches!(
        error,
        Error::NotConnected
            | Error::Blocked { .. }
            | Error::Refused { .. }
            | Error::Unconfirmed { .. }
            | Error::Unroutable { .. }
            | Error::QueueMismatch { .. }
            | Error::ShutDown
    )
}
