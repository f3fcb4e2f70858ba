// M06: the lints of rustc that are allowed unless asked for, as far as they could be set off by what is generated.
#![deny(
    warnings,
    absolute_paths_not_starting_with_crate,
    closure_returning_async_block,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    impl_trait_redundant_captures,
    keyword_idents,
    let_underscore_drop,
    missing_debug_implementations,
    missing_docs,
    non_ascii_idents,
    redundant_imports,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unreachable_pub,
    unsafe_code,
    unused_import_braces,
    unused_lifetimes,
    unused_macro_rules,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]

//! Documented.

use queuey::{Job, JobContext, JobError, Queues, State, handler};
use serde::{Deserialize, Serialize};

/// Queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "strict")]
pub enum Set {
    /// Mails.
    #[queue(message_ttl = "30s", dead_letter_expired = true, retry(backoff = "steps", delays = ["1s", "1m"]))]
    Mails,
    /// Reports.
    #[queue(kind = "quorum", max_deferrals = 3)]
    Reports,
}

/// A job.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = Set::Mails, name = "mails.send", timeout = "30s", retry(jitter = 0.5), max_deferrals = 4)]
pub struct SendMail;

/// Another job.
#[derive(Debug, Serialize, Deserialize, Job)]
#[job(queue = Set::Reports)]
enum Report {
    /// Of one kind.
    Daily,
}

/// Sends.
#[handler(concurrency = 2, timeout = "1m")]
pub async fn send_mail(
    _job: SendMail,
    _ctx: JobContext,
    State(_from): State<String>,
) -> Result<(), JobError> {
    Ok(())
}

#[handler]
async fn report(_: Report) {}

fn main() {
    let _report = Report::Daily;
}
