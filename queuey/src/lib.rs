//! A type-safe job framework: queues are an enum, jobs are structs, handlers are async functions.
//!
//! ```
//! use queuey::prelude::*;
//!
//! #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
//! #[queues(prefix = "myapp")]
//! enum AppQueues {
//!     #[queue(retry(max_attempts = 5))]
//!     Emails,
//! }
//!
//! #[derive(Serialize, Deserialize, Job)]
//! #[job(queue = AppQueues::Emails)]
//! struct SendEmail {
//!     to: String,
//! }
//!
//! #[handler]
//! async fn send_email(job: SendEmail, ctx: JobContext) -> Result<(), JobError> {
//!     println!("mail to {}, attempt {} of {}", job.to, ctx.attempt, ctx.max_attempts);
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> queuey::Result<()> {
//! let backend = queuey::connect("memory://docs").await?;
//! let producer = Producer::<AppQueues>::new(backend.clone()).await?;
//! producer.enqueue(&SendEmail { to: "ada".into() }).await?;
//!
//! let worker = Worker::<AppQueues>::builder(backend).discover_handlers().build().await?;
//! let stop = std::future::ready(()); // a program that serves uses `run_until_signal()`
//! worker.run_until(stop).await?;
//! # Ok(())
//! # }
//! ```

mod connect;
pub mod prelude;
#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
pub use queuey_core::__private;
pub use queuey_core::{
    AckKind, Backend, Backoff, Body, BoxError, BoxFuture, BuildError, Counts, DEFAULT_MAX_PRIORITY,
    DeadLetter, DeadLetterCause, DeadLetterHook, Delivery, DeliveryStream, EnqueueOptions, Envelope,
    EnvelopeError, Error, Fatal, FnDeadLetterHook, FnHandler, Health, Jitter, Job, JobContext, JobError,
    JobErrorKind, JobHandler, JobResult, Layer, MAX_DELAY, Malformed, MemoryBackend, Next, Origin, Place,
    Producer, QueueConfig, QueueKind, QueueSet, Reconnecting, Result, RetryDecision, RetryPolicy, RunReport,
    SameSet, SettleError, Settlement, State, Stats, Worker, WorkerBuilder, WorkerHandle,
};
pub use queuey_macros::{Job, Queues, handler};
#[cfg(feature = "rabbitmq")]
pub use queuey_rabbitmq::{
    Attempt, BackoffPolicy, ConnectionEvent, DeadLetters, RabbitMqBackend, RabbitMqOptions, Rebuilding,
    ReconnectPolicy, TopologyMode, topology,
};

pub use connect::connect;
