//! A shutdown loses nothing: jobs that run may finish, those that overrun are cut off and handed back, those that wait
//! go back at once.

use std::time::Duration;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "shutdown")]
enum Work {
    Reports,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Work::Reports, name = "report")]
struct Report {
    name: String,
}

async fn write(job: Report, ctx: JobContext) -> JobResult {
    println!("{} begins", job.name);
    match job.name.as_str() {
        // Takes a hint, and leaves the rest for the next run.
        "polite" => {
            ctx.cancelled().await;
            println!("polite stops early");
            return Err(JobError::requeue());
        }
        "quick" => tokio::time::sleep(Duration::from_millis(400)).await,
        _ => std::future::pending().await,
    }
    println!("{} ends", job.name);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://shutdown".to_owned());
    let backend = queuey::connect(&url).await?;
    let producer = Producer::<Work>::new(backend.clone()).await?;
    for name in ["quick", "polite", "endless", "waiting"] {
        producer.enqueue(&Report { name: name.into() }).await?;
    }

    let worker = Worker::<Work>::builder(backend)
        .handler(FnHandler::<Report, _>::new(write))
        .concurrency(3)
        .shutdown_timeout(Duration::from_secs(1))
        .build()
        .await?;
    let handle = worker.handle();
    // A program that serves calls `run_until_signal()` instead.
    let all_begun = async {
        while handle.stats().started < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let report = worker.run_until(all_begun).await?;
    println!(
        "finished: {}, returned: {}, aborted: {}",
        report.finished,
        report.returned,
        report.aborted.len()
    );
    Ok(())
}
