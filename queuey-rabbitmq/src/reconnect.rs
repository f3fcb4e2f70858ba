//! When to try again what was lost. Pure: chance comes in as an argument.

use std::{fmt, time::Duration};

use queuey_core::{Backoff, Jitter, RetryDecision, RetryPolicy};

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The longest wait for a subscription on a connection that lives: a queue that somebody has made again is found soon.
const LONGEST_CONSUMER_WAIT: Duration = Duration::from_secs(5);

/// What is being rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rebuilding {
    /// A connection to the broker.
    Connection,
    /// A subscription to a queue, on a connection that lives.
    Consumer,
}

/// An attempt that failed, as a [`ReconnectPolicy`] sees it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// How often it has failed in a row, this time included.
    pub failures: u32,
    /// Why it failed this time.
    pub error: &'a str,
    /// What is being rebuilt.
    pub rebuilding: Rebuilding,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(failures: u32, error: &'a str, rebuilding: Rebuilding) -> Self {
        Attempt { failures, error, rebuilding }
    }
}

/// Decides how long to wait before a lost connection or subscription is tried again.
///
/// The first attempt after a loss is made at once. The count of failures starts anew after ten seconds of health.
pub trait ReconnectPolicy: fmt::Debug + Send + Sync + 'static {
    /// How long to wait; `None` gives up for good.
    fn next_delay(&self, attempt: Attempt<'_>) -> Option<Duration>;
}

/// Waits as a [`Backoff`] says, spread by jitter, up to a number of attempts; for a subscription on a connection that
/// lives at most five seconds.
///
/// ```
/// use std::time::Duration;
/// use queuey_core::Backoff;
/// use queuey_rabbitmq::BackoffPolicy;
///
/// let policy = BackoffPolicy::new(Backoff::Fixed(Duration::from_secs(5))).max_attempts(100);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BackoffPolicy {
    /// The waits; 500 ms doubling to 30 s by default.
    pub backoff: Backoff,
    /// After how many failures in a row it gives up; never by default.
    pub max_attempts: Option<u32>,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        BackoffPolicy::new(Backoff::Exponential { base: FIRST_WAIT, factor: 2.0, max: LONGEST_WAIT })
    }
}

impl BackoffPolicy {
    /// Waits as `backoff` says, for ever.
    pub fn new(backoff: Backoff) -> Self {
        BackoffPolicy { backoff, max_attempts: None }
    }

    /// Gives up after this many failures in a row.
    #[must_use]
    pub fn max_attempts(self, attempts: u32) -> Self {
        BackoffPolicy { max_attempts: Some(attempts), ..self }
    }

    /// The rule, with chance from 0 to 1 given: a wait is spread over its upper half, so that a fleet that lost its
    /// broker together does not come back together.
    fn decide(&self, failures: u32, chance: f64) -> Option<Duration> {
        if self.max_attempts.is_some_and(|most| failures >= most) {
            return None;
        }
        let policy = RetryPolicy::new(u32::MAX, self.backoff.clone()).jitter(Jitter::None);
        let wait = match policy.decide(failures, Duration::ZERO) {
            RetryDecision::Retry { delay } => delay,
            RetryDecision::GiveUp => LONGEST_WAIT,
        };
        let chance = if chance.is_nan() { 1.0 } else { chance.clamp(0.0, 1.0) };
        Some(wait.mul_f64(0.5 + chance / 2.0))
    }
}

impl ReconnectPolicy for BackoffPolicy {
    fn next_delay(&self, attempt: Attempt<'_>) -> Option<Duration> {
        let wait = self.decide(attempt.failures, fastrand::f64())?;
        Some(match attempt.rebuilding {
            Rebuilding::Connection => wait,
            Rebuilding::Consumer => wait.min(LONGEST_CONSUMER_WAIT),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_waits_double_up_to_thirty_seconds() {
        let policy = BackoffPolicy::default();
        let waits: Vec<_> = (1..=8).map(|n| policy.decide(n, 1.0).expect("for ever").as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(policy.decide(1, 0.0), Some(Duration::from_millis(250)));
    }

    #[test]
    fn it_gives_up_after_its_attempts() {
        let policy = BackoffPolicy::default().max_attempts(3);
        assert!(policy.decide(2, 0.5).is_some());
        assert_eq!(policy.decide(3, 0.5), None);
    }

    proptest! {
        #[test]
        fn no_number_makes_it_panic_or_wait_too_long(failures in 0..=u32::MAX, chance in prop::num::f64::ANY) {
            let wait = BackoffPolicy::default().decide(failures, chance);
            prop_assert!(wait.is_some_and(|wait| wait <= LONGEST_WAIT));
        }
    }
}
