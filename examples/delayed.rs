//! Jobs that run later: after a delay, at a time, and ahead of the backlog.

use std::time::{Duration, SystemTime};

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "delayed")]
enum Calls {
    #[queue(prefetch = 1)]
    Reminders,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Calls::Reminders, name = "remind")]
struct Remind {
    what: String,
}

fn remind(what: &str) -> Remind {
    Remind { what: what.to_owned() }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://delayed".to_owned());
    let backend = queuey::connect(&url).await?;
    let producer = Producer::<Calls>::new(backend.clone()).await?;

    producer.enqueue_after(&remind("third: in two seconds"), Duration::from_secs(2)).await?;
    let soon = SystemTime::now() + Duration::from_secs(1);
    producer.enqueue_with(&remind("second: at a time"), EnqueueOptions::at(soon)).await?;
    producer.enqueue(&remind("first: now")).await?;

    let too_long = producer.enqueue_after(&remind("never"), Duration::from_secs(30 * 86_400)).await;
    println!("refused: {}", too_long.expect_err("nothing can be held for a month"));

    let worker = Worker::<Calls>::builder(backend)
        .handler(FnHandler::<Remind, _>::new(async |job, ctx: JobContext| {
            println!("{} (due {} s ago)", job.what, ctx.age.as_secs());
            Ok(())
        }))
        .build()
        .await?;
    let handle = worker.handle();
    let all_done = async {
        while handle.stats().succeeded < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(all_done).await?;
    Ok(())
}
