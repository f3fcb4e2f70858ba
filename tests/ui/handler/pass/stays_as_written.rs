#![deny(warnings, missing_docs, unreachable_pub)]

//! The function can be called, named and taken apart as if the attribute were not there.

use queuey::prelude::*;

/// Queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
pub enum Set {
    /// Work.
    Work,
}

/// A job.
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
pub struct Work {
    /// How much.
    pub amount: u8,
}

/// Names that the expansion uses or could use, as functions, jobs and arguments.
#[allow(non_snake_case, non_camel_case_types, dead_code)]
mod names {
    use super::*;

    macro_rules! handlers {
        ($($name:ident: $job:ident($arg:ident)),* $(,)?) => {
            $(
                #[derive(Serialize, Deserialize, Job)]
                #[job(queue = Set::Work)]
                pub(super) struct $job;

                #[handler]
                pub(super) async fn $name(_: $job, $arg: JobContext) {
                    drop($arg);
                }
            )*
        };
    }

    handlers!(
        job: Job1(job),
        ctx: Job2(ctx),
        make: Job3(wanted),
        run: Job4(run),
        answer: Job5(__job),
        handler: Job6(__ctx),
        __arg0: Found(__arg0),
        queuey: Wanted(states),
        __private: HandlerRegistration(inventory),
    );
}

/// Works.
///
/// # Errors
///
/// With an amount of zero.
#[handler(concurrency = 3)]
#[inline]
#[must_use = "it may fail"]
#[expect(clippy::unused_async, unused_variables, reason = "a lint expected here is not missed elsewhere")]
pub async fn work(Work { amount }: Work, ctx: JobContext, State(number): State<u8>) -> Result<(), JobError> {
    let unused = 1;
    if amount == 0 { Err(JobError::fatal_msg("nothing to do")) } else { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let ctx = JobContext::new::<Work>(1, 3);
    assert!(work(Work { amount: 1 }, ctx.clone(), State(1)).await.is_ok());
    assert!(work(Work { amount: 0 }, ctx.clone(), State(1)).await.unwrap_err().is_fatal());
    let _by_hand =
        FnHandler::<Work, _>::with(5_u8, async |number, job, ctx| work(job, ctx, State(number)).await);
    names::job(names::Job1, ctx).await;
}
