use expect_test::{Expect, expect};
use quote::quote;
use syn::DeriveInput;

use super::parse::QueueSet;
use crate::{errors::Errors, golden, paths::Runtime};

fn errors(source: &str) -> Vec<String> {
    let item: DeriveInput = syn::parse_str(source).expect("an item");
    let mut errors = Errors::default();
    QueueSet::parse(&item, &mut errors).check(&mut errors);
    errors.messages()
}

/// The errors of a set with this `#[queue(…)]` on one of its variants.
fn errors_of_queue(keys: &str) -> Vec<String> {
    errors(&format!("enum Set {{ #[queue({keys})] Mails }}"))
}

fn expand(source: &str) -> String {
    let item: DeriveInput = syn::parse_str(source).expect("an item");
    let mut errors = Errors::default();
    let set = QueueSet::parse(&item, &mut errors);
    set.check(&mut errors);
    assert_eq!(errors.messages(), [""; 0]);
    golden::lines(&set.expand(&Runtime::of(quote!(q))))
}

#[test]
fn each_mistake_is_one_error() {
    for (keys, wanted) in [
        ("prefech = 5", "unknown key `prefech`: did you mean `prefetch`?"),
        ("max_prioritty = 3", "unknown key `max_prioritty`: did you mean `max_priority`?"),
        ("ttl = 3", "unknown key `ttl`: did you mean `message_ttl`?"),
        ("deadLetterExpired = true", "did you mean `dead_letter_expired`?"),
        ("colour = 1", "unknown key `colour`: expected one of name, prefetch, durable,"),
        ("prefetch = 1, prefetch = 2", "duplicate key `prefetch`"),
        ("prefetch = 0", "expected a whole number from 1 to 65535, without a suffix, found `0`"),
        ("prefetch = 65536", "from 1 to 65535"),
        ("prefetch = 99999999999999999999999", "from 1 to 65535"),
        ("prefetch = \"10\"", "found `\"10\"`"),
        ("prefetch = 10u16", "found `10u16`"),
        ("prefetch = -1", "found `-1`"),
        ("prefetch = 1.0", "found `1.0`"),
        ("prefetch = (1)", "`prefetch`: expected"),
        ("prefetch = #[cfg(x)] 1", "`prefetch`: expected"),
        ("prefetch", "`prefetch`: expected a whole number"),
        ("prefetch(1)", "`prefetch`: expected a whole number"),
        ("prefetch = ", "expected a value after `=`"),
        ("prefetch == 1", "expected an expression"),
        ("prefetch: 1", "expected `= value`"),
        ("prefetch = 1 2", "expected `,` after the value"),
        ("\"prefetch\" = 1", "expected a key"),
        ("durable = \"false\"", "`durable`: expected `true` or `false`, found `\"false\"`"),
        ("max_priority = 256", "from 0 to 255"),
        ("kind = \"Quorum\"", "`kind`: expected \"classic\" or \"quorum\", found `\"Quorum\"`"),
        ("kind = quorum", "`kind`: expected \"classic\" or \"quorum\", found `quorum`"),
        ("knd = \"quorum\", ack_timeout = 5", "did you mean `kind`?"),
        ("message_ttl = \"50d\"", "`message_ttl`: expected at most 49d 17h 2m 47s 295ms, found 50d"),
        ("message_ttl = \"5S\"", "unit of ms, s, m, h or d"),
        ("message_ttl = \"\"", "unit of ms, s, m, h or d"),
        ("message_ttl = \"0s\"", "a duration above zero"),
        ("message_ttl = 0", "a duration above zero"),
        ("message_ttl = 1.5", "unit of ms, s, m, h or d"),
        ("message_ttl = 5s", "in quotes, \"5s\""),
        ("ack_timeout = \"1h\"", "`ack_timeout` is for quorum queues only"),
        ("kind = \"classic\", ack_timeout = \"1h\"", "`ack_timeout` is for quorum queues only"),
        ("kind = \"quorum\", ack_timeout = 18446744073709552", "at most 18446744073709551615 ms"),
        ("kind = \"quorum\", durable = false", "always durable"),
        ("kind = \"quorum\", max_priority = 5", "no `max_priority`"),
        ("kind = \"quorum\", redelivery_limit = 0", "at least 1"),
        ("max_deferrals = 4294967296", "from 0 to 4294967295"),
        ("name = \"\"", "`name` is blank"),
        ("name = \" \\t\"", "`name` is blank"),
        ("name = \"a\\r\"", "control character '\\r'"),
        ("name = \"amq.x\"", "begins with `amq.`"),
        ("name = b\"x\"", "`name`: expected a string"),
        ("retry", "expected `retry(key = value, …)`"),
        ("retry = 3", "expected `retry(key = value, …)`"),
    ] {
        let errors = errors_of_queue(keys);
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{keys}: {errors:#?}");
    }
}

#[test]
fn what_is_right_is_accepted() {
    for keys in [
        "",
        "prefetch = 0x10, max_priority = 0b1, redelivery_limit = 1_000,",
        "name = \"ümlaut and blank\"",
        "message_ttl = 4294967, max_priority = 0, redelivery_limit = 0, max_deferrals = 0",
        "kind = \"quorum\", ack_timeout = \"2h\", durable = true, redelivery_limit = 1",
        "r#name = \"x\"",
    ] {
        assert_eq!(errors_of_queue(keys), [""; 0], "{keys}");
    }
    assert_eq!(
        errors("enum Set { #[queue] A, #[queue()] B, #[queue(prefetch = 1)] #[queue(name = \"c\")] C }"),
        [""; 0]
    );
}

#[test]
fn all_errors_of_an_item_are_reported_at_once() {
    let found = errors(
        "#[queues(prefix = \"p.\", prefx = 1)] #[queue(durable = false)]
        enum Set<T> {
            #[queue(prefetch = 0, durable = 1, retry(backof = 1, max_attempts = 0))] A,
            #[queue(name = \"a\", = , kind = \"quorum\", durable = false)] #[queues] B { x: u8 },
        }",
    );
    let parsed =
        ["`prefetch`", "`durable`: expected", "`max_attempts`", "`backof`", "expected a key", "`prefx`"];
    let checked = [
        "generic",
        "`#[queue(…)]` belongs",
        "`prefix` ends",
        "without fields",
        "`#[queues(…)]` belongs",
        "always durable",
    ];
    for word in parsed.iter().chain(&checked) {
        assert_eq!(found.iter().filter(|error| error.contains(word)).count(), 1, "{word}: {found:#?}");
    }
    // The clash of names is an error at each of the two.
    assert_eq!(
        found.iter().filter(|error| error.contains("queue name \"p..a\" is that of")).count(),
        2,
        "{found:#?}"
    );
    assert_eq!(found.len(), parsed.len() + checked.len() + 2, "{found:#?}");
}

#[test]
fn the_item_must_be_an_enum_of_plain_variants() {
    for (source, wanted) in [
        ("struct Set;", "an enum with a variant for each queue"),
        ("union Set { a: u8 }", "an enum with a variant for each queue"),
        ("enum Set {}", "`Set` has no variants"),
        ("enum Set<'a> { A }", "no generic parameters"),
        ("enum Set<const N: usize = 1> { A }", "no generic parameters"),
        ("enum Set { A() }", "without fields: write `A`"),
        ("enum Set { A {} }", "without fields: write `A`"),
        ("#[queues = \"p\"] enum Set { A }", "`queues`: expected `#[queues(key = value)]`"),
        ("#[queues(crate = \"a b\")] enum Set { A }", "`crate`: expected a path in quotes"),
        ("#[queues(crate = queuey)] enum Set { A }", "`crate`: expected a path in quotes"),
    ] {
        let errors = errors(source);
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{source}: {errors:#?}");
    }
}

#[test]
fn names_are_checked_as_the_broker_will_see_them() {
    let fits = "q".repeat(233);
    for (prefix, variants, wanted) in [
        ("", "A", vec!["`prefix` is blank"]),
        (" ", "A", vec!["`prefix` is blank"]),
        ("p.", "A", vec!["`prefix` ends in `.`"]),
        ("amq", "A, B", vec!["`prefix` makes names that begin with `amq.`"]),
        ("amq.p", "A", vec!["`prefix` makes names that begin with `amq.`"]),
        ("p\0", "A", vec!["`prefix` has the control character"]),
        (&fits, "A, #[queue(name = \"bc\")] B", vec!["queue name of 236 bytes, expected at most 235"]),
        (&fits[..232], "A, #[queue(name = \"öä\")] B", vec!["of 237 bytes"]),
        (&"q".repeat(234), "A, B", vec!["queue name of 236 bytes"]),
        ("p", "#[queue(name = \".a\")] A", vec!["`name` begins with `.`"]),
        ("p", "__", vec!["no word to name its queue after"]),
        (
            "p",
            "#[queue(name = \"b\")] A, B, C",
            vec!["\"p.b\" is that of `B` too", "\"p.b\" is that of `A` too"],
        ),
        ("p", "r#type, Type", vec!["\"p.type\" is that of `Type` too", "\"p.type\" is that of `type` too"]),
        ("p", "#[queue(name = \"b.dead\")] A, B", vec!["a dead letter queue of `B`"]),
        ("p", "A, #[queue(name = \"a.deferred.1000\")] B", vec!["a hold queue of `A`"]),
        (
            "p",
            "#[queue(name = \"a.dead\")] A, #[queue(name = \"x.deferred.1s\")] X, #[queue(name = \"a.deferred.\")] B",
            vec![],
        ),
    ] {
        let errors = errors(&format!("#[queues(prefix = {prefix:?})] enum Set {{ {variants} }}"));
        let as_wanted = errors.iter().zip(&wanted).all(|(error, wanted)| error.contains(wanted));
        assert!(errors.len() == wanted.len() && as_wanted, "{prefix} {variants}: {errors:#?}");
    }
}

fn assert_expands(source: &str, expected: &Expect) {
    expected.assert_eq(&expand(source));
}

#[test]
fn the_expansion_holds_what_was_written_and_no_more() {
    assert_expands(
        "enum Set { Mails, #[deprecated] #[queue(durable = false)] r#type }",
        &expect![[r##"
            #[automatically_derived] impl q::__private::QueueSet for Set {
                fn all() -> &'static[Self] {
                    &[Self::Mails, Self::r#type]
                }
                fn name(&self) -> &'static q::__private::str {
                    match self {
                        Self::Mails => "mails",
                        Self::r#type => "type",
                    }
                }
                fn config(&self) -> q::__private::QueueConfig {
                    match self {
                        Self::Mails => q::__private::QueueConfig::new("mails"),
                        Self::r#type => q::__private::QueueConfig::new("type").durable(false),
                    }
                }
                fn from_name(__name: &q::__private::str) -> q::__private::Option<Self> {
                    q::__private::by_name(__name)
                }
            }
        "##]],
    );
    assert_expands(
        "#[queues(prefix = \"p\", crate = \"x\")] enum Set { #[queue(
            prefetch = 1, durable = true, message_ttl = 30, redelivery_limit = 2, kind = \"quorum\",
            dead_letter_expired = true, ack_timeout = \"1h\", max_deferrals = 3, name = \"n\",
            retry(max_attempts = 4, backoff = \"steps\", delays = [\"1s\", 2], jitter = 0.5),
        )] A }",
        &expect![[r##"
            #[automatically_derived] impl q::__private::QueueSet for Set {
                fn all() -> &'static[Self] {
                    &[Self::A]
                }
                fn name(&self) -> &'static q::__private::str {
                    match self {
                        Self::A => "p.n",
                    }
                }
                fn config(&self) -> q::__private::QueueConfig {
                    match self {
                        Self::A => q::__private::QueueConfig::new("p.n").kind(q::__private::QueueKind::Quorum).prefetch(1u16).durable(true).message_ttl(q::__private::ms(30000u64)).redelivery_limit(2u32).dead_letter_expired(true).ack_timeout(q::__private::ms(3600000u64)).max_deferrals(3u32).retry(q::__private::RetryKeys::new().max_attempts(4u32).backoff("steps").delays(&[q::__private::ms(1000u64), q::__private::ms(2000u64)]).jitter_fraction(0.5f64).policy()),
                    }
                }
                fn from_name(__name: &q::__private::str) -> q::__private::Option<Self> {
                    q::__private::by_name(__name)
                }
            }
        "##]],
    );
}

#[test]
fn after_an_error_a_stub_stands_in_for_the_impl() {
    let stubs = [
        ("#[queues(crate = \"q\")] enum Set { #[queue(prefetch = 0, durable = 0)] A }", 2, true),
        ("#[queues(crate = \"q\")] enum Set<T> { A }", 1, false),
        ("#[queues(crate = \"q\")] struct Set;", 1, false),
    ];
    for (source, errors, has_stub) in stubs {
        let item = syn::parse_str(source).expect("an item");
        let expansion = super::derive(&item).to_string();
        assert_eq!(expansion.matches("compile_error !").count(), errors, "{expansion}");
        assert_eq!(expansion.contains("impl q :: __private :: QueueSet for Set"), has_stub, "{expansion}");
    }
}
