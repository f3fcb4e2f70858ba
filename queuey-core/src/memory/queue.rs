//! One queue: what is ready, what is held, what was given up on, and who waits for more.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::hold::{Holds, due_after};
use crate::{
    envelope::Envelope,
    error::{Error, Result, with_sources},
    queue::{QueueConfig, QueueKind},
};

/// Priorities above this are served like it, on a quorum queue (RabbitMQ 4.3 has 32 levels).
const TOP_QUORUM_PRIORITY: u8 = 31;

/// A message may be this large, as on a RabbitMQ of the 4.x series that is not told otherwise.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

pub(super) struct MemoryQueue {
    config: QueueConfig,
    /// How much is in the hands of consumers.
    pub(super) unsettled: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    /// The highest level first; within one the order of their numbers.
    ready: BTreeMap<Reverse<u8>, VecDeque<Message>>,
    held: Holds<Message>,
    dead: Vec<(Envelope, String)>,
    malformed: Vec<(Vec<u8>, String)>,
    /// The streams of consumers that found nothing.
    idle: Vec<Arc<AtomicWaker>>,
    consumers: Vec<Arc<AtomicWaker>>,
    next_number: u64,
    /// How often anything came in or was handed out.
    activity: u64,
}

/// A message on a queue.
pub(super) struct Message {
    pub(super) body: Body,
    pub(super) place: Place,
}

pub(super) enum Body {
    Job(Envelope),
    /// Bytes that are no envelope, and why.
    Foreign(Vec<u8>, String),
}

/// Where a message stands in its queue; it keeps that while it is handed out.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// The level it is served at.
    level: u8,
    /// Its place within the level.
    number: u64,
    expires: Option<Instant>,
    /// Whether it was handed out before.
    pub(super) redelivered: bool,
    /// How often it was handed out and never settled, as the queue counts.
    pub(super) returns: u32,
}

impl Message {
    pub(super) fn new(envelope: Envelope) -> Self {
        let place = Place { level: envelope.priority, ..Place::default() };
        Message { body: Body::Job(envelope), place }
    }

    pub(super) fn from_bytes(body: Vec<u8>) -> Self {
        match Envelope::from_bytes(&body) {
            Ok(envelope) => Self::new(envelope),
            Err(error) => {
                Message { body: Body::Foreign(body, with_sources(&error)), place: Place::default() }
            }
        }
    }

    fn envelope(&self) -> Option<&Envelope> {
        match &self.body {
            Body::Job(envelope) => Some(envelope),
            Body::Foreign(..) => None,
        }
    }
}

impl MemoryQueue {
    pub(super) fn new(config: QueueConfig) -> Self {
        let state = State {
            ready: BTreeMap::new(),
            held: Holds::new(),
            dead: Vec::new(),
            malformed: Vec::new(),
            idle: Vec::new(),
            consumers: Vec::new(),
            next_number: 0,
            activity: 0,
        };
        MemoryQueue { config, unsettled: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    pub(super) fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// Compares what a broker would compare.
    ///
    /// # Errors
    ///
    /// [`Error::QueueMismatch`] for the first argument that differs.
    pub(super) fn check_same(&self, wanted: &QueueConfig) -> Result<()> {
        let differing = arguments(&self.config)
            .into_iter()
            .zip(arguments(wanted))
            .find(|(found, wanted)| found != wanted);
        match differing {
            None => Ok(()),
            Some(((argument, found), (_, value))) => Err(Error::QueueMismatch {
                queue: wanted.name.clone(),
                argument: argument.to_owned(),
                found: Some(found),
                wanted: value,
            }),
        }
    }

    /// Takes an envelope in, at once or after a delay.
    pub(super) fn publish(&self, envelope: Envelope, delay: Duration) -> Result<()> {
        self.check(&envelope)?;
        if delay.is_zero() {
            self.push(Message::new(envelope));
            return Ok(());
        }
        let due = due_after(delay)?;
        let mut state = self.lock();
        state.activity += 1;
        state.held.hold(due, Message::new(envelope));
        state.wake();
        Ok(())
    }

    /// Takes an envelope in ahead of everything, whatever its own priority.
    pub(super) fn publish_first(&self, envelope: Envelope) -> Result<()> {
        self.check(&envelope)?;
        let place = Place { level: u8::MAX, ..Place::default() };
        self.push(Message { body: Body::Job(envelope), place });
        Ok(())
    }

    fn check(&self, envelope: &Envelope) -> Result<()> {
        envelope.check()?;
        // What is far below the limit is not worth writing out.
        match envelope.rough_size() {
            size if size < MAX_MESSAGE / 8 => Ok(()),
            _ => check_size(envelope.to_bytes().len()),
        }
    }

    /// Puts a message at the back of its level, behind all that fell due before.
    pub(super) fn push(&self, message: Message) {
        let mut state = self.lock();
        self.bring_up_to_date(&mut state);
        self.enter(&mut state, message, None);
        state.wake();
    }

    /// Puts a message at the back of its level; one that was held entered when it was due.
    fn enter(&self, state: &mut State, message: Message, due: Option<Instant>) {
        let number = state.next_number;
        state.next_number += 1;
        state.activity += 1;
        let expires = self.config.message_ttl.map(|ttl| due.unwrap_or_else(Instant::now) + ttl);
        let level = self.level(message.place.level);
        let place = Place { level, number, expires, ..message.place };
        state.level(level).push_back(Message { place, ..message });
    }

    fn level(&self, priority: u8) -> u8 {
        match self.config.kind {
            QueueKind::Quorum => priority.min(TOP_QUORUM_PRIORITY),
            QueueKind::Classic => priority.min(self.config.max_priority.unwrap_or(0)),
        }
    }

    /// Takes back a message that was handed out and never settled, to the place it had.
    ///
    /// What was `given` back does not count on a quorum queue, and is flagged all the same (RabbitMQ 4.3).
    pub(super) fn take_back(&self, mut message: Message, given: bool) {
        message.place.redelivered = true;
        if !(given && self.config.kind == QueueKind::Quorum) {
            message.place.returns = message.place.returns.saturating_add(1);
        }
        let mut state = self.lock();
        if self.is_over_the_brokers_limit(&message) {
            self.keep_dead(&mut state, message, "delivered too often without being settled".to_owned());
            return;
        }
        let level = state.level(message.place.level);
        let at = level.partition_point(|other| other.place.number < message.place.number);
        level.insert(at, message);
        state.wake();
    }

    /// A quorum queue has a limit of its own, twice the worker's.
    fn is_over_the_brokers_limit(&self, message: &Message) -> bool {
        let limit = self.config.redelivery_limit.unwrap_or(u32::MAX).saturating_mul(2);
        self.config.kind == QueueKind::Quorum && message.place.returns > limit
    }

    /// The next message, in hand from now on, or when it is worth looking again. A consumer that finds nothing is woken by the next one.
    pub(super) fn next(&self, stream: &Arc<AtomicWaker>) -> Result<Message, Option<Instant>> {
        let mut state = self.lock();
        self.bring_up_to_date(&mut state);
        let next = state.ready.values_mut().find_map(VecDeque::pop_front);
        if next.is_some() {
            self.unsettled.fetch_add(1, SeqCst);
            state.activity += 1;
        }
        next.ok_or_else(|| {
            if !state.idle.iter().any(|idle| Arc::ptr_eq(idle, stream)) {
                state.idle.push(stream.clone());
            }
            state.held.next_due()
        })
    }

    /// Moves what has fallen due, and drops what has expired.
    fn bring_up_to_date(&self, state: &mut State) {
        if state.held.is_empty() && self.config.message_ttl.is_none() {
            return;
        }
        let now = Instant::now();
        while let Some((due, message)) = state.held.release(now) {
            self.enter(state, message, Some(due));
        }
        if self.config.message_ttl.is_some() {
            self.expire(state, now);
        }
    }

    fn expire(&self, state: &mut State, now: Instant) {
        let is_expired = |message: &Message| message.place.expires.is_some_and(|expires| expires <= now);
        let mut expired = Vec::new();
        for level in state.ready.values_mut() {
            while level.front().is_some_and(is_expired) {
                expired.extend(level.pop_front());
            }
        }
        if self.config.dead_letter_expired || self.config.kind == QueueKind::Quorum {
            for message in expired {
                self.keep_dead(state, message, "expired before it was consumed".to_owned());
            }
        }
    }

    /// Keeps a message as a dead letter.
    pub(super) fn kill(&self, message: Message, reason: String) {
        self.keep_dead(&mut self.lock(), message, reason);
    }

    fn keep_dead(&self, state: &mut State, message: Message, reason: String) {
        match message.body {
            Body::Job(envelope) => state.dead.push((envelope, reason)),
            Body::Foreign(body, why) => state.malformed.push((body, why)),
        }
    }

    pub(super) fn ready(&self) -> Vec<Envelope> {
        let mut state = self.lock();
        self.bring_up_to_date(&mut state);
        state.ready.values().flatten().filter_map(Message::envelope).cloned().collect()
    }

    pub(super) fn held(&self) -> Vec<Envelope> {
        let mut state = self.lock();
        self.bring_up_to_date(&mut state);
        state.held.iter().filter_map(Message::envelope).cloned().collect()
    }

    pub(super) fn dead(&self) -> Vec<(Envelope, String)> {
        let mut state = self.lock();
        self.bring_up_to_date(&mut state);
        state.dead.clone()
    }

    pub(super) fn malformed(&self) -> Vec<(Vec<u8>, String)> {
        self.lock().malformed.clone()
    }

    pub(super) fn consumer_joins(&self, stream: Arc<AtomicWaker>) {
        self.lock().consumers.push(stream);
    }

    pub(super) fn consumer_leaves(&self, stream: &Arc<AtomicWaker>) {
        let mut state = self.lock();
        state.consumers.retain(|consumer| !Arc::ptr_eq(consumer, stream));
        state.idle.retain(|idle| !Arc::ptr_eq(idle, stream));
        // A wake-up that was meant for it goes to the others.
        state.wake();
    }

    pub(super) fn has_consumers(&self) -> bool {
        !self.lock().consumers.is_empty()
    }

    /// Wakes every consumer, whatever it waits for.
    pub(super) fn wake_all(&self) {
        self.lock().consumers.iter().for_each(|stream| stream.wake());
    }

    /// How often anything came in or was handed out so far, unless something is ready, held or in hand.
    pub(super) fn idle_after(&self) -> Option<u64> {
        let mut state = self.lock();
        self.bring_up_to_date(&mut state);
        let ready = state.ready.values().any(|level| !level.is_empty());
        let idle = !ready && state.held.is_empty() && self.unsettled.load(SeqCst) == 0;
        idle.then_some(state.activity)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn level(&mut self, level: u8) -> &mut VecDeque<Message> {
        self.ready.entry(Reverse(level)).or_default()
    }

    fn wake(&mut self) {
        self.idle.drain(..).for_each(|stream| stream.wake());
    }
}

/// Refuses what is larger than a message may be.
pub(super) fn check_size(size: usize) -> Result<()> {
    if size > MAX_MESSAGE { Err(Error::TooLarge { size, limit: MAX_MESSAGE }) } else { Ok(()) }
}

/// What makes a queue another queue for a broker, under the broker's names, always in the same order.
fn arguments(config: &QueueConfig) -> [(&'static str, String); 7] {
    let quorum = config.kind == QueueKind::Quorum;
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let millis = |duration: Option<Duration>| or_none(duration.map(|value| value.as_millis().to_string()));
    let dead = (config.dead_letter_expired || quorum).then(|| format!("{}.dead", config.name));
    let limit = config.redelivery_limit.filter(|_| quorum).map(|limit| limit.saturating_mul(2).to_string());
    [
        ("x-queue-type", if quorum { "quorum" } else { "classic" }.to_owned()),
        ("durable", config.durable.to_string()),
        ("x-max-priority", or_none(config.max_priority.map(|max| max.to_string()))),
        ("x-message-ttl", millis(config.message_ttl)),
        ("x-dead-letter-routing-key", or_none(dead)),
        ("x-delivery-limit", or_none(limit)),
        ("x-consumer-timeout", millis(config.ack_timeout)),
    ]
}
