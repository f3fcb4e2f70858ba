//! M06: a crate that forbids itself a great deal.
#![deny(
    warnings,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused,
    unused_qualifications,
    rust_2018_idioms,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![forbid(unsafe_code)]

use queuey::prelude::*;

/// Queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "strict")]
enum Set {
    /// Mails.
    #[queue(prefetch = 4, message_ttl = "30s", dead_letter_expired = true, retry(max_attempts = 5))]
    Mails,
    /// Reports.
    #[queue(kind = "quorum", ack_timeout = "2h")]
    Reports,
}

/// A job.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = Set::Mails, timeout = "30s", retry(backoff = "fixed", delay = "1s"), max_deferrals = 4)]
struct SendMail {
    /// To whom.
    to: String,
}

/// Another job.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = Set::Reports)]
struct Report;

/// Sends.
#[handler(concurrency = 2, timeout = "1m")]
async fn send_mail(job: SendMail, State(from): State<String>) -> Result<(), JobError> {
    println!("{from} {}", job.to);
    Ok(())
}

/// Reports.
#[handler]
async fn report(_: Report, ctx: JobContext) {
    ctx.cancelled().await;
}

fn main() {
    let _ = (SendMail { to: String::new() }, Report, Set::all());
}
