//! Whether the keys of `retry(…)` go together.
//!
//! What a key that is absent stands for is the runtime's to say. Three of its defaults take part in a rule and
//! are known here for that, never to be written into the expansion.

use proc_macro2::Span;

use crate::{
    duration::Millis,
    errors::Errors,
    keys::{Given, Key},
};

use super::parse::{Backoff, Jitter, Retry};

/// The longest a job can wait: a broker keeps the life of a hold queue, twice this, in 32 bits.
const LONGEST_WAIT: Millis = Millis(u32::MAX as u64 / 2);

/// The part by which a wait without jitter can be longer.
const NO_SPREAD: f64 = 0.0;

const DEFAULT_BACKOFF: Backoff = Backoff::Exponential;
const DEFAULT_BASE: Millis = Millis(1_000);

impl Retry {
    /// Checks the keys behind the `retry` at `at`.
    pub(crate) fn check(&self, at: Span, errors: &mut Errors) {
        match self.backoff {
            // Which keys belong and what they mean can't be told.
            Key::Unreadable(_) => {}
            Key::Absent => self.check_as(DEFAULT_BACKOFF, at, errors),
            Key::Given(given) => self.check_as(given.value, given.at, errors),
        }
    }

    fn check_as(&self, backoff: Backoff, at: Span, errors: &mut Errors) {
        self.refuse_keys_of_other_backoffs(backoff, errors);
        match backoff {
            Backoff::None => {}
            Backoff::Fixed => {
                if self.lacks(&self.delay, "delay") {
                    errors.at(at, "`backoff = \"fixed\"` needs the wait, as in `delay = \"30s\"`");
                }
                refuse_long_waits("delay", self.delay.given(), self.spread(), errors);
            }
            Backoff::Exponential => self.check_exponential(errors),
            Backoff::Steps => {
                if self.lacks(&self.delays, "delays") {
                    errors.at(
                        at,
                        "`backoff = \"steps\"` needs the waits, as in `delays = [\"1s\", \"10s\", \"1m\"]`",
                    );
                }
                refuse_long_waits("delays", self.delays.value().into_iter().flatten(), self.spread(), errors);
            }
        }
    }

    fn refuse_keys_of_other_backoffs(&self, backoff: Backoff, errors: &mut Errors) {
        let owned = [
            ("delay", self.delay.key(), Backoff::Fixed),
            ("base", self.base.key(), Backoff::Exponential),
            ("factor", self.factor.key(), Backoff::Exponential),
            ("max", self.max.key(), Backoff::Exponential),
            ("delays", self.delays.key(), Backoff::Steps),
        ];
        let chosen = backoff.word();
        let default = if self.backoff.is_absent() { ", the default" } else { "" };
        for (key, at, owner) in owned {
            if let Some(at) = at.filter(|_| owner != backoff) {
                let owner = owner.word();
                errors.at(
                    at,
                    format!(
                        "`{key}` is a key of `backoff = \"{owner}\"`, and here it is \"{chosen}\"{default}"
                    ),
                );
            }
        }
    }

    fn lacks<T>(&self, key: &Key<T>, name: &str) -> bool {
        key.is_absent() && !self.unknown.may_hide(name)
    }

    fn check_exponential(&self, errors: &mut Errors) {
        match (&self.base, &self.max) {
            (Key::Given(base), Key::Given(max)) if base.value > max.value => {
                let (base_is, max_is) = (base.value, max.value);
                errors.at(base.at, format!("`base` is longer than `max`: {base_is} is more than {max_is}"));
            }
            (_, Key::Given(max)) if max.value < DEFAULT_BASE && self.lacks(&self.base, "base") => {
                errors.at(
                    max.at,
                    format!("`max` is shorter than the default `base` of {DEFAULT_BASE}: give `base` too"),
                );
            }
            _ => refuse_long_waits("base", self.base.given(), NO_SPREAD, errors),
        }
        // Jitter never goes past `max`.
        refuse_long_waits("max", self.max.given(), NO_SPREAD, errors);
    }

    /// The part by which jitter can make a wait longer.
    fn spread(&self) -> f64 {
        match self.jitter.value() {
            Some(Jitter::Fraction(fraction)) => *fraction,
            Some(Jitter::Full(_)) | None => NO_SPREAD,
        }
    }
}

/// Refuses waits that could be longer than any queue may hold a job.
fn refuse_long_waits<'a>(
    key: &str,
    waits: impl IntoIterator<Item = &'a Given<Millis>>,
    spread: f64,
    errors: &mut Errors,
) {
    let note = if spread > 0.0 { " with its jitter" } else { "" };
    for wait in waits {
        // Exact, since both numbers are far below 2^53 wherever the comparison is close.
        if wait.value.0 as f64 * (1.0 + spread) > LONGEST_WAIT.0 as f64 {
            errors
                .at(wait.at, format!("`{key}`: expected at most {LONGEST_WAIT}{note}, found {}", wait.value));
        }
    }
}
