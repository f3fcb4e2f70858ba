//! Durations as people write them: `"1h 30m"`. One grammar for configuration and for what is printed.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de};

/// Unit and milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `"500ms"`, `"2 m"`, `"1h 30m"`: integers, each with a unit of `ms s m h d`. Zero is refused.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = |why: &str| {
        format!(
            "`{text}` is no duration: {why}; write integers with a unit of ms, s, m, h or d, such as \"1h 30m\""
        )
    };
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(refused("it is empty"));
    }
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        let after = after.trim_start();
        let (unit, after) =
            after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        let number: u64 = number.parse().map_err(|_| refused("a whole number is missing or too large"))?;
        let (_, millis) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| refused("a unit is missing or unknown"))?;
        total = number
            .checked_mul(*millis)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| refused("it is too long"))?;
        rest = after.trim_start();
    }
    if total == 0 { Err(refused("it is zero")) } else { Ok(Duration::from_millis(total)) }
}

/// Writes every unit, so that [`parse`] reads the same value back; parts of a millisecond are rounded up.
pub(crate) fn exact(duration: Duration) -> String {
    spell(duration, UNITS.len())
}

/// Writes the three largest units, for messages: `24d 20h 31m`.
pub(crate) fn human(duration: Duration) -> String {
    spell(duration, 3)
}

fn spell(duration: Duration, most: usize) -> String {
    let mut rest = duration.as_nanos().div_ceil(1_000_000);
    let mut parts = Vec::new();
    for (unit, millis) in UNITS {
        let count = rest / u128::from(millis);
        rest %= u128::from(millis);
        if count > 0 && parts.len() < most {
            parts.push(format!("{count}{unit}"));
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// What stands in a configuration: a string as [`parse`] reads it, or a whole number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spelled(pub(crate) Duration);

impl serde::Serialize for Spelled {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&exact(self.0))
    }
}

impl<'de> Deserialize<'de> for Spelled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Spelled;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a duration such as \"1h 30m\", or a whole number of seconds above zero")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Spelled, E> {
                parse(text).map(Spelled).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Spelled, E> {
                match seconds {
                    0 => Err(E::invalid_value(de::Unexpected::Unsigned(0), &self)),
                    _ => Ok(Spelled(Duration::from_secs(seconds))),
                }
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Spelled, E> {
                let whole = u64::try_from(seconds)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(seconds), &self))?;
                self.visit_u64(whole)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_with_units_are_read() {
        for (text, millis) in [
            ("500ms", 500),
            ("2 m", 120_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            (" 5s ", 5_000),
            ("1d 1ms", 86_400_001),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_allowed_units() {
        for text in [
            "",
            " ",
            "5",
            "s",
            "5S",
            "5 sec",
            "1.5s",
            "-1s",
            "0s",
            "0ms 0h",
            "5s,",
            "٣s",
            "999999999999999999999s",
            "18446744073709551615d",
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains("ms, s, m, h or d"), "{why}");
        }
    }

    #[test]
    fn messages_show_three_units_and_never_less_than_there_is() {
        assert_eq!(human(Duration::from_millis(2_147_483_647)), "24d 20h 31m");
        assert_eq!(human(Duration::from_secs(30 * 86_400)), "30d");
        assert_eq!(human(Duration::ZERO), "0s");
        assert_eq!(exact(Duration::from_micros(1)), "1ms");
        assert!(!exact(Duration::MAX).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 1..=u64::MAX) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse(&exact(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
