use quote::quote;
use syn::{MetaList, spanned::Spanned};

use super::Retry;
use crate::{errors::Errors, paths::Runtime};

fn read(keys: &str) -> (Retry, Vec<String>) {
    let list: MetaList = syn::parse_str(&format!("retry({keys})")).expect("a list");
    let mut errors = Errors::default();
    let retry = Retry::parse(&list, &mut errors);
    retry.check(list.span(), &mut errors);
    (retry, errors.messages())
}

#[test]
fn each_mistake_is_one_error() {
    for (keys, wanted) in [
        ("max_attempts = 0", "`max_attempts`: expected a whole number from 1 to 4294967295"),
        ("backof = \"fixed\"", "unknown key `backof`: did you mean `backoff`?"),
        (
            "backoff = \"linear\", delay = 1",
            "`backoff`: expected \"none\" or \"fixed\" or \"exponential\" or \"steps\"",
        ),
        ("backoff = \"fixed\"", "`backoff = \"fixed\"` needs the wait"),
        ("backoff = \"fixed\", dealy = 1", "did you mean `delay`?"),
        ("backoff = \"fixed\", delay = \"x\"", "`delay`: expected integers"),
        ("backoff = \"steps\"", "`backoff = \"steps\"` needs the waits"),
        ("backoff = \"steps\", delays = []", "`delays`: expected a list of durations"),
        ("backoff = \"steps\", delays = \"1s\"", "`delays`: expected a list of durations"),
        ("backoff = \"steps\", delays = [\"1s\", \"x\"]", "`delays`: expected integers"),
        (
            "delay = 1",
            "`delay` is a key of `backoff = \"fixed\"`, and here it is \"exponential\", the default",
        ),
        ("delays = [1]", "`delays` is a key of `backoff = \"steps\"`"),
        (
            "backoff = \"none\", base = 1",
            "`base` is a key of `backoff = \"exponential\"`, and here it is \"none\"",
        ),
        ("backoff = \"fixed\", delay = 1, factor = 2.0", "`factor` is a key"),
        ("backoff = \"none\", backoff = \"none\"", "duplicate key `backoff`"),
        ("base = \"10m\", max = \"5m\"", "`base` is longer than `max`: 10m is more than 5m"),
        ("max = \"999ms\"", "`max` is shorter than the default `base` of 1s"),
        ("factor = 0", "`factor`: expected a number above 0"),
        ("factor = -1.0", "found `-1.0`"),
        ("factor = 1e999", "`factor`: expected a number above 0"),
        ("factor = 2f64", "without a suffix"),
        ("jitter = 1", "`jitter`: expected `true`"),
        ("jitter = 1.1", "a fraction from 0.0 to 1.0"),
        ("jitter = \"full\"", "`jitter`: expected `true`"),
        ("give_up_after = 0", "`give_up_after`: expected a duration above zero"),
        (
            "max = \"2147483648ms\"",
            "`max`: expected at most 24d 20h 31m 23s 647ms, found 24d 20h 31m 23s 648ms",
        ),
        ("base = \"25d\"", "`base`: expected at most"),
        ("backoff = \"fixed\", delay = \"25d\"", "`delay`: expected at most"),
        (
            "backoff = \"fixed\", delay = \"24d\", jitter = 0.1",
            "`delay`: expected at most 24d 20h 31m 23s 647ms with its jitter",
        ),
        ("backoff = \"steps\", delays = [\"1s\", \"25d\"]", "`delays`: expected at most"),
    ] {
        let (_, errors) = read(keys);
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{keys}: {errors:#?}");
    }
}

#[test]
fn several_mistakes_are_several_errors() {
    for (keys, count) in [
        // Two of the delays; `max`, which is malformed and of another backoff.
        ("backoff = \"steps\", delays = [\"x\", 1, \"y\"], max = \"z\"", 4),
        ("base = \"26d\", max = \"25d\"", 2),
        ("base = \"25d\", max = \"26d\"", 2),
        ("backoff = \"steps\", delays = [\"25d\", \"26d\"]", 2),
        ("delay = 1, delays = [1], max_attempts = 0", 3),
    ] {
        let (_, errors) = read(keys);
        assert_eq!(errors.len(), count, "{keys}: {errors:#?}");
    }
}

#[test]
fn what_was_written_is_what_the_runtime_is_told() {
    for (keys, calls) in [
        ("", ""),
        ("max_attempts = 0x10, jitter = true", ".max_attempts(16u32).jitter(true)"),
        ("backoff = \"none\", jitter = false", ".backoff(\"none\").jitter(false)"),
        ("delay = \"1m\", backoff = \"fixed\"", ".backoff(\"fixed\").delay(#::ms(60000u64))"),
        ("max = \"2147483647ms\", jitter = 1.0", ".max(#::ms(2147483647u64)).jitter_fraction(1f64)"),
        ("factor = 3, base = 1, max = 1", ".base(#::ms(1000u64)).factor(3f64).max(#::ms(1000u64))"),
        (
            "backoff = \"steps\", delays = [1, \"2ms\",]",
            ".backoff(\"steps\").delays(&[#::ms(1000u64),#::ms(2u64)])",
        ),
        (
            "give_up_after = \"400d\", jitter = 0.0",
            ".jitter_fraction(0f64).give_up_after(#::ms(34560000000u64))",
        ),
        ("base = \"400s\"", ".base(#::ms(400000u64))"),
    ] {
        let (retry, errors) = read(keys);
        assert_eq!(errors, [""; 0], "{keys}");
        let found = retry.expand(&Runtime::of(quote!(::queuey))).to_string().replace(' ', "");
        let wanted = format!("#::RetryKeys::new(){calls}.policy()").replace('#', "::queuey::__private");
        assert_eq!(found, wanted, "{keys}");
    }
}
