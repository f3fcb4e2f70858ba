//! How large expansions are: the user's compiler reads them each time.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;

/// Lines as rustfmt writes them, and tokens.
#[derive(Debug)]
struct Size {
    lines: usize,
    tokens: usize,
}

impl Size {
    fn of(expansion: &TokenStream) -> Self {
        Size { lines: formatted(&expansion.to_string()).lines().count(), tokens: tokens(expansion.clone()) }
    }
}

fn tokens(stream: TokenStream) -> usize {
    let size = |token| match token {
        TokenTree::Group(group) => 2 + tokens(group.stream()),
        _ => 1,
    };
    stream.into_iter().map(size).sum()
}

fn formatted(source: &str) -> String {
    // rustfmt leaves what is in the braces of a macro as it is.
    let source = source.replace(":: queuey :: __private :: inventory :: submit !", "");
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt comes with the toolchain");
    rustfmt.stdin.take().expect("piped").write_all(source.as_bytes()).expect("rustfmt reads");
    let output = rustfmt.wait_with_output().expect("rustfmt ends");
    assert!(output.status.success(), "{source}");
    String::from_utf8(output.stdout).expect("rustfmt writes text")
}

#[test]
fn expansions_stay_small() {
    let set = quote! {
        #[queues(prefix = "myapp", crate = "::queuey")]
        enum AppQueues {
            #[queue(prefetch = 10)]
            Emails,
            #[queue(name = "img", message_ttl = "30s", max_priority = 0, dead_letter_expired = true, retry(
                max_attempts = 5, backoff = "exponential", base = "1s", factor = 2.0, max = "5m", jitter = true,
            ))]
            ImageResize,
            #[queue(kind = "quorum", ack_timeout = "2h", redelivery_limit = 5, max_deferrals = 50, retry(
                backoff = "steps", delays = ["1s", "10s", "1m"], give_up_after = "30m",
            ))]
            Reports,
        }
    };
    let job = quote! {
        #[job(queue = AppQueues::Emails, timeout = "30s", max_deferrals = 10, retry(), crate = "::queuey")]
        struct SendEmail { to: String }
    };
    let set = Size::of(&crate::queues::derive(&syn::parse2(set).expect("an enum")));
    let job = Size::of(&crate::job::derive(&syn::parse2(job).expect("a struct")));
    let function = quote! {
        async fn send_email(job: SendEmail, ctx: JobContext, State(mailer): State<Mailer>) -> Result<(), JobError> {}
    };
    let keys = quote!(concurrency = 4, timeout = "30s", crate = "::queuey");
    let mut handler = Size::of(&crate::handler::attribute(keys, &function));
    let written = Size::of(&function);
    handler.lines -= written.lines;
    handler.tokens -= written.tokens;
    println!("a set of three queues: {set:?}, a job: {job:?}, a handler without its function: {handler:?}");

    assert!(set.lines <= 3 * 40, "{set:?}");
    assert!(job.lines <= 40, "{job:?}");
    assert!(handler.lines <= 40, "{handler:?}");
}
