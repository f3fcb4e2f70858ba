use expect_test::{Expect, expect};
use proc_macro2::{Delimiter, Group};
use quote::{ToTokens, quote};
use syn::DeriveInput;

use super::parse::Job;
use crate::{errors::Errors, golden, paths::Runtime};

fn errors(source: &str) -> Vec<String> {
    let item: DeriveInput = syn::parse_str(source).expect("an item");
    let mut errors = Errors::default();
    Job::parse(&item, &mut errors).check(&mut errors);
    errors.messages()
}

fn assert_expands(source: &str, expected: &Expect) {
    let item: DeriveInput = syn::parse_str(source).expect("an item");
    let mut errors = Errors::default();
    let job = Job::parse(&item, &mut errors);
    job.check(&mut errors);
    assert_eq!(errors.messages(), [""; 0]);
    expected.assert_eq(&golden::lines(&job.expand(&Runtime::of(quote!(q)))));
}

#[test]
fn each_mistake_is_one_error() {
    for (source, wanted) in [
        ("struct J;", "job `J` has no queue: add `#[job(queue = AppQueues::Emails)]`"),
        ("#[job] struct J;", "job `J` has no queue"),
        ("#[job(name = \"j\")] struct r#type;", "job `type` has no queue"),
        ("#[job(que = Q::A)] struct J;", "unknown key `que`: did you mean `queue`?"),
        ("#[job(\"mails\")] struct J;", "expected a key"),
        ("#[job = Q::A] struct J;", "expected `#[job(key = value)]`"),
        ("#[job(queue)] struct J;", "`queue`: expected a queue set and its variant"),
        ("#[job(queue = )] struct J;", "expected a value after `=`"),
        (
            "#[job(queue = \"mails\")] struct J;",
            "`queue`: expected a queue set and its variant such as `AppQueues::Emails`",
        ),
        ("#[job(queue = Q::A())] struct J;", "`queue`: expected a queue set and its variant"),
        ("#[job(queue = <Q>::A)] struct J;", "`queue`: expected a queue set and its variant"),
        ("#[job(queue = Mails)] struct J;", "the queue set before the variant"),
        ("#[job(queue = ::Mails)] struct J;", "the queue set before the variant"),
        ("#[job(queue = crate::Mails)] struct J;", "the queue set before the variant"),
        ("#[job(queue = super::super::Mails)] struct J;", "the queue set before the variant"),
        ("#[job(queue = Q::A, queue = Q::B)] struct J;", "duplicate key `queue`"),
        ("#[job(queue = Q::A)] #[job(queue = Q::A)] struct J;", "duplicate key `queue`"),
        ("#[job(queue = Q::A, name = \"\")] struct J;", "`name` is blank"),
        ("#[job(queue = Q::A, name = \"a\\n\")] struct J;", "control character '\\n'"),
        ("#[job(queue = Q::A, timeout = \"0s\")] struct J;", "`timeout`: expected a duration above zero"),
        ("#[job(queue = Q::A, prefetch = 1)] struct J;", "unknown key `prefetch`"),
        ("#[job(queue = Q::A)] union J { a: u8 }", "a job is a struct or an enum"),
        ("#[job(queue = Q::A)] struct J<T: Serialize>(T);", "no generic parameters"),
        ("#[job(queue = Q::A)] struct J<const N: usize = 1>;", "no generic parameters"),
        ("#[job(queue = Q::A)] struct J<'a, T> { s: &'a T }", "no lifetimes"),
        ("struct J { #[job(queue = Q::A)] a: u8 }", "belongs on the type"),
        ("#[job(queue = Q::A)] enum J { #[job(name = \"x\")] A }", "belongs on the type"),
        ("#[job(queue = Q::A)] enum J { A(#[job(name = \"x\")] u8) }", "belongs on the type"),
    ] {
        let errors = errors(source);
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{source}: {errors:#?}");
    }
}

#[test]
fn all_errors_of_an_item_are_reported_at_once() {
    let found = errors(
        "#[job(queue = A, name = \" \", timeout = \"5\", retry(max_attempts = 0, delay = 1))] struct J<T>(T);",
    );
    for word in ["`queue`", "`name`", "`timeout`", "`max_attempts`", "`delay`", "generic"] {
        assert_eq!(found.iter().filter(|error| error.contains(word)).count(), 1, "{word}: {found:#?}");
    }
    assert_eq!(found.len(), 6, "{found:#?}");
}

#[test]
fn queue_paths_of_every_shape_are_accepted() {
    for path in
        ["Q::A", "a::Q::A", "::a::Q::A", "crate::Q::A", "self::r#type::r#match", "Q::<u8, u16>::A", "Self::A"]
    {
        assert_eq!(
            errors(&format!("#[job(queue = {path}, timeout = 1)] struct J where u8: Copy;")),
            [""; 0],
            "{path}"
        );
    }
}

#[test]
fn the_expansion_holds_what_was_written_and_no_more() {
    assert_expands(
        "#[job(queue = a::Q::A)] #[allow(deprecated)] #[repr(C)] struct r#type;",
        &expect![[r##"
            #[automatically_derived]#[allow(deprecated)] impl q::__private::Job for r#type {
                type Queue = a::Q;
                const QUEUE: a::Q = <a::Q>::A;
                const NAME: &'static q::__private::str = q::__private::path!("type");
            }
            const _: () = {
                q::__private::inventory::submit! {
                    q::__private::JobRegistration::of::<r#type>(q::__private::file!(), q::__private::line!())
                }
            };
        "##]],
    );
    assert_expands(
        "#[job(queue = Q::A, name = \"n\", retry(), timeout = \"1m\", max_deferrals = 2)] enum J { Queue }",
        &expect![[r##"
            #[automatically_derived] impl q::__private::Job for J {
                type Queue = Q;
                const QUEUE: Q = <Q>::A;
                const NAME: &'static q::__private::str = "n";
                fn retry_policy() -> q::__private::Option<q::__private::RetryPolicy> {
                    q::__private::Option::Some(q::__private::RetryKeys::new().policy())
                }
                fn timeout() -> q::__private::Option<q::__private::Duration> {
                    q::__private::Option::Some(q::__private::ms(60000u64))
                }
                fn max_deferrals() -> q::__private::Option<q::__private::u32> {
                    q::__private::Option::Some(2u32)
                }
            }
            const _: () = {
                q::__private::inventory::submit! {
                    q::__private::JobRegistration::of::<J>(q::__private::file!(), q::__private::line!())
                }
            };
        "##]],
    );
}

#[test]
fn after_an_error_a_stub_stands_in_for_the_impl() {
    let stubs = [
        ("#[job(queue = Q::A, crate = \"q\", timeout = 0, name = \"\")] struct J;", 2, true),
        ("#[job(queue = A, crate = \"q\")] struct J;", 1, false),
        ("#[job(queue = Q::A, crate = \"q\")] struct J<T>(T);", 1, false),
    ];
    for (source, errors, has_stub) in stubs {
        let item = syn::parse_str(source).expect("an item");
        let expansion = super::derive(&item).to_string();
        assert_eq!(expansion.matches("compile_error !").count(), errors, "{expansion}");
        assert_eq!(expansion.contains("impl q :: __private :: Job for J"), has_stub, "{expansion}");
        assert!(!expansion.contains("submit"), "{expansion}");
    }
}

#[test]
fn fragments_of_a_macro_are_looked_through() {
    let path = invisible(quote!(Q::A));
    let (set, number) = (invisible(quote!(a::Q)), invisible(quote!(5)));
    let list = invisible(invisible(quote!([#number, "1s"])));
    for item in [
        quote!(
            #[job(queue = #path, timeout = #number)]
            struct J;
        ),
        quote!(
            #[job(queue = #set::A, retry(backoff = "steps", delays = #list))]
            struct J;
        ),
    ] {
        let item: DeriveInput = syn::parse2(item).expect("an item");
        let mut errors = Errors::default();
        Job::parse(&item, &mut errors).check(&mut errors);
        assert_eq!(errors.messages(), [""; 0]);
    }
}

/// What `macro_rules!` makes of a fragment.
fn invisible(tokens: impl ToTokens) -> Group {
    Group::new(Delimiter::None, tokens.into_token_stream())
}
