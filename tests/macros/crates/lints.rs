//! A documented crate that denies itself all it can.

use super::{SERDE, TinyCrate, dependency};

const LIBRARY: &str = r#"
//! A library of jobs.
#![deny(
    warnings,
    missing_docs,
    unused_qualifications,
    unreachable_pub,
    missing_debug_implementations,
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing
)]
#![forbid(unsafe_code)]

use queuey::prelude::*;

/// The queues of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "strict")]
pub enum AppQueues {
    /// Mails.
    Mails,
    /// Images.
    #[queue(
        name = "img", prefetch = 10, durable = false, message_ttl = "30s", max_priority = 0, kind = "classic",
        redelivery_limit = 5, dead_letter_expired = true, max_deferrals = 50,
        retry(max_attempts = 5, backoff = "exponential", base = "1s", factor = 2.5, max = "5m", jitter = 0.2,
              give_up_after = "30m")
    )]
    Images,
    /// Reports.
    #[queue(kind = "quorum", ack_timeout = "2h", retry(backoff = "steps", delays = ["1s", "1m"]))]
    Reports,
    /// Calls.
    #[queue(retry(backoff = "fixed", delay = 5, jitter = true))]
    Calls,
    /// Old.
    #[deprecated(note = "use `Mails`")]
    OldMails,
}

/// Sends a mail.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Mails, name = "mails.send", timeout = "30s", max_deferrals = 3, retry(max_attempts = 9))]
pub struct SendMail {
    /// To whom.
    pub to: String,
}

/// Makes an image smaller.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Images)]
pub enum Image {
    /// To a width.
    Width(u32),
    /// Never mind.
    Nothing,
}

/// Nothing to see.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Calls)]
pub(crate) struct Call;

/// Still there.
#[derive(Debug, Serialize, Deserialize, Job)]
#[allow(deprecated)]
#[job(queue = AppQueues::OldMails)]
pub struct OldMail;

/// Sends.
///
/// # Errors
///
/// Never.
#[handler(concurrency = 4, timeout = "10s")]
pub async fn send_mail(job: SendMail, ctx: JobContext, State(from): State<String>) -> Result<(), JobError> {
    ctx.cancelled().await;
    println!("{from} to {}", job.to);
    drop((job, from));
    Ok(())
}

/// Resizes.
#[handler]
async fn resize(image: Image, State(widest): State<u32>) -> std::io::Result<()> {
    std::future::ready(()).await;
    match image {
        Image::Width(width) if width > widest => Err(std::io::Error::other("too wide")),
        Image::Width(_) | Image::Nothing => Ok(()),
    }
}

#[handler]
async fn call(_: Call) {
    std::future::ready(()).await;
}

/// The handlers of a module.
pub mod deep {
    use queuey::handler;

    use super::OldMail;

    /// Does nothing.
    #[handler]
    pub async fn old_mail(_: OldMail) {
        std::future::ready(()).await;
    }
}
"#;

#[test]
fn no_lint_of_a_strict_crate_is_set_off_by_generated_code() {
    // M06
    let dependencies = format!("[dependencies]\n{}{SERDE}", dependency("queuey", "queuey", ""));
    let tiny = TinyCrate::new("strict").package("strict", 2024, &dependencies).file("src/lib.rs", LIBRARY);
    tiny.cargo(&["check", "--quiet"]).clean();
    tiny.cargo(&["clippy", "--quiet", "--all-targets"]).clean();
    tiny.cargo(&["doc", "--quiet", "--no-deps", "--document-private-items"]).clean();
}
