//! The runtime of queuey, a type-safe job framework: jobs and queues, envelopes and retries, producers and workers,
//! and a backend within the process. It opens no socket; a broker is reached through a [`Backend`].
//!
//! Applications depend on the crate `queuey`, which brings all of this, the derives and the RabbitMQ backend.
//!
//! The way of a job: [`Job`] → [`Producer`] → [`Envelope`] → [`Backend`] → [`Delivery`] → [`Worker`] → [`JobHandler`] →
//! [`Settlement`].

use std::{future::Future, pin::Pin};

mod duration;
mod clock;
mod unraw;
mod error;
mod retry;
mod queue;
mod job;
mod envelope;
mod dead_letter;
mod settlement;
mod backend;
mod producer;
mod job_error;
mod context;
mod handler;
mod extract;
mod layer;
mod worker;
mod memory;
#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

/// A boxed future, as traits behind a pointer return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub use backend::{Backend, Delivery, DeliveryStream, Health, Reconnecting, SettleError};
pub use context::JobContext;
pub use dead_letter::{DeadLetter, DeadLetterCause, DeadLetterHook, FnDeadLetterHook, Malformed};
pub use envelope::{Envelope, EnvelopeError};
pub use error::{Body, BoxError, BuildError, Error, Origin, Place, Result};
pub use extract::State;
pub use handler::{FnHandler, JobHandler};
pub use job::{Job, SameSet};
pub use job_error::{Fatal, JobError, JobErrorKind, JobResult};
pub use layer::{Layer, Next};
pub use memory::{AckKind, MemoryBackend};
pub use producer::{EnqueueOptions, Producer};
pub use queue::{DEFAULT_MAX_PRIORITY, MAX_DELAY, QueueConfig, QueueKind, QueueSet};
pub use retry::{Backoff, Jitter, RetryDecision, RetryPolicy};
pub use settlement::Settlement;
pub use worker::{Counts, RunReport, Stats, Worker, WorkerBuilder, WorkerHandle};
