//! Jobs that were given up on, messages that are no jobs, and the hook that hears of both.

use std::{fmt, future::Future};

use crate::{BoxFuture, envelope::Envelope};

/// A job that was given up on. It is kept, with its reason, in the dead-letter queue of its queue.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The job, as its last attempt saw it.
    pub envelope: Envelope,
    /// Why it was given up on, for programs.
    pub cause: DeadLetterCause,
    /// Why it was given up on, for people.
    pub reason: String,
    /// How many attempts its policy gave it.
    pub max_attempts: u32,
}

/// Why a job was given up on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterCause {
    /// The worker that got it has no handler for it.
    NoHandler,
    /// Its payload does not have the job's shape.
    Decode,
    /// Its handler said that trying again is of no use.
    Fatal,
    /// Its last attempt failed.
    Exhausted,
    /// It failed when it was older than its policy's `give_up_after`.
    Expired,
    /// It was handed out more often than `redelivery_limit` allows, and never settled.
    Redelivered,
    /// It deferred itself more often than `max_deferrals` allows.
    Deferred,
    /// What was to follow can never be published.
    Undeliverable,
}

impl DeadLetterCause {
    /// Every cause, in the order of their declaration.
    pub const ALL: [DeadLetterCause; 8] = [
        Self::NoHandler,
        Self::Decode,
        Self::Fatal,
        Self::Exhausted,
        Self::Expired,
        Self::Redelivered,
        Self::Deferred,
        Self::Undeliverable,
    ];

    /// The cause as messages carry it: `no-handler`, `decode`, `fatal`…
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoHandler => "no-handler",
            Self::Decode => "decode",
            Self::Fatal => "fatal",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::Redelivered => "redelivered",
            Self::Deferred => "deferred",
            Self::Undeliverable => "undeliverable",
        }
    }
}

impl fmt::Display for DeadLetterCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message that is no envelope. It was put aside byte for byte.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The queue it was on.
    pub queue: String,
    /// What is wrong with it.
    pub reason: String,
    /// The message as it came, at most 64 KiB of it.
    pub body: Vec<u8>,
}

impl Malformed {
    pub(crate) fn new(queue: String, reason: String, body: Vec<u8>) -> Self {
        Malformed { queue, reason, body }
    }
}

impl fmt::Debug for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Malformed")
            .field("queue", &self.queue)
            .field("reason", &self.reason)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .finish()
    }
}

/// Hears of every job that is given up on, for an alert or a row in a database.
///
/// It is awaited before the dead letter is published, for at most 30 s, and may be called again for the same job
/// when the worker dies in between. A panic or a timeout in it is logged; the dead letter is published all the same.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no dead-letter hook",
    label = "expected a hook",
    note = "wrap a function or closure of a `DeadLetter` in `FnDeadLetterHook::new(...)`"
)]
pub trait DeadLetterHook: Send + Sync + 'static {
    /// A job is about to become a dead letter.
    fn on_dead_letter(&self, dead: DeadLetter) -> impl Future<Output = ()> + Send;

    /// A message that is no job was put aside. Does nothing by default.
    fn on_malformed(&self, malformed: Malformed) -> impl Future<Output = ()> + Send {
        let _ = malformed;
        async {}
    }
}

/// A [`DeadLetterHook`] made of a function of a [`DeadLetter`].
pub struct FnDeadLetterHook<F>(F);

impl<F, Fut> FnDeadLetterHook<F>
where
    F: Fn(DeadLetter) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    /// Calls `f` for every dead letter.
    pub fn new(f: F) -> Self {
        FnDeadLetterHook(f)
    }
}

impl<F> fmt::Debug for FnDeadLetterHook<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FnDeadLetterHook")
    }
}

impl<F, Fut> DeadLetterHook for FnDeadLetterHook<F>
where
    F: Fn(DeadLetter) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    fn on_dead_letter(&self, dead: DeadLetter) -> impl Future<Output = ()> + Send {
        (self.0)(dead)
    }
}

/// A [`DeadLetterHook`] behind a pointer.
pub(crate) trait ErasedHook: Send + Sync {
    fn dead_letter(&self, dead: DeadLetter) -> BoxFuture<'_, ()>;
    fn malformed(&self, malformed: Malformed) -> BoxFuture<'_, ()>;
}

impl<H: DeadLetterHook> ErasedHook for H {
    fn dead_letter(&self, dead: DeadLetter) -> BoxFuture<'_, ()> {
        Box::pin(self.on_dead_letter(dead))
    }

    fn malformed(&self, malformed: Malformed) -> BoxFuture<'_, ()> {
        Box::pin(self.on_malformed(malformed))
    }
}
