//! What a handler answers when a job did not succeed.

use std::{error::Error as StdError, fmt, time::Duration};

use crate::error::BoxError;

/// What a handler answers.
pub type JobResult = Result<(), JobError>;

/// The most errors of a chain that are looked at, in case a chain never ends.
const MAX_CHAIN: usize = 128;

/// Why a job did not succeed, and so what becomes of it.
///
/// It is not a [`std::error::Error`] itself, which is what lets `?` take every error that is one, as a retryable
/// failure. `anyhow::Error` and boxed errors are none: use `.map_err(JobError::retryable)?`, or let a function with
/// `#[handler]` return them as they are.
///
/// ```
/// # extern crate queuey_core as queuey;
/// use std::time::Duration;
/// use queuey::JobError;
///
/// fn resize(width: &str) -> Result<u32, JobError> {
///     let width: u32 = width.parse()?; // retryable
///     match width {
///         0 => Err(JobError::fatal_msg("a width of zero never works")),
///         429 => Err(JobError::deferred(Duration::from_secs(30))),
///         width => Ok(width),
///     }
/// }
/// assert!(!resize("wide").unwrap_err().is_fatal());
/// assert!(resize("0").unwrap_err().is_fatal());
/// ```
#[must_use = "an error means nothing unless the handler returns it"]
#[derive(Debug)]
pub struct JobError {
    kind: JobErrorKind,
    source: Option<BoxError>,
}

/// What becomes of a job that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobErrorKind {
    /// Failed: the retry policy decides.
    Retryable,
    /// Failed: an attempt is spent, with this delay instead of the policy's.
    RetryAfter(Duration),
    /// Failed for good: a dead letter at once.
    Fatal,
    /// Not yet: no attempt is spent, and the job comes back ahead of the backlog.
    Deferred(Duration),
    /// Not worth keeping.
    Discard,
    /// Handed back at once, to any worker.
    Requeue,
}

impl JobError {
    /// Failed; the retry policy decides.
    pub fn retryable(error: impl Into<BoxError>) -> Self {
        Self::failed(JobErrorKind::Retryable, error)
    }

    /// Failed; the retry policy decides.
    pub fn retryable_msg(message: impl Into<String>) -> Self {
        Self::retryable(message.into())
    }

    /// Failed; an attempt is spent, but the next one comes after `delay` instead of the policy's wait.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self::failed(JobErrorKind::RetryAfter(delay), error)
    }

    /// Failed for good: a dead letter at once.
    pub fn fatal(error: impl Into<BoxError>) -> Self {
        Self::failed(JobErrorKind::Fatal, error)
    }

    /// Failed for good: a dead letter at once.
    pub fn fatal_msg(message: impl Into<String>) -> Self {
        Self::fatal(message.into())
    }

    /// Not yet: no attempt is spent and the policy is not asked. After `delay` the job comes back ahead of the
    /// backlog. A zero delay is the shortest the backend has (1 s in memory).
    pub fn deferred(delay: Duration) -> Self {
        JobError { kind: JobErrorKind::Deferred(delay), source: None }
    }

    /// [`deferred`](Self::deferred), with a message for the log.
    pub fn deferred_msg(delay: Duration, message: impl Into<String>) -> Self {
        Self::failed(JobErrorKind::Deferred(delay), message.into())
    }

    /// Not worth keeping: acknowledged, logged and counted, without a dead letter.
    pub fn discard_msg(message: impl Into<String>) -> Self {
        Self::failed(JobErrorKind::Discard, message.into())
    }

    /// Handed back at once, to any worker: no attempt is spent, and no counter changes.
    pub fn requeue() -> Self {
        JobError { kind: JobErrorKind::Requeue, source: None }
    }

    pub(crate) fn panicked(message: String) -> Self {
        Self::retryable(Panicked(message))
    }

    pub(crate) fn timed_out(limit: Duration) -> Self {
        Self::retryable(TimedOut(limit))
    }

    fn failed(kind: JobErrorKind, error: impl Into<BoxError>) -> Self {
        JobError { kind, source: Some(error.into()) }
    }

    /// What becomes of the job. A retryable failure with a [`Fatal`] in its chain is [`JobErrorKind::Fatal`].
    pub fn kind(&self) -> JobErrorKind {
        match self.kind {
            JobErrorKind::Retryable | JobErrorKind::RetryAfter(_) if self.chain().any(is_fatal_mark) => {
                JobErrorKind::Fatal
            }
            kind => kind,
        }
    }

    /// Whether the job becomes a dead letter at once.
    pub fn is_fatal(&self) -> bool {
        self.kind() == JobErrorKind::Fatal
    }

    /// Whether the handler panicked.
    pub fn is_panic(&self) -> bool {
        self.chain().any(|error| error.is::<Panicked>())
    }

    /// Whether the run was cut off at its time limit.
    pub fn is_timeout(&self) -> bool {
        self.chain().any(|error| error.is::<TimedOut>())
    }

    /// The error behind it, where there is one.
    pub fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|error| error as &(dyn StdError + 'static))
    }

    /// The texts of the whole source chain joined by `: `, each once; empty where there is no error behind it.
    pub fn reason(&self) -> String {
        let mut texts: Vec<String> = Vec::new();
        for error in self.chain() {
            let text = error.to_string();
            // An error may tell of its source in its own text.
            let told = |earlier: &String| {
                *earlier == text
                    || earlier.strip_suffix(text.as_str()).is_some_and(|before| before.ends_with(": "))
            };
            if !texts.iter().any(told) {
                texts.push(text);
            }
        }
        texts.join(": ")
    }

    fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        std::iter::successors(self.source(), |&error| error.source()).take(MAX_CHAIN)
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::retryable(error)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            JobErrorKind::Retryable => f.write_str(&self.reason()),
            JobErrorKind::Requeue => f.write_str("requeue"),
            kind if self.source.is_none() => write!(f, "{kind:?}"),
            kind => write!(f, "{kind:?}: {}", self.reason()),
        }
    }
}

/// Marks an error as fatal, from as deep in a source chain as it may be: a retryable failure with a `Fatal` in its
/// chain becomes a dead letter at once.
///
/// It shows the text and the sources of the error it holds.
///
/// ```
/// # extern crate queuey_core as queuey;
/// use queuey::{Fatal, JobError};
///
/// fn parse(text: &str) -> anyhow::Result<u32> {
///     Ok(text.parse().map_err(Fatal::new)?)
/// }
/// assert!(JobError::retryable(parse("x").unwrap_err().context("reading the order")).is_fatal());
/// ```
#[derive(Debug)]
pub struct Fatal(FatalMark);

/// The second layer: an error that wraps the outermost `Fatal` may show only its source to a downcast.
#[derive(Debug)]
struct FatalMark(BoxError);

impl Fatal {
    /// Marks `error` as fatal.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Fatal(FatalMark(error.into()))
    }
}

fn is_fatal_mark(error: &(dyn StdError + 'static)) -> bool {
    error.is::<Fatal>() || error.is::<FatalMark>()
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Fatal {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

impl fmt::Display for FatalMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for FatalMark {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// A handler panicked with this message.
#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
struct Panicked(String);

/// A run took longer than this.
#[derive(Debug, thiserror::Error)]
#[error("timed out after {0:?}")]
struct TimedOut(Duration);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn fatal() -> Fatal {
        Fatal::new("bad")
    }

    #[derive(Debug, thiserror::Error)]
    #[error("wrapped")]
    struct Wrapped(#[source] Fatal);

    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Transparent(Fatal);

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}")]
    struct Repeats(#[source] io::Error);

    #[test]
    fn a_fatal_is_found_wherever_it_hides() {
        let found = [
            JobError::from(fatal()),
            JobError::from(Wrapped(fatal())),
            JobError::from(Transparent(fatal())),
            JobError::from(io::Error::other(fatal())),
            JobError::retryable(anyhow::Error::new(fatal())),
            JobError::retryable(anyhow::Error::new(fatal()).context("c")),
            JobError::retryable(Box::new(fatal()) as BoxError),
            JobError::retry_after(Duration::from_secs(1), fatal()),
            JobError::fatal("bad"),
        ];
        for error in found {
            assert!(error.is_fatal(), "{error:?}");
            assert!(error.reason().ends_with("bad"), "{error:?}");
        }
        assert!(!JobError::retryable("bad").is_fatal());
    }

    #[test]
    fn the_reason_is_the_whole_chain_each_text_once() {
        for (error, reason) in [
            (
                JobError::retryable(anyhow::anyhow!("inner").context("middle").context("outer")),
                "outer: middle: inner",
            ),
            (JobError::retryable(anyhow::anyhow!("a").context("b").context("a")), "a: b"),
            (JobError::retryable(anyhow::anyhow!("500").context("HTTP 1500")), "HTTP 1500: 500"),
            (JobError::from(Transparent(fatal())), "bad"),
            (JobError::from(Wrapped(fatal())), "wrapped: bad"),
            (JobError::from(Repeats(io::Error::other("disk"))), "outer: disk"),
            (JobError::retryable_msg("plain"), "plain"),
            (JobError::requeue(), ""),
        ] {
            assert_eq!(error.reason(), reason);
        }
    }

    #[test]
    fn a_chain_that_never_ends_is_cut() {
        #[derive(Debug)]
        struct Loop;
        impl fmt::Display for Loop {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("again")
            }
        }
        impl StdError for Loop {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&Loop)
            }
        }
        assert_eq!(JobError::from(Loop).reason(), "again");
        assert!(!JobError::from(Loop).is_fatal());
    }

    #[test]
    fn any_error_becomes_a_retryable_failure_by_question_mark() {
        fn number(text: &str) -> Result<u32, JobError> {
            Ok(text.parse()?)
        }
        assert_eq!(number("x").unwrap_err().kind(), JobErrorKind::Retryable);
    }
}
