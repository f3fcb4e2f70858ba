//! A layer of one's own: counts and times every job, whatever becomes of it, by its name.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "middleware")]
enum Work {
    #[queue(retry(max_attempts = 2, backoff = "fixed", delay = "50ms"))]
    Tasks,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Work::Tasks, name = "task", timeout = "100ms")]
struct Task {
    kind: String,
}

async fn perform(job: Task, _ctx: JobContext) -> JobResult {
    match job.kind.as_str() {
        "slow" => std::future::pending().await,
        "broken" => panic!("broken"),
        _ => Ok(()),
    }
}

/// Runs of each result, and the time they took.
type Table = Arc<Mutex<BTreeMap<(&'static str, &'static str), (u32, Duration)>>>;

struct Metrics(Table);

impl Layer for Metrics {
    async fn call(&self, ctx: JobContext, next: Next) -> JobResult {
        let (job, start) = (ctx.job_type, Instant::now());
        let result = next.run(ctx).await;
        let kind = match &result {
            Ok(()) => "ok",
            Err(error) if error.is_panic() => "panic",
            Err(error) if error.is_timeout() => "timeout",
            Err(_) => "error",
        };
        let mut table = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (runs, took) = table.entry((job, kind)).or_default();
        (*runs, *took) = (*runs + 1, *took + start.elapsed());
        result
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://middleware".to_owned());
    let backend = queuey::connect(&url).await?;
    let producer = Producer::<Work>::new(backend.clone()).await?;
    for kind in ["fine", "fine", "slow", "broken"] {
        producer.enqueue(&Task { kind: kind.into() }).await?;
    }

    let table = Table::default();
    let worker = Worker::<Work>::builder(backend)
        .handler(FnHandler::<Task, _>::new(perform))
        .layer(Metrics(table.clone()))
        // A closure is a layer too.
        .layer(async |ctx: JobContext, next: Next| next.run(ctx).await)
        .build()
        .await?;
    let handle = worker.handle();
    let all_done = async {
        while handle.stats().succeeded + handle.stats().dead_total() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(all_done).await?;
    for ((job, kind), (runs, _)) in &*table.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        println!("{job} {kind}: {runs}");
    }
    Ok(())
}
