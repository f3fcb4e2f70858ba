//! The macros of queuey: typed queues, jobs and handlers.
//!
//! They are used through the crate `queuey`, which exports the derives next to the traits of the same names.
//!
//! Each item goes through three stages, one file each: `parse` reads its attributes, `check` holds them to the
//! rules, `expand` writes what is generated. All errors of an item are reported at once. The generated code holds what the
//! user wrote and calls into the runtime's hidden module `__private`: defaults are the runtime's.

mod duration;
mod errors;
mod fallback;
#[cfg(test)]
mod golden;
mod handler;
mod job;
mod keys;
mod paths;
mod queues;
mod retry;
#[cfg(test)]
mod sizes;
mod value;

use proc_macro::TokenStream;
use syn::DeriveInput;

/// Makes a fieldless enum a queue set: one queue for each variant.
///
/// It implements `QueueSet` and needs `Debug`, `Clone`, `Copy`, `PartialEq`, `Eq` and `Hash` next to it.
///
/// ```text
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
/// #[queues(prefix = "myapp")]
/// enum AppQueues {
///     #[queue(prefetch = 10)]
///     Emails,                       // "myapp.emails" on the broker
///     #[queue(name = "img", message_ttl = "30s", retry(max_attempts = 5))]
///     ImageResize,                  // "myapp.img"
/// }
/// ```
///
/// # `#[queues(…)]` on the enum
///
/// | key | default | meaning |
/// |---|---|---|
/// | `prefix = "myapp"` | none | what all queue names begin with, joined by a dot that is added |
/// | `crate = "path"` | found in `Cargo.toml` | where the generated code finds queuey |
///
/// # `#[queue(…)]` on a variant
///
/// | key | default | meaning |
/// |---|---|---|
/// | `name = "img"` | the variant in snake_case | last part of the queue name, which as a whole has at most 235 bytes |
/// | `prefetch = 10` | 16 | unsettled deliveries per consumer, 1 to 65535 |
/// | `durable = false` | `true` | whether queue and messages outlive the broker's restart |
/// | `message_ttl = "30s"` | none | how long a job may wait before the broker drops it, at most 4294967295 ms |
/// | `max_priority = 5` | 10 | the highest priority, 0 to 255; 0 is a queue without priorities |
/// | `kind = "quorum"` | `"classic"` | how the broker keeps the queue |
/// | `redelivery_limit = 5` | 20 | how often a delivery may come back unsettled; 0 is no limit |
/// | `dead_letter_expired = true` | `false` | whether what the broker drops is kept as a dead letter |
/// | `ack_timeout = "2h"` | the broker's, 30 min | how long a delivery may stay unsettled, on quorum queues only |
/// | `max_deferrals = 50` | no limit | how often a job may defer itself before it is dead-lettered |
/// | `retry(…)` | no retry | the policy of jobs that name none |
///
/// A quorum queue is always durable, takes no `max_priority` and needs a `redelivery_limit` of at least 1.
///
/// # `retry(…)`
///
/// `retry()` takes all defaults. The k-th wait is min(`max`, `base` · `factor`^(k-1)) where the backoff is exponential.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `max_attempts = 5` | 3 | runs in all, at least 1 |
/// | `backoff = "fixed"` | `"exponential"` | how waits go on: `"none"`, `"fixed"`, `"exponential"` or `"steps"` |
/// | `delay = "30s"` | required | fixed only: every wait |
/// | `base = "1s"` | `"1s"` | exponential only: the first wait |
/// | `factor = 2.0` | 2.0 | exponential only: what each wait multiplies the one before by, above 0 |
/// | `max = "5m"` | `"5m"`, or `base` if longer | exponential only: the longest wait, at least `base` |
/// | `delays = ["1s", "1m"]` | required | steps only: the waits in turn, the last of which repeats |
/// | `jitter = 0.2` | `true` if exponential, else `false` | `true`: any part of the wait; a fraction from 0.0 to 1.0: that much more or less |
/// | `give_up_after = "30m"` | none | the age of a job from which on a failure is final |
///
/// No wait is longer than 2147483647 ms (24d 20h 31m 23s 647ms).
///
/// # Durations
///
/// A string of integers with a unit of `ms`, `s`, `m`, `h` or `d` (`"500ms"`, `"2 m"`, `"1h 30m"`), or a bare integer
/// of seconds; above zero.
#[proc_macro_derive(Queues, attributes(queues, queue))]
pub fn derive_queues(item: TokenStream) -> TokenStream {
    expand_with(item, queues::derive)
}

/// Makes a struct or an enum a job: a message of one queue, with a name of its own.
///
/// It implements `Job`, registers the type under its name, and needs `Serialize` and `Deserialize` next to it.
/// The type has no generic parameters.
///
/// ```text
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(queue = AppQueues::Emails, name = "emails.send", timeout = "30s")]
/// struct SendEmail { to: String }
/// ```
///
/// # `#[job(…)]` on the type
///
/// | key | default | meaning |
/// |---|---|---|
/// | `queue = AppQueues::Emails` | required | the queue set and its variant |
/// | `name = "emails.send"` | `module::path::Type` | what travels in the message; workers find the handler by it |
/// | `retry(…)` | the queue's | what becomes of a failure; keys as in `Queues` |
/// | `timeout = "30s"` | none | how long one run may take |
/// | `max_deferrals = 10` | the queue's | how often the job may defer itself before it is dead-lettered |
/// | `crate = "path"` | found in `Cargo.toml` | where the generated code finds queuey |
///
/// Durations are written as for `Queues`.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(item: TokenStream) -> TokenStream {
    expand_with(item, job::derive)
}

/// Makes an async function the handler of a job, which workers find with `WorkerBuilder::discover_handlers`.
///
/// The first parameter is the job. The others are, in any order and number, `JobContext` or `State<T>`: what
/// `WorkerBuilder::state` was given, of which each run gets a clone. The function stays as it was written and can
/// be called as such.
///
/// ```text
/// #[handler(concurrency = 4, timeout = "30s")]
/// async fn send_email(job: SendEmail, ctx: JobContext, State(mailer): State<Mailer>) -> Result<(), JobError> {
///     mailer.send(&job.to).await?;
///     Ok(())
/// }
/// ```
///
/// It answers with `()`, `Result<(), JobError>` or `Result<(), E>`, where `E` is an error or can be boxed as one, such
/// as `anyhow::Error`: a retryable failure, or a fatal one where it holds a `Fatal`.
///
/// A crate of handlers must be named once in the program (`use my_jobs as _;`), or the linker never sees it.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `concurrency = 4` | the worker's | how many of these jobs run at once in a process, at least 1 |
/// | `timeout = "30s"` | the job's, then the worker's | how long one run may take; durations are written as for `Queues` |
/// | `crate = "path"` | found in `Cargo.toml` | where the generated code finds queuey |
#[proc_macro_attribute]
pub fn handler(keys: TokenStream, item: TokenStream) -> TokenStream {
    handler::attribute(keys.into(), &item.into()).into()
}

fn expand_with(item: TokenStream, derive: fn(&DeriveInput) -> proc_macro2::TokenStream) -> TokenStream {
    match syn::parse(item) {
        Ok(item) => derive(&item),
        Err(error) => error.to_compile_error(),
    }
    .into()
}
