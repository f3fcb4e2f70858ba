//! Whether a failed attempt is tried again, and when. Pure: time and chance come in as arguments.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod keys;

pub use keys::RetryKeys;

const DEFAULT_ATTEMPTS: u32 = 3;
const DEFAULT_BASE: Duration = Duration::from_secs(1);
const DEFAULT_FACTOR: f64 = 2.0;
const DEFAULT_MAX: Duration = Duration::from_secs(5 * 60);

/// No wait is zero before jitter (but for [`Backoff::None`]), or a failing job would spin.
const SHORTEST_WAIT: Duration = Duration::from_nanos(1);

/// The most waits that [`RetryPolicy::schedule`] lists.
const SCHEDULE_LIMIT: u32 = 1_000;

/// How often a job is run, and how long it waits after a failed attempt.
///
/// ```
/// # extern crate queuey_core as queuey;
/// use std::time::Duration;
/// use queuey::{Backoff, RetryPolicy};
///
/// let policy = RetryPolicy::exponential(4).jitter(false);
/// assert_eq!(policy.schedule(), [1, 2, 4].map(Duration::from_secs));
/// ```
///
/// In serde form the keys are those of the `retry(...)` attribute, and durations are strings:
/// `{"max_attempts":5,"backoff":"exponential","base":"1s","max":"5m","jitter":true}`.
/// What the attribute refuses is refused there too, but for waits that nothing can hold: those are when a worker is built.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How many runs there are in all, the first included; zero counts as one.
    pub max_attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// By how much a wait is spread.
    pub jitter: Jitter,
    /// The age of the job from which on a failure is final.
    pub give_up_after: Option<Duration>,
}

/// The waits between attempts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Backoff {
    /// No wait at all.
    None,
    /// Always the same wait.
    Fixed(Duration),
    /// The k-th wait is `min(max, base · factor^(k-1))`.
    Exponential {
        /// The first wait.
        base: Duration,
        /// What each wait is multiplied by; one that is not above zero, or no number, counts as 1.
        factor: f64,
        /// The longest wait.
        max: Duration,
    },
    /// The k-th wait is the k-th step; the last one repeats. No steps at all are one step of a second.
    Steps(Vec<Duration>),
}

impl Backoff {
    /// Exponential with its defaults: 1 s, doubled each time, up to 5 min.
    pub fn exponential() -> Self {
        Backoff::Exponential { base: DEFAULT_BASE, factor: DEFAULT_FACTOR, max: DEFAULT_MAX }
    }

    /// The wait after the `k`-th failure, counted from 1, before jitter.
    fn wait(&self, k: u32) -> Duration {
        match self {
            Backoff::None => Duration::ZERO,
            Backoff::Fixed(delay) => (*delay).max(SHORTEST_WAIT),
            Backoff::Exponential { base, factor, max } => {
                let factor = if *factor > 0.0 { *factor } else { 1.0 };
                scale(*base, factor.powf(f64::from(k.saturating_sub(1)))).min(*max).max(SHORTEST_WAIT)
            }
            Backoff::Steps(steps) => {
                let index = (k.saturating_sub(1) as usize).min(steps.len().saturating_sub(1));
                steps.get(index).copied().unwrap_or(DEFAULT_BASE).max(SHORTEST_WAIT)
            }
        }
    }

    /// What a wait is cut to once it is jittered.
    fn cap(&self) -> Duration {
        match self {
            Backoff::Exponential { max, .. } => (*max).max(SHORTEST_WAIT),
            _ => Duration::MAX,
        }
    }
}

/// By how much a wait is spread, so that jobs which failed together don't come back together.
///
/// Source of the full form: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Jitter {
    /// The wait as computed.
    #[default]
    None,
    /// Uniform between zero and the computed wait.
    Full,
    /// Up to this fraction more or less; cut to 0..=1, and no number counts as 0.
    Proportional(f64),
}

impl Jitter {
    /// Spreads `wait`; `random` is uniform in `[0, 1)`.
    fn apply(self, wait: Duration, random: f64) -> Duration {
        match self {
            Jitter::None => wait,
            Jitter::Full => scale(wait, random).min(wait),
            Jitter::Proportional(fraction) => {
                let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
                scale(wait, 1.0 + fraction * (2.0 * random - 1.0)).max(SHORTEST_WAIT.min(wait))
            }
        }
    }
}

impl From<bool> for Jitter {
    fn from(on: bool) -> Self {
        if on { Jitter::Full } else { Jitter::None }
    }
}

impl From<f64> for Jitter {
    fn from(fraction: f64) -> Self {
        Jitter::Proportional(fraction)
    }
}

/// What a policy says of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Try again, no earlier than this from now.
    Retry {
        /// The wait.
        delay: Duration,
    },
    /// The failure is final.
    GiveUp,
}

impl RetryPolicy {
    /// One attempt, no retry.
    pub fn none() -> Self {
        Self::new(1, Backoff::None)
    }

    /// `max_attempts` runs in all, with the same wait after each failure; no jitter.
    pub fn fixed(max_attempts: u32, delay: Duration) -> Self {
        Self::new(max_attempts, Backoff::Fixed(delay))
    }

    /// `max_attempts` runs in all, waiting 1 s, 2 s, 4 s… up to 5 min, with full jitter.
    pub fn exponential(max_attempts: u32) -> Self {
        Self::new(max_attempts, Backoff::exponential())
    }

    /// `max_attempts` runs in all, waiting as listed; the last wait repeats. No jitter.
    pub fn steps(max_attempts: u32, delays: impl Into<Vec<Duration>>) -> Self {
        Self::new(max_attempts, Backoff::Steps(delays.into()))
    }

    /// `max_attempts` runs in all with any backoff: full jitter where it is exponential, else none.
    pub fn new(max_attempts: u32, backoff: Backoff) -> Self {
        let jitter = Jitter::from(matches!(backoff, Backoff::Exponential { .. }));
        RetryPolicy { max_attempts: max_attempts.max(1), backoff, jitter, give_up_after: None }
    }

    /// Sets the jitter: `true` for full, `false` for none, `0.2` for 20 % more or less.
    #[must_use]
    pub fn jitter(mut self, jitter: impl Into<Jitter>) -> Self {
        self.jitter = jitter.into();
        self
    }

    /// Makes a failure final once the job is this old.
    #[must_use]
    pub fn give_up_after(mut self, age: Duration) -> Self {
        self.give_up_after = Some(age);
        self
    }

    /// Decides on a failed attempt (the first is 1) of a job of this age. Random only in the jitter.
    pub fn decide(&self, failed_attempt: u32, age: Duration) -> RetryDecision {
        self.decide_with(failed_attempt, age, fastrand::f64())
    }

    /// [`decide`](Self::decide) with the random number, uniform in `[0, 1)`, given.
    pub fn decide_with(&self, failed_attempt: u32, age: Duration, random: f64) -> RetryDecision {
        if failed_attempt >= self.max_attempts || self.is_too_old(age) {
            return RetryDecision::GiveUp;
        }
        let wait = self.backoff.wait(failed_attempt);
        RetryDecision::Retry { delay: self.jitter.apply(wait, random).min(self.backoff.cap()) }
    }

    /// The waits without jitter, one less than there are attempts; at most the first 1,000.
    pub fn schedule(&self) -> Vec<Duration> {
        let waits = self.max_attempts.saturating_sub(1).min(SCHEDULE_LIMIT);
        (1..=waits).map(|k| self.backoff.wait(k)).collect()
    }

    pub(crate) fn is_too_old(&self, age: Duration) -> bool {
        self.give_up_after.is_some_and(|limit| age >= limit)
    }

    /// The longest wait this policy can ask for, jitter included. Waits only ever rise or only ever fall,
    /// except in steps, so the first and the last of the others are enough.
    pub(crate) fn longest_wait(&self) -> Duration {
        let retries = self.max_attempts.saturating_sub(1);
        let longest = match &self.backoff {
            _ if retries == 0 => return Duration::ZERO,
            Backoff::Steps(steps) => {
                steps.iter().take(retries as usize).copied().max().unwrap_or(DEFAULT_BASE).max(SHORTEST_WAIT)
            }
            other => other.wait(1).max(other.wait(retries)),
        };
        match self.jitter {
            Jitter::Proportional(_) => self.jitter.apply(longest, 1.0).min(self.backoff.cap()),
            Jitter::None | Jitter::Full => longest,
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::none()
    }
}

/// Multiplies without ever overflowing; rounded up, for a delay is a promise.
fn scale(duration: Duration, by: f64) -> Duration {
    if by == 1.0 {
        return duration;
    }
    // 0 · ∞ is no number: a base of zero stays zero.
    let nanos = (duration.as_nanos() as f64 * by).ceil();
    if nanos.is_nan() {
        return Duration::ZERO;
    }
    if nanos >= Duration::MAX.as_nanos() as f64 {
        return Duration::MAX;
    }
    let nanos = nanos as u128;
    Duration::new((nanos / 1_000_000_000) as u64, (nanos % 1_000_000_000) as u32)
}

impl Serialize for RetryPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RetryKeys::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RetryPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys = RetryKeys::deserialize(deserializer)?;
        keys.checked().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
