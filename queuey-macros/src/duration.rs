//! Duration literals: `"1h 30m"`, or a bare integer of seconds.

use std::fmt;

use syn::Lit;

use crate::value::Value;

/// A duration as the generated code carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Millis(pub(crate) u64);

/// From the longest to the shortest, which is the order a duration is printed in.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const WANTED: &str =
    "integers with a unit of ms, s, m, h or d such as \"30s\" or \"1h 30m\", or a bare integer of seconds";

/// A duration above zero that fits `u64` milliseconds.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Millis> {
    let millis = match value.literal(WANTED)? {
        Lit::Str(text) if text.suffix().is_empty() => parse(&text.value()),
        Lit::Int(int) if int.suffix().is_empty() => seconds(int.base10_digits()),
        Lit::Int(int) if UNITS.iter().any(|(unit, _)| *unit == int.suffix()) => {
            return Err(value.refused(format!("a duration with a unit in quotes, \"{int}\"")));
        }
        _ => return Err(value.refused(WANTED)),
    };
    millis.map(Millis).map_err(|fault| match fault {
        Fault::Malformed => value.refused(WANTED),
        Fault::Zero => value.refused("a duration above zero"),
        Fault::TooLong => value.refused(format!("a duration of at most {} ms", u64::MAX)),
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Malformed,
    Zero,
    TooLong,
}

fn seconds(digits: &str) -> Result<u64, Fault> {
    let seconds: u64 = digits.parse().map_err(|_| Fault::TooLong)?;
    above_zero(seconds.checked_mul(1_000).ok_or(Fault::TooLong)?)
}

/// Integers, each with its unit; blanks may stand around every integer and every unit.
fn parse(text: &str) -> Result<u64, Fault> {
    let (mut rest, mut total) = (text.trim(), 0_u64);
    if rest.is_empty() {
        return Err(Fault::Malformed);
    }
    while !rest.is_empty() {
        let (digits, after) = split_where(rest, |c| !c.is_ascii_digit());
        let (unit, after) = split_where(after.trim_start(), |c| !c.is_ascii_alphabetic());
        let &(_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(Fault::Malformed)?;
        if digits.is_empty() {
            return Err(Fault::Malformed);
        }
        let count: u64 = digits.parse().map_err(|_| Fault::TooLong)?;
        let part = count.checked_mul(scale).ok_or(Fault::TooLong)?;
        total = total.checked_add(part).ok_or(Fault::TooLong)?;
        rest = after.trim_start();
    }
    above_zero(total)
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

fn above_zero(millis: u64) -> Result<u64, Fault> {
    if millis == 0 { Err(Fault::Zero) } else { Ok(millis) }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rest, mut space) = (self.0, "");
        for (unit, scale) in UNITS {
            if rest >= scale {
                write!(f, "{space}{}{unit}", rest / scale)?;
                (rest, space) = (rest % scale, " ");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, Millis, parse, seconds};

    #[test]
    fn what_is_a_duration() {
        for (text, millis) in [
            ("500ms", 500),
            ("5s", 5_000),
            ("2 m", 120_000),
            ("2   m", 120_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("1d 1ms", 86_400_001),
            ("1m1ms", 60_001),
            ("1 ms 1 s", 1_001),
            ("0h 5m", 300_000),
            (" 5s ", 5_000),
            ("007s", 7_000),
            ("18446744073709551615ms", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn what_is_none() {
        for text in [
            "", " ", "5", "s", "5 sec", "5S", "1.5s", "-5s", "+5s", "1_000ms", "5s,", "1h 30", "5 s5", "5us",
            "1w", "5minutes", "٥s", "5 m s", "5µs", "s5", "5 5s", "0x5s",
        ] {
            assert_eq!(parse(text), Err(Fault::Malformed), "{text:?}");
        }
        for text in ["0s", "0d 0ms", "000ms"] {
            assert_eq!(parse(text), Err(Fault::Zero), "{text}");
        }
        for text in [
            "18446744073709551616ms",
            "18446744073709551615s",
            "18446744073709551615ms 1ms",
            "99999999999999999999999d",
        ] {
            assert_eq!(parse(text), Err(Fault::TooLong), "{text}");
        }
    }

    #[test]
    fn a_bare_integer_is_seconds() {
        assert_eq!(seconds("90"), Ok(90_000));
        assert_eq!(seconds("0"), Err(Fault::Zero));
        assert_eq!(seconds("18446744073709552"), Err(Fault::TooLong));
        assert_eq!(seconds("99999999999999999999999"), Err(Fault::TooLong));
    }

    #[test]
    fn a_duration_prints_as_it_would_be_written() {
        for (millis, text) in [(1, "1ms"), (5_400_000, "1h 30m"), (2_147_483_647, "24d 20h 31m 23s 647ms")] {
            assert_eq!(Millis(millis).to_string(), text);
            assert_eq!(parse(text), Ok(millis));
        }
    }
}
