// M03
#![no_implicit_prelude]
#![deny(warnings)]

#[derive(
    ::std::fmt::Debug,
    ::std::clone::Clone,
    ::std::marker::Copy,
    ::std::cmp::PartialEq,
    ::std::cmp::Eq,
    ::std::hash::Hash,
    ::queuey::Queues,
)]
#[queues(prefix = "bare")]
enum Set {
    #[queue(
        name = "mails",
        prefetch = 5,
        durable = false,
        message_ttl = "30s",
        max_priority = 7,
        kind = "classic",
        redelivery_limit = 9,
        dead_letter_expired = true,
        max_deferrals = 3,
        retry(max_attempts = 4, base = "2s", factor = 3.0, max = "1m", jitter = 0.5, give_up_after = "1h")
    )]
    Mails,
    #[queue(kind = "quorum", ack_timeout = "2h", retry(backoff = "fixed", delay = "1s", jitter = true))]
    Reports,
    #[queue(retry(backoff = "steps", delays = ["1s", "2m"]))]
    Images,
}

#[derive(::serde::Serialize, ::serde::Deserialize, ::queuey::Job)]
#[job(queue = Set::Mails, name = "mails.send", timeout = "9s", max_deferrals = 2, retry(backoff = "none"))]
struct Send;

#[derive(::serde::Serialize, ::serde::Deserialize, ::queuey::Job)]
#[job(queue = Set::Images)]
enum Image {
    Resize,
}

#[::queuey::handler(concurrency = 3, timeout = "5s")]
async fn send(_: Send, ctx: ::queuey::JobContext, number: ::queuey::State<u8>) -> ::std::io::Result<()> {
    ::std::assert_eq!((ctx.attempt, number.0), (1, 5));
    ::std::result::Result::Ok(())
}

#[::queuey::handler]
async fn resize(job: Image) {
    match job {
        Image::Resize => {}
    }
}

fn main() {
    let all = <Set as ::queuey::QueueSet>::all();
    ::std::assert_eq!(all, [Set::Mails, Set::Reports, Set::Images]);
    ::std::assert_eq!(<Send as ::queuey::Job>::NAME, "mails.send");
    let _ = (Send, Image::Resize);
}
