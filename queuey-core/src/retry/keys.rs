//! A policy as an attribute or a configuration spells it: keys, most of them left to their defaults.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::{Backoff, DEFAULT_ATTEMPTS, DEFAULT_BASE, DEFAULT_FACTOR, DEFAULT_MAX, Jitter, RetryPolicy};
use crate::duration::{Spelled, exact};

/// The keys of `retry(...)`, in an attribute or a configuration, before defaults are filled in.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Spelled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Spelled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Spelled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delays: Option<Vec<Spelled>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<JitterKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    give_up_after: Option<Spelled>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
enum JitterKey {
    Full(bool),
    Fraction(f64),
}

impl<'de> Deserialize<'de> for JitterKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = JitterKey;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a `jitter` of true, false or a fraction such as 0.2")
            }

            fn visit_bool<E>(self, full: bool) -> Result<JitterKey, E> {
                Ok(JitterKey::Full(full))
            }

            fn visit_f64<E>(self, fraction: f64) -> Result<JitterKey, E> {
                Ok(JitterKey::Fraction(fraction))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// One setter per key, for expansions.
#[allow(missing_docs, reason = "called by expansions only; the attribute documents the keys")]
impl RetryKeys {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn max_attempts(self, runs: u32) -> Self {
        Self { max_attempts: Some(runs), ..self }
    }

    pub fn backoff(self, kind: &str) -> Self {
        Self { backoff: Some(kind.to_owned()), ..self }
    }

    pub fn delay(self, delay: Duration) -> Self {
        Self { delay: Some(Spelled(delay)), ..self }
    }

    pub fn base(self, base: Duration) -> Self {
        Self { base: Some(Spelled(base)), ..self }
    }

    pub fn factor(self, factor: f64) -> Self {
        Self { factor: Some(factor), ..self }
    }

    pub fn max(self, max: Duration) -> Self {
        Self { max: Some(Spelled(max)), ..self }
    }

    pub fn delays(self, delays: &[Duration]) -> Self {
        Self { delays: Some(delays.iter().copied().map(Spelled).collect()), ..self }
    }

    pub fn jitter(self, full: bool) -> Self {
        Self { jitter: Some(JitterKey::Full(full)), ..self }
    }

    pub fn jitter_fraction(self, fraction: f64) -> Self {
        Self { jitter: Some(JitterKey::Fraction(fraction)), ..self }
    }

    pub fn give_up_after(self, age: Duration) -> Self {
        Self { give_up_after: Some(Spelled(age)), ..self }
    }

    /// Fills in the defaults.
    pub fn policy(self) -> RetryPolicy {
        let base = self.base.map_or(DEFAULT_BASE, |key| key.0);
        let backoff = match self.backoff.as_deref() {
            Some("none") => Backoff::None,
            Some("fixed") => Backoff::Fixed(self.delay.map_or(DEFAULT_BASE, |key| key.0)),
            Some("steps") => {
                Backoff::Steps(self.delays.unwrap_or_default().into_iter().map(|step| step.0).collect())
            }
            _ => Backoff::Exponential {
                base,
                factor: self.factor.unwrap_or(DEFAULT_FACTOR),
                max: self.max.map_or(DEFAULT_MAX.max(base), |key| key.0),
            },
        };
        let policy = RetryPolicy::new(self.max_attempts.unwrap_or(DEFAULT_ATTEMPTS), backoff);
        RetryPolicy {
            jitter: match self.jitter {
                None => policy.jitter,
                Some(JitterKey::Full(full)) => full.into(),
                Some(JitterKey::Fraction(fraction)) => fraction.into(),
            },
            give_up_after: self.give_up_after.map(|key| key.0),
            ..policy
        }
    }

    /// The policy, unless the attribute would refuse the keys.
    pub(super) fn checked(self) -> Result<RetryPolicy, String> {
        self.check().map(|()| self.policy())
    }

    /// What the attribute would refuse. Durations are above zero already: that is how they are read.
    fn check(&self) -> Result<(), String> {
        let kind = self.backoff.as_deref().unwrap_or("exponential");
        let foreign = |key: &str, given: bool, of: &str| match given && kind != of {
            true => Err(format!("`{key}` belongs to backoff \"{of}\", not to \"{kind}\"")),
            false => Ok(()),
        };
        if !["none", "fixed", "exponential", "steps"].contains(&kind) {
            return Err(format!("backoff \"{kind}\" is unknown: use none, fixed, exponential or steps"));
        }
        foreign("delay", self.delay.is_some(), "fixed")?;
        foreign("base", self.base.is_some(), "exponential")?;
        foreign("factor", self.factor.is_some(), "exponential")?;
        foreign("max", self.max.is_some(), "exponential")?;
        foreign("delays", self.delays.is_some(), "steps")?;
        if kind == "fixed" && self.delay.is_none() {
            return Err("backoff \"fixed\" needs a `delay`".to_owned());
        }
        if kind == "steps" && self.delays.as_ref().is_none_or(Vec::is_empty) {
            return Err("backoff \"steps\" needs `delays` with at least one".to_owned());
        }
        if self.max_attempts == Some(0) {
            return Err("`max_attempts` counts the first run too, so it is at least 1".to_owned());
        }
        if self.factor.is_some_and(|factor| !(factor.is_finite() && factor > 0.0)) {
            return Err("`factor` must be a number above zero".to_owned());
        }
        let base = self.base.map_or(DEFAULT_BASE, |key| key.0);
        if self.max.is_some_and(|max| base > max.0) {
            return Err(format!("`base` ({}) is longer than `max`", exact(base)));
        }
        match self.jitter {
            Some(JitterKey::Fraction(fraction)) if !(0.0..=1.0).contains(&fraction) => {
                Err("`jitter` is true, false or a fraction from 0 to 1".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl From<&RetryPolicy> for RetryKeys {
    fn from(policy: &RetryPolicy) -> Self {
        let keys = RetryKeys::new().max_attempts(policy.max_attempts);
        let keys = match &policy.backoff {
            Backoff::None => keys.backoff("none"),
            Backoff::Fixed(delay) => keys.backoff("fixed").delay(*delay),
            Backoff::Exponential { base, factor, max } => {
                keys.backoff("exponential").base(*base).factor(*factor).max(*max)
            }
            Backoff::Steps(delays) => keys.backoff("steps").delays(delays),
        };
        let keys = match policy.jitter {
            Jitter::None => keys.jitter(false),
            Jitter::Full => keys.jitter(true),
            Jitter::Proportional(fraction) => keys.jitter_fraction(fraction),
        };
        match policy.give_up_after {
            Some(age) => keys.give_up_after(age),
            None => keys,
        }
    }
}
