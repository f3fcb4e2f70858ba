//! Failed attempts are tried again: by the queue's policy, by the job's own, and by what a handler says.

use std::time::Duration;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "retries")]
enum Shop {
    /// Three runs in all, 100 ms apart, for every job that says nothing else.
    #[queue(retry(max_attempts = 3, backoff = "fixed", delay = "100ms"))]
    Orders,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Orders, name = "orders.charge")]
struct Charge {
    order: u32,
}

/// Two runs in all: its own policy beats the queue's.
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Orders, name = "orders.ship", retry(max_attempts = 2, backoff = "steps", delays = ["100ms"]))]
struct Ship {
    order: u32,
}

/// Any error by `?` is a retryable failure.
async fn charge(job: Charge, ctx: JobContext) -> JobResult {
    println!("charge order {}: attempt {} of {}", job.order, ctx.attempt, ctx.max_attempts);
    if ctx.is_last_attempt() {
        return Ok(());
    }
    let _amount: u32 = "not a number".parse()?;
    Ok(())
}

/// The carrier says itself when to come back.
async fn ship(job: Ship, ctx: JobContext) -> JobResult {
    println!("ship order {}: attempt {} of {}", job.order, ctx.attempt, ctx.max_attempts);
    Err(JobError::retry_after(Duration::from_millis(50), "carrier is closed"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://retries".to_owned());
    let backend = queuey::connect(&url).await?;
    let producer = Producer::<Shop>::new(backend.clone()).await?;
    producer.enqueue(&Charge { order: 1 }).await?;
    producer.enqueue(&Ship { order: 2 }).await?;

    let worker = Worker::<Shop>::builder(backend)
        .handler(FnHandler::<Charge, _>::new(charge))
        .handler(FnHandler::<Ship, _>::new(ship))
        .on_dead_letter(FnDeadLetterHook::new(async |dead: DeadLetter| println!("given up: {}", dead.reason)))
        .build()
        .await?;
    let handle = worker.handle();
    let all_done = async {
        while handle.stats().succeeded + handle.stats().dead_total() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(all_done).await?;
    println!("retried {} times", handle.stats().retried);
    Ok(())
}
