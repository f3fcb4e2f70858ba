//! "Not yet" is no failure: a job that meets a rate limit defers itself, spends no attempt, and comes back ahead of the
//! backlog.

use std::time::Duration;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "deferral")]
enum Api {
    /// One at a time, so that the order can be seen.
    #[queue(prefetch = 1)]
    Calls,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Api::Calls, name = "call", max_deferrals = 3)]
struct Call {
    path: String,
}

/// `/busy` answers 429 with `Retry-After: 1` once; `/closed` does for ever.
async fn call(job: Call, ctx: JobContext) -> JobResult {
    let too_many = job.path == "/closed" || (job.path == "/busy" && ctx.deferrals == 0);
    println!("{}: attempt {}, deferred {} times", job.path, ctx.attempt, ctx.deferrals);
    if too_many {
        return Err(JobError::deferred_msg(Duration::from_millis(400), "429 too many requests"));
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://deferral".to_owned());
    let backend = queuey::connect(&url).await?;
    let producer = Producer::<Api>::new(backend.clone()).await?;
    for path in ["/busy", "/closed", "/1", "/2", "/3", "/4", "/5", "/6"] {
        producer.enqueue(&Call { path: path.into() }).await?;
    }

    let worker = Worker::<Api>::builder(backend)
        .handler(FnHandler::<Call, _>::new(call))
        .on_dead_letter(FnDeadLetterHook::new(async |dead: DeadLetter| println!("given up: {}", dead.reason)))
        .build()
        .await?;
    let handle = worker.handle();
    let all_done = async {
        while handle.stats().succeeded + handle.stats().dead_total() < 8 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(all_done).await?;
    println!("deferred {} times", handle.stats().deferred);
    Ok(())
}
