//! A subscription over all its channels: what comes is passed on, what ends is begun again.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use lapin::message::Delivery as Received;
use queuey_core::{Envelope, Error, QueueConfig, Result};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use super::{
    attach::Attached,
    ending::{Ending, Refused, after_failure, ending},
};
use crate::{
    connection::{HEALTHY, Link, Live},
    delivery::{Custody, Desk, RabbitMqDelivery, Source},
    error::{Failure, Lasting, with_sources},
    malformed::put_aside,
    options::ConnectionEvent,
    reconnect::{Attempt, Rebuilding},
    topology::{DeclareError, Forbidden},
};

/// How long a subscription is watched that may break its connection.
const PROBE: Duration = Duration::from_secs(1);

/// What a stream gives out.
pub(super) type Item = Result<RabbitMqDelivery>;

/// A subscription to a queue. It ends when its stream is dropped.
pub(crate) struct Subscription {
    pub(super) config: Arc<QueueConfig>,
    desk: Arc<Desk>,
    link: Link,
    attached: AtomicBool,
    /// Why it is not attached, where that is not the connection's fault.
    suspended: Mutex<Option<String>>,
    /// The channels it had, as far as something of them is left.
    sources: Mutex<Vec<(Weak<Source>, CancellationToken)>>,
    /// Fires when the stream is dropped.
    pub(super) dropped: CancellationToken,
    /// Fires when it has ended, and handed back what it had.
    ended: CancellationToken,
}

impl Subscription {
    /// Subscribes, and from then on stays subscribed.
    ///
    /// # Errors
    ///
    /// When the first subscribe fails: that is not tried again.
    pub(super) async fn open(
        desk: &Arc<Desk>,
        link: &Link,
        config: Arc<QueueConfig>,
    ) -> Result<(Arc<Self>, mpsc::Receiver<Item>)> {
        let subscription = Arc::new(Subscription {
            config,
            desk: desk.clone(),
            link: link.clone(),
            attached: AtomicBool::new(false),
            suspended: Mutex::default(),
            sources: Mutex::default(),
            dropped: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        let opening = async {
            let live = link.live().await?;
            Attached::open(desk, &subscription.config, live, &subscription.dropped)
                .await
                .map_err(|error| subscription.explain(error))
        };
        let first = match tokio::time::timeout(desk.context.options.publish_timeout, opening).await {
            Ok(attached) => attached?,
            Err(_) => return Err(Error::NotConnected),
        };
        let (items, received) = mpsc::channel(usize::from(subscription.config.prefetch).max(1));
        // At once, so that health says so when the caller looks.
        subscription.attached.store(true, SeqCst);
        tokio::spawn(subscription.clone().run(first, items));
        Ok((subscription, received))
    }

    fn explain(&self, error: DeclareError) -> Error {
        match error {
            DeclareError::Lost(error) => {
                Failure::caused(format!("could not subscribe to queue `{}`", self.config.name), error)
            }
            DeclareError::Refused { missing: true, .. } => Error::UnknownQueue(self.config.name.clone()),
            DeclareError::Refused { error, .. } => error,
        }
    }

    async fn run(self: Arc<Self>, first: Attached, items: mpsc::Sender<Item>) {
        let _ended = self.ended.clone().drop_guard();
        let (mut attached, mut failures) = (first, 0);
        loop {
            self.note(&attached);
            let since = Instant::now();
            let ending = self.pump(&mut attached, &items).await;
            self.attached.store(false, SeqCst);
            if since.elapsed() >= HEALTHY {
                failures = 0;
            }
            let reason = match ending {
                Ending::StreamDropped => return attached.cancel().await,
                Ending::BackendClosed => return attached.source.lost.cancel(),
                Ending::ConnectionLost => {
                    attached.source.lost.cancel();
                    None
                }
                Ending::Cancelled => {
                    attached.release().await;
                    Some("cancelled by the broker".to_owned())
                }
                Ending::ChannelDied(reason) => {
                    attached.lose();
                    Some(reason)
                }
            };
            match self.begin_again(reason, &mut failures).await {
                Some(again) => attached = again,
                None => return,
            }
        }
    }

    /// Passes on what comes until there is a reason to stop.
    async fn pump(&self, attached: &mut Attached, items: &mpsc::Sender<Item>) -> Ending {
        loop {
            let received = tokio::select! {
                biased;
                () = self.dropped.cancelled() => return Ending::StreamDropped,
                () = self.desk.context.closed.cancelled() => return Ending::BackendClosed,
                () = attached.live.lost.cancelled() => return Ending::ConnectionLost,
                () = attached.source.lost.cancelled() => return after_failure(attached).await,
                received = attached.consumer.next() => received,
            };
            match received {
                Some(Ok(received)) => self.pass_on(&attached.source, received, items).await,
                ended => return ending(attached, ended.and_then(Result::err).as_ref()),
            }
        }
    }

    async fn pass_on(&self, source: &Arc<Source>, received: Received, items: &mpsc::Sender<Item>) {
        let custody = Custody::new(source.clone(), received.delivery_tag);
        let envelope = match Envelope::from_bytes(&received.data) {
            Ok(envelope) => envelope,
            Err(why) => {
                // Not more of these than the prefetch: each keeps its delivery until there is room for its report.
                let items = items.clone();
                tokio::spawn(async move {
                    let room = tokio::select! {
                        room = items.reserve_owned() => room,
                        () = custody.lost() => return,
                    };
                    let Ok(room) = room else { return custody.hand_back_now() };
                    if let Some(error) = put_aside(custody, received, why).await {
                        room.send(Err(error));
                    }
                });
                return;
            }
        };
        let delivery = RabbitMqDelivery::new(custody, envelope, &received);
        tokio::select! {
            biased;
            room = items.reserve() => match room {
                Ok(room) => room.send(Ok(delivery)),
                Err(_) => delivery.hand_back_now(),
            },
            () = self.dropped.cancelled() => delivery.hand_back_now(),
            () = source.lost.cancelled() => delivery.hand_back_now(),
        }
    }

    /// Subscribes again: at once after a lost connection or after a time of health, else with backoff. `None` where it
    /// has come to its end.
    async fn begin_again(&self, reason: Option<String>, failures: &mut u32) -> Option<Attached> {
        let queue = &self.config.name;
        if let Some(reason) = &reason {
            self.tell(ConnectionEvent::ConsumerCancelled { queue: queue.clone() }, reason);
        }
        let attached = tokio::select! {
            attached = self.try_until_attached(reason.clone().unwrap_or_default(), failures) => attached?,
            () = self.stopped() => return None,
        };
        self.suspend(None);
        self.desk.context.topology.allow(queue);
        self.attached.store(true, SeqCst);
        if reason.is_some() {
            self.tell(ConnectionEvent::ConsumerResumed { queue: queue.clone() }, "");
        }
        Some(attached)
    }

    async fn try_until_attached(&self, mut why: String, failures: &mut u32) -> Option<Attached> {
        loop {
            self.pause(*failures, &why).await.ok()?;
            let tried = self.try_again().await;
            *failures = failures.saturating_add(1);
            match tried {
                Ok(attached) => return Some(attached),
                Err(Refused::ForGood(error)) => {
                    self.suspend(Some(error));
                    // Not asked again; the stream stays, and stays silent.
                    std::future::pending::<()>().await;
                }
                Err(Refused::WhileConnected(error, live)) => {
                    self.suspend(Some(error.clone()));
                    live.lost.cancelled().await;
                    why = error;
                }
                Err(Refused::ForNow(error)) => {
                    self.suspend(Some(error.clone()));
                    why = error;
                }
                Err(Refused::ConnectionEnded) => return None,
                Err(Refused::Lost(error)) => why = error,
            }
        }
    }

    /// Resolves when nobody wants deliveries any more.
    async fn stopped(&self) {
        tokio::select! {
            () = self.dropped.cancelled() => {}
            () = self.desk.context.closed.cancelled() => {}
        }
    }

    /// The first time is at once. Fails where the policy gives up.
    async fn pause(&self, failures: u32, why: &str) -> Result<(), ()> {
        let wait = match (failures, &self.desk.context.options.reconnect) {
            (0, Some(_)) => Some(Duration::ZERO),
            (failures, Some(policy)) => policy.next_delay(Attempt::new(failures, why, Rebuilding::Consumer)),
            (_, None) => None,
        };
        match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => {
                error!(queue = self.config.name, why, "consumer given up");
                return Err(());
            }
        }
        Ok(())
    }

    async fn try_again(&self) -> Result<Attached, Refused> {
        let mut live = self.link.live().await.map_err(|_| Refused::ConnectionEnded)?;
        let probing = self.link.state().unreadable;
        let _alone = if probing { Some(self.desk.probing.lock().await) } else { None };
        if probing {
            // The one before may have cost the connection.
            live = self.link.live().await.map_err(|_| Refused::ConnectionEnded)?;
        }
        // Whatever holds for a connection only is asked on every one.
        if let Some(Forbidden { why, lasts: Lasting::ForEver }) =
            self.desk.context.topology.forbidden(&self.config.name)
        {
            return Err(Refused::ForGood(why));
        }
        let trying = self.declare_and_attach(live.clone());
        match tokio::time::timeout(self.desk.context.options.publish_timeout, trying).await {
            Ok(Ok(attached)) if probing => self.probe(attached).await,
            Ok(Ok(attached)) => Ok(attached),
            Ok(Err(DeclareError::Lost(error))) => Err(Refused::Lost(with_sources(&error))),
            Ok(Err(refused)) => Err(self.refused(&refused, live)),
            Err(_) => Err(Refused::Lost("no answer in time".to_owned())),
        }
    }

    /// Watches whether this subscription, alone on its connection, breaks it.
    async fn probe(&self, attached: Attached) -> Result<Attached, Refused> {
        if tokio::time::timeout(PROBE, attached.live.lost.cancelled()).await.is_err() {
            return Ok(attached);
        }
        self.link.live().await.map_err(|_| Refused::ConnectionEnded)?;
        if !self.link.state().unreadable {
            return Err(Refused::Lost("the connection broke".to_owned()));
        }
        let why = "a message on it can't be read, and breaks the connection: remove it, then start again"
            .to_owned();
        error!(queue = self.config.name, why, "queue is not consumed any more: the others go on without it");
        Err(Refused::ForGood(why))
    }

    async fn declare_and_attach(&self, live: Arc<Live>) -> Result<Attached, DeclareError> {
        self.desk.context.topology.declare(&live.connection, [&*self.config]).await?;
        Attached::open(&self.desk, &self.config, live, &self.dropped).await
    }

    fn refused(&self, refused: &DeclareError, live: Arc<Live>) -> Refused {
        let DeclareError::Refused { error, lasts, .. } = refused else { return Refused::ConnectionEnded };
        let why = with_sources(error);
        if self.lock_suspended().as_ref() != Some(&why) {
            self.desk.context.topology.note_refusal(&self.config.name, refused);
        }
        Refused::of(why, *lasts, live)
    }

    fn note(&self, attached: &Attached) {
        let mut sources = self.lock_sources();
        sources.retain(|(_, ended)| !ended.is_cancelled());
        sources.push((Arc::downgrade(&attached.source), attached.ended.clone()));
    }

    fn suspend(&self, why: Option<String>) {
        *self.lock_suspended() = why;
    }

    fn tell(&self, event: ConnectionEvent, reason: &str) {
        self.desk.context.reporter.tell("consumer", event, reason);
    }

    pub(super) fn is_attached(&self) -> bool {
        self.attached.load(SeqCst)
    }

    pub(super) fn suspended(&self) -> Option<String> {
        self.lock_suspended().clone()
    }

    /// Whether nothing of it is left.
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_cancelled() && self.lock_sources().iter().all(|(_, ended)| ended.is_cancelled())
    }

    /// Resolves when all that was settled or handed back has reached the broker.
    pub(super) async fn flush(&self) {
        if self.dropped.is_cancelled() {
            self.ended.cancelled().await;
        }
        let sources = self.lock_sources().clone();
        for (source, ended) in sources {
            match source.upgrade() {
                Some(source) => source.acks.flush().await,
                None => ended.cancelled().await,
            }
        }
        debug!(queue = self.config.name, "all acknowledgements are through");
    }

    fn lock_suspended(&self) -> MutexGuard<'_, Option<String>> {
        self.suspended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sources(&self) -> MutexGuard<'_, Vec<(Weak<Source>, CancellationToken)>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
