//! What a program that uses queuey needs at hand: `use queuey::prelude::*`.

pub use std::sync::Arc;

pub use serde::{Deserialize, Serialize};

pub use crate::{
    AckKind, Backend, Backoff, DeadLetter, DeadLetterCause, DeadLetterHook, EnqueueOptions, Fatal,
    FnDeadLetterHook, FnHandler, Jitter, Job, JobContext, JobError, JobHandler, JobResult, Layer, Malformed,
    MemoryBackend, Next, Producer, QueueConfig, QueueKind, QueueSet, Queues, RetryPolicy, State, Worker,
    WorkerBuilder, WorkerHandle, handler,
};
#[cfg(feature = "rabbitmq")]
pub use crate::{RabbitMqBackend, RabbitMqOptions};
