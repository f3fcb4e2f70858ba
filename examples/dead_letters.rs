//! Jobs that are given up on are kept with their reason, and a hook hears of each.

use std::time::Duration;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "dead_letters")]
enum Shop {
    Orders,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Orders, name = "orders.charge")]
struct Charge {
    order: u32,
}

/// A job of the next release, which this worker does not know.
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Orders, name = "orders.refund")]
struct Refund {
    order: u32,
}

async fn charge(job: Charge, _ctx: JobContext) -> JobResult {
    match job.order {
        1 => Err(JobError::fatal_msg("card was stolen")),
        2 => panic!("order 2 is corrupt"),
        _ => Ok(()),
    }
}

/// Tells whoever should know. A real one would write a row or call a pager.
struct Alarm;

impl DeadLetterHook for Alarm {
    async fn on_dead_letter(&self, dead: DeadLetter) {
        println!("{}: {}", dead.cause, dead.reason);
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A panic is caught; without this its message would also be printed where it happens.
    std::panic::set_hook(Box::new(|_| {}));
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://dead_letters".to_owned());
    let backend = queuey::connect(&url).await?;
    let producer = Producer::<Shop>::new(backend.clone()).await?;
    for order in 1..=3 {
        producer.enqueue(&Charge { order }).await?;
    }
    producer.enqueue(&Refund { order: 3 }).await?;

    let worker = Worker::<Shop>::builder(backend)
        .handler(FnHandler::<Charge, _>::new(charge))
        .on_dead_letter(Alarm)
        .concurrency(1)
        .build()
        .await?;
    let handle = worker.handle();
    let all_done = async {
        while handle.stats().succeeded + handle.stats().dead_total() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(all_done).await?;
    println!("succeeded: {}, dead: {:?}", handle.stats().succeeded, handle.stats().dead);
    Ok(())
}
