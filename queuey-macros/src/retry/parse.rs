//! What stands in `retry(…)`.

use syn::{Lit, MetaList};

use crate::{
    duration::{self, Millis},
    errors::Errors,
    keys::{Given, Key, Keys, Unknown},
    value::Value,
};

/// The keys as they were written; an absent key means the runtime's default.
pub(crate) struct Retry {
    pub(super) max_attempts: Key<u32>,
    pub(super) backoff: Key<Backoff>,
    pub(super) delay: Key<Millis>,
    pub(super) base: Key<Millis>,
    pub(super) factor: Key<f64>,
    pub(super) max: Key<Millis>,
    pub(super) delays: Key<Vec<Given<Millis>>>,
    pub(super) jitter: Key<Jitter>,
    pub(super) give_up_after: Key<Millis>,
    pub(super) unknown: Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backoff {
    None,
    Fixed,
    Exponential,
    Steps,
}

impl Backoff {
    pub(super) const WORDS: [(&str, Backoff); 4] = [
        ("none", Backoff::None),
        ("fixed", Backoff::Fixed),
        ("exponential", Backoff::Exponential),
        ("steps", Backoff::Steps),
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Backoff::None => "none",
            Backoff::Fixed => "fixed",
            Backoff::Exponential => "exponential",
            Backoff::Steps => "steps",
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Jitter {
    /// Uniform in [0, wait], or none.
    Full(bool),
    /// ± this part of the wait.
    Fraction(f64),
}

impl Retry {
    pub(crate) fn parse(list: &MetaList, errors: &mut Errors) -> Retry {
        let mut keys = Keys::of_list(list, errors);
        Retry {
            max_attempts: keys.take("max_attempts", |value| value.whole(1..=u32::MAX)),
            backoff: keys.take("backoff", |value| value.word(&Backoff::WORDS)),
            delay: keys.take("delay", duration::read),
            base: keys.take("base", duration::read),
            factor: keys.take("factor", |value| value.positive()),
            max: keys.take("max", duration::read),
            delays: keys.take("delays", delays),
            jitter: keys.take("jitter", jitter),
            give_up_after: keys.take("give_up_after", duration::read),
            unknown: keys.finish(),
        }
    }
}

fn delays(list: &Value<'_>) -> syn::Result<Vec<Given<Millis>>> {
    let mut errors: Option<syn::Error> = None;
    let mut delays = Vec::new();
    for element in list.elements("a list of durations such as [\"1s\", \"10s\", \"1m\"]")? {
        match duration::read(&element) {
            Ok(value) => delays.push(Given { key: list.span(), at: element.span(), value }),
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    errors.map_or(Ok(delays), Err)
}

fn jitter(value: &Value<'_>) -> syn::Result<Jitter> {
    const WANTED: &str = "`true` (any part of the wait), `false`, or a fraction from 0.0 to 1.0 such as 0.2";
    match value.literal(WANTED)? {
        Lit::Bool(full) => Ok(Jitter::Full(full.value)),
        // An integer is refused: `1` could as well be meant as `true`.
        Lit::Float(fraction) if fraction.suffix().is_empty() => {
            let fraction = fraction.base10_parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
            fraction.map(Jitter::Fraction).ok_or_else(|| value.refused(WANTED))
        }
        _ => Err(value.refused(WANTED)),
    }
}
