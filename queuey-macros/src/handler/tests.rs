use expect_test::{Expect, expect};
use proc_macro2::TokenStream;
use quote::quote;

use super::parse::Handler;
use crate::{errors::Errors, golden, paths::Runtime};

fn tokens(source: &str) -> TokenStream {
    source.parse().expect("tokens")
}

fn errors(keys: &str, item: &str) -> Vec<String> {
    let mut errors = Errors::default();
    if let Some(handler) = Handler::parse(tokens(keys), &tokens(item), &mut errors) {
        handler.check(&mut errors);
    }
    errors.messages()
}

#[test]
fn each_mistake_in_the_function_is_one_error() {
    for (item, wanted) in [
        ("struct A;", "belongs on a function"),
        ("pub const A: u8 = 1;", "belongs on a function"),
        ("impl A {}", "belongs on a function"),
        ("fn f(job: J) {}", "a handler is async: write `async fn f`"),
        ("const fn r#type(job: J) {}", "write `async fn r#type`"),
        ("fn f(job: J) -> impl Future<Output = ()> { async {} }", "a handler is async"),
        ("async unsafe fn f(job: J) {}", "leave `unsafe` out"),
        ("async extern \"C\" fn f(job: J) {}", "leave `extern` out"),
        ("async fn f<T: Job>(job: T) {}", "no generic parameters"),
        ("async fn f<'a>(job: J<'a>) {}", "no generic parameters"),
        ("async fn f<const N: usize>(job: J<N>) {}", "no generic parameters"),
        ("async fn f(&self, job: J) {}", "without `self`"),
        ("async fn f(self) {}", "without `self`"),
        ("async fn f(self: Arc<Self>, job: J) {}", "without `self`"),
        ("async fn f() {}", "a handler takes its job: write `f(job: SendEmail)`"),
        ("async fn f(ctx: JobContext, job: J) {}", "the first parameter of a handler is its job"),
        ("async fn f(State(s): queuey::State<S>) {}", "the first parameter of a handler is its job"),
        ("async fn f(job: &J) {}", "write `J`, without `&`"),
        ("async fn f(job: J, ctx: &'static mut JobContext) {}", "write `JobContext`, without `&`"),
        ("async fn f(job: impl Job) {}", "`impl` makes a handler generic"),
        ("async fn f(job: J, s: State<Arc<(u8, impl Clone)>>) {}", "`impl` makes a handler generic"),
        ("async fn f(job: J, #[cfg(x)] ctx: JobContext) {}", "put `#[cfg]` on the function"),
        ("async fn f(job: J) -> impl Sized {}", "a handler answers with"),
        ("async fn f(job: J) -> Result<(), impl Error> {}", "a handler answers with"),
        ("async fn f(job: J) -> ! { loop {} }", "a handler answers with"),
    ] {
        let errors = errors("", item);
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{item}: {errors:#?}");
    }
}

#[test]
fn each_mistake_in_the_keys_is_one_error() {
    for (keys, wanted) in [
        ("concurency = 4", "unknown key `concurency`: did you mean `concurrency`?"),
        ("retry(max_attempts = 3)", "unknown key `retry`: expected one of concurrency, timeout, crate"),
        ("concurrency = 0", "`concurrency`: expected a whole number from 1 to 4294967295"),
        ("concurrency = \"4\"", "found `\"4\"`"),
        ("concurrency = -1", "found `-1`"),
        ("concurrency = 4usize", "without a suffix"),
        ("concurrency", "given as `concurrency = …`"),
        ("concurrency(4)", "given as `concurrency = …`"),
        ("timeout = \"0s\"", "a duration above zero"),
        ("timeout = \"5 sec\"", "unit of ms, s, m, h or d"),
        ("timeout = ", "expected a value after `=`"),
        ("timeout = 1, timeout = 2", "duplicate key `timeout`"),
        ("crate = queuey", "`crate`: expected a path in quotes"),
        ("SendEmail, timeout = 1", "unknown key `SendEmail`"),
        ("\"30s\"", "expected a key"),
    ] {
        let errors = errors(keys, "async fn f(job: J) {}");
        assert!(errors.len() == 1 && errors[0].contains(wanted), "{keys}: {errors:#?}");
    }
}

#[test]
fn all_errors_of_a_handler_are_reported_at_once() {
    let found = errors(
        "concurrency = 0, timeuot = 1",
        "unsafe extern fn f<T>(&self, job: &T, s: State<impl Clone>) -> ! {}",
    );
    let wanted =
        ["`concurrency`", "`timeuot`", "async", "`unsafe`", "`extern`", "generic par", "`self`", "`&`"];
    for word in wanted.iter().chain(&["`impl`", "answers"]) {
        assert_eq!(found.iter().filter(|error| error.contains(word)).count(), 1, "{word}: {found:#?}");
    }
    assert_eq!(found.len(), wanted.len() + 2, "{found:#?}");
}

#[test]
fn what_is_right_is_accepted() {
    for item in [
        "async fn f(job: J) {}",
        "#[doc = \"d\"] #[inline] pub(crate) async fn r#type(J { n }: a::J,) -> anyhow::Result<()> { Ok(n?) }",
        "async fn f(mut job: J, s: State<u8>, _: JobContext, State(t): State<(u8, u16)>) where u8: Copy {}",
        "async fn f(job: State) {}",
        "async fn f(job: J) -> Result<(), Box<dyn Error + Send + Sync>> { Ok(()) }",
    ] {
        assert_eq!(errors("", item), [""; 0], "{item}");
    }
    assert_eq!(errors("timeout = 5, concurrency = 1_0,", "async fn f(job: J) {}"), [""; 0]);
}

#[test]
fn the_function_is_passed_on_whatever_is_wrong_with_it() {
    for item in ["async fn f(job: J) -> u8 { 1 + }", "fn f() {}", "struct A { f: u8 }", "enum"] {
        let item = tokens(item);
        let expansion = super::attribute(quote!(crate = "q", timeout = 0), &item).to_string();
        assert!(expansion.starts_with(&item.to_string()), "{expansion}");
        assert!(expansion.contains("compile_error") && !expansion.contains("submit"), "{expansion}");
    }
}

fn assert_expands(keys: &str, item: &str, expected: &Expect) {
    let mut errors = Errors::default();
    let handler = Handler::parse(tokens(keys), &tokens(item), &mut errors).expect("a function");
    handler.check(&mut errors);
    assert_eq!(errors.messages(), [""; 0]);
    expected.assert_eq(&golden::lines(&handler.expand(&Runtime::of(quote!(q)))));
}

#[test]
fn the_expansion_holds_what_was_written_and_no_more() {
    assert_expands(
        "",
        "async fn r#type(job: J) { body() }",
        &expect![[r##"
            #[allow(deprecated)] const _: () = {
                q::__private::inventory::submit! {
                    q::__private::HandlerRegistration::new(q::__private::path!("type"), q::__private::file!(), q::__private::line!(), |__wanted| {
                        __wanted.handler(move|__job, __ctx| {
                            q::__private::run(async move {
                                q::__private::answer(r#type(__job).await)
                            })
                        })
                    })
                }
            };
        "##]],
    );
    assert_expands(
        "concurrency = 4, timeout = \"30s\"",
        "pub async fn send(J { to }: J, ctx: JobContext, State(mailer): State<Mailer>) -> anyhow::Result<()> {}",
        &expect![[r##"
            #[allow(deprecated)] const _: () = {
                q::__private::inventory::submit! {
                    q::__private::HandlerRegistration::new(q::__private::path!("send"), q::__private::file!(), q::__private::line!(), |__wanted| {
                        let __arg0 = __wanted.arg();
                        let __arg1 = __wanted.arg();
                        __wanted.timeout(q::__private::ms(30000u64)).concurrency(4).handler(move|__job, __ctx| {
                            let __arg0 = __arg0.get(&__ctx);
                            let __arg1 = __arg1.get(&__ctx);
                            q::__private::run(async move {
                                q::__private::answer(send(__job, __arg0, __arg1).await)
                            })
                        })
                    })
                }
            };
        "##]],
    );
}
