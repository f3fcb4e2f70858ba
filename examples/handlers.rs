//! Handlers as functions: they register themselves, take the state they need, and answer as suits them.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use anyhow::Context;
use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "handlers")]
enum Shop {
    #[queue(prefetch = 1, retry(max_attempts = 2, backoff = "fixed", delay = "50ms"))]
    Orders,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Orders, name = "orders.charge")]
struct Charge {
    amount: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Orders, name = "orders.ship")]
struct Ship {
    order: u32,
}

/// Shared by all handlers that ask for it. Cloned for each run, so it is cheap to clone.
#[derive(Clone)]
struct Till(Arc<AtomicU32>);

/// With state and context, and any error by `?`: it is retried, and its whole chain becomes the reason.
#[handler]
async fn charge(job: Charge, State(till): State<Till>, ctx: JobContext) -> anyhow::Result<()> {
    println!("charge {}, attempt {} of {}", job.amount, ctx.attempt, ctx.max_attempts);
    // An amount that can't be read will not be readable the next time either.
    let amount: u32 = job.amount.parse().map_err(Fatal::new).context("reading the amount")?;
    till.0.fetch_add(amount, SeqCst);
    Ok(())
}

/// With nothing but the job, within a limit, one at a time. It can't fail.
#[handler(concurrency = 1, timeout = "30s")]
async fn ship(job: Ship) {
    println!("ship order {}", job.order);
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://handlers".to_owned());
    let backend = queuey::connect(&url).await?;
    let producer = Producer::<Shop>::new(backend.clone()).await?;
    for amount in ["20", "22", "a lot"] {
        producer.enqueue(&Charge { amount: amount.into() }).await?;
    }
    producer.enqueue(&Ship { order: 1 }).await?;

    let till = Till(Arc::default());
    let worker = Worker::<Shop>::builder(backend)
        .discover_handlers()
        .state(till.clone())
        .require_all_handlers()
        .on_dead_letter(FnDeadLetterHook::new(async |dead: DeadLetter| println!("given up: {}", dead.reason)))
        .build()
        .await?;
    let handle = worker.handle();
    let all_done = async {
        while handle.stats().succeeded + handle.stats().dead_total() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(all_done).await?;
    println!("in the till: {}", till.0.load(SeqCst));
    Ok(())
}
