//! What can go wrong between an application and its broker, and what to do about it.

use std::{fmt, panic::Location, time::Duration};

use uuid::Uuid;

use crate::duration::human;

/// An error of any source, as handlers and backends hand it over.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The result of everything that can fail with an [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call to a producer, a worker or a backend failed.
///
/// [`NotConnected`](Error::NotConnected), [`Blocked`](Error::Blocked), [`Refused`](Error::Refused),
/// [`Unroutable`](Error::Unroutable) and [`TooLarge`](Error::TooLarge) mean that the job was certainly not
/// enqueued; after [`Unconfirmed`](Error::Unconfirmed) it may have been.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A job could not be written as JSON, or its own type can't read back what was written.
    #[error(
        "job `{job_type}` does not survive JSON: its type must read back what it writes (floats that are NaN or infinite, u128 in a tagged enum and maps without string keys don't)"
    )]
    Serde {
        /// The job's name.
        job_type: String,
        /// What serde said.
        source: serde_json::Error,
    },
    /// The backend failed in a way it has no other word for.
    #[error("the backend failed")]
    Backend(#[source] BoxError),
    /// The address of a backend can't be used.
    #[error("the backend's address can't be used: {why}")]
    InvalidAddress {
        /// What is wrong with it; never the address itself, for it may hold a password.
        why: String,
    },
    /// An option of an enqueue can't be kept.
    #[error("job `{job_type}` was not enqueued: {why}")]
    InvalidOption {
        /// The job's name.
        job_type: String,
        /// Which option, and what is allowed.
        why: String,
    },
    /// A wait or a subscription on a queue that was never declared here.
    #[error(
        "queue `{0}` was not declared by this backend: declare it first (`Producer::new` and `WorkerBuilder::build` do)"
    )]
    UnknownQueue(String),
    /// A worker was built with no handler at all.
    #[error(
        "the worker has no handler, so every job would become a dead letter: add `.handler(...)`, or `.discover_handlers()` for functions with `#[handler]`"
    )]
    NoHandler,
    /// A worker could not be built; every mistake is listed.
    #[error("the worker can't be built:{}", list(.0))]
    Build(Vec<BuildError>),
    /// The broker refused a message, for a length limit of its queue for instance.
    #[error(
        "the broker refused a message for queue `{queue}`: look at the limits and policies of that queue, then enqueue again"
    )]
    Refused {
        /// The queue that would not take it.
        queue: String,
    },
    /// The queue does not exist, so the broker returned the job.
    #[error(
        "job {job_id} was returned: there is no queue `{queue}`; declare it (`Producer::new`) and enqueue again"
    )]
    Unroutable {
        /// The job that came back.
        job_id: Uuid,
        /// The queue that is missing.
        queue: String,
    },
    /// The broker has neither confirmed nor refused the job; it may be there.
    #[error("job {job_id} was sent and never confirmed: enqueue it again under the same job id")]
    Unconfirmed {
        /// The job whose fate is unknown.
        job_id: Uuid,
    },
    /// There is no connection; nothing was sent.
    #[error("not connected to the broker: nothing was sent, try again")]
    NotConnected,
    /// The broker takes no messages at present; nothing was sent.
    #[error(
        "the broker takes no messages at present ({reason}): nothing was sent, try again once it has recovered"
    )]
    Blocked {
        /// What the broker gave as the reason.
        reason: String,
    },
    /// A message is larger than the broker takes.
    #[error(
        "a message of {size} bytes is larger than the limit of {limit} bytes: store the data elsewhere and enqueue a reference to it"
    )]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A delay that no hold queue can keep.
    #[error("delay of {} is longer than a hold queue can wait ({}); it was refused rather than released early", human(*.delay), human(*.max))]
    DelayTooLong {
        /// The delay that was asked for.
        delay: Duration,
        /// The longest one that can be kept.
        max: Duration,
    },
    /// A queue's configuration is not acceptable.
    #[error("queue `{name}` can't be declared: {why}", name = .name.escape_debug())]
    InvalidQueue {
        /// The queue's name.
        name: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// The queue exists with other arguments.
    #[error(
        "queue `{queue}` exists with another `{argument}`: wanted {wanted}, found {}; change the declaration back, or drain and delete the queue",
        .found.as_deref().unwrap_or("another value")
    )]
    QueueMismatch {
        /// The queue.
        queue: String,
        /// The argument that differs.
        argument: String,
        /// What the existing queue has, as far as the broker tells.
        found: Option<String>,
        /// What this declaration asks for.
        wanted: String,
    },
    /// The broker's user may not do this.
    #[error("access refused: {what}; grant the permission to the broker's user")]
    AccessRefused {
        /// What was refused.
        what: String,
    },
    /// A message that is no job; it was put aside.
    #[error("a message on queue `{queue}` is no job: {reason}")]
    Malformed {
        /// The queue it was on.
        queue: String,
        /// What is wrong with it.
        reason: String,
        /// The message as it came, at most 64 KiB of it.
        body: Body,
    },
    /// The backend or the worker has been shut down.
    #[error("the backend has been closed: connect anew")]
    ShutDown,
    /// A consumer ended and will not come back.
    #[error("the consumer of queue `{0}` has stopped for good: start the worker again")]
    ConsumerStopped(String),
}

impl Error {
    /// Wraps an error of a backend.
    pub fn backend(source: impl Into<BoxError>) -> Self {
        Error::Backend(source.into())
    }
}

/// The bytes of a message that is no job. Its `Debug` shows only how many there are, so that no payload gets
/// into a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// One mistake that keeps a worker from being built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two handlers for one job name.
    #[error("job `{job}` has two handlers, {first} and {second}: keep one")]
    DuplicateHandler {
        /// The job's name.
        job: &'static str,
        /// The first of them.
        first: Origin,
        /// The second of them.
        second: Origin,
    },
    /// Two types of job with one name: a payload of the one would be read as the other.
    #[error(
        "job name `{job}` stands for two types, `{}` ({}) and `{}` ({}): give one of them another `name`",
        .first.0, .first.1, .second.0, .second.1
    )]
    DuplicateJob {
        /// The job name.
        job: &'static str,
        /// A type of this name, and where it is declared or given its handler.
        first: (&'static str, Place),
        /// Another type of this name.
        second: (&'static str, Place),
    },
    /// A handler takes a state that the worker was not given.
    #[error("handler {handler} takes a `State<{state}>`: give the worker one with `.state(...)`")]
    MissingState {
        /// The type of the state.
        state: &'static str,
        /// The handler.
        handler: Origin,
    },
    /// The worker was given two states of one type.
    #[error(
        "two states of type `{state}` were given, at {first} and at {second}: wrap one in a type of its own"
    )]
    DuplicateState {
        /// The type of the states.
        state: &'static str,
        /// Where the first was given.
        first: Place,
        /// Where the second was given.
        second: Place,
    },
    /// A job whose queue this worker consumes has no handler.
    #[error(
        "job `{job}` ({place}) of queue `{queue}` has no handler: add one with `.handler(...)`, or write one with `#[handler]`"
    )]
    MissingHandler {
        /// The job's name.
        job: &'static str,
        /// Its queue.
        queue: &'static str,
        /// Where the job is declared.
        place: Place,
    },
    /// The worker was given no queue to consume.
    #[error("the worker consumes no queue: give `.queues(...)` at least one, or leave it out for all")]
    NoQueues,
    /// A retry policy asks for a wait that can't be kept.
    #[error("the retry policy of {what} can't be kept")]
    RetryTooLong {
        /// Whose policy: a queue, a job or a handler.
        what: String,
        /// The delay and the longest possible one.
        source: Box<Error>,
    },
    /// A bound on runs or on their number that would let nothing run.
    #[error("{what} is zero, so nothing could run: leave it out, or make it larger")]
    NoRoom {
        /// Which bound, and whose.
        what: String,
    },
    /// An override names a job no handler was given for.
    #[error("`job_retry_override` names job `{job}`, which has no handler in this worker")]
    UnusedOverride {
        /// The job's name.
        job: &'static str,
    },
}

/// A place in the source code: `src/main.rs:12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The file, as the compiler was given it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
}

impl From<&Location<'static>> for Place {
    fn from(at: &Location<'static>) -> Self {
        Place { file: at.file(), line: at.line() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Where a handler comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The path of the function with `#[handler]`, if that is what it is.
    pub function: Option<&'static str>,
    /// Where that function is written, or else where the handler was added to the worker.
    pub place: Place,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.function {
            Some(function) => write!(f, "`{function}` ({})", self.place),
            None => write!(f, "the one added at {}", self.place),
        }
    }
}

fn list(errors: &[BuildError]) -> String {
    errors.iter().map(|error| format!("\n- {}", with_sources(error))).collect()
}

/// An error and its sources on one line.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        line.push_str(": ");
        line.push_str(&source.to_string());
        next = source.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_that_cannot_be_kept_says_so() {
        let error = Error::DelayTooLong {
            delay: Duration::from_secs(30 * 86_400),
            max: Duration::from_millis(2_147_483_647),
        };
        assert_eq!(
            error.to_string(),
            "delay of 30d is longer than a hold queue can wait (24d 20h 31m); it was refused rather than released early"
        );
    }

    #[test]
    fn every_build_error_is_listed_with_its_source() {
        let too_long = Error::DelayTooLong { delay: Duration::from_secs(1), max: Duration::from_secs(1) };
        let errors = vec![
            BuildError::MissingHandler { job: "a", queue: "q", place: Place { file: "src/a.rs", line: 3 } },
            BuildError::RetryTooLong { what: "job `b`".into(), source: Box::new(too_long) },
        ];
        let text = Error::Build(errors).to_string();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("of job `b` can't be kept: delay of 1s"), "{text}");
    }

    #[test]
    fn a_malformed_body_stays_out_of_debug() {
        let error =
            Error::Malformed { queue: "q".into(), reason: "r".into(), body: Body(b"secret".to_vec()) };
        assert!(!format!("{error:?}").contains("115"), "{error:?}");
    }
}
