//! The main job, start to end: mails, images and a rate-limited API, with everything that can happen to a job.
//!
//! Runs on the memory backend, or on RabbitMQ when `AMQP_URL` is set. The log goes to standard error; the last line on
//! standard output says what became of the jobs.

use std::time::Duration;

use queuey::prelude::*;
use tracing::info;

/// Two queues on the broker: `quickstart.mails` and `quickstart.images`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "quickstart")]
enum Shop {
    #[queue(prefetch = 10, retry(max_attempts = 3, backoff = "fixed", delay = "300ms"))]
    Mails,
    #[queue(max_priority = 5)]
    Images,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Mails, name = "mails.send")]
struct SendMail {
    to: String,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Images, name = "images.resize", timeout = "30s")]
struct Resize {
    path: String,
    width: u32,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Shop::Images, name = "images.publish", max_deferrals = 10)]
struct Publish {
    image: u32,
}

/// The mail server is down for the first two attempts to reach Bob, and nobody has Eve's address any more.
#[handler]
async fn send_mail(job: SendMail, ctx: JobContext) -> JobResult {
    match job.to.as_str() {
        "bob" if ctx.attempt < 3 => Err(JobError::retryable_msg("451 mail server is down")),
        "eve" => Err(JobError::discard_msg("eve has unsubscribed")),
        to => {
            info!("mail sent to {to}");
            Ok(())
        }
    }
}

/// A width of zero never works, however often it is tried.
#[handler]
async fn resize(job: Resize) -> JobResult {
    if job.width == 0 {
        return Err(JobError::fatal_msg(format!("{} can't be 0 pixels wide", job.path)));
    }
    info!("{} is now {} pixels wide", job.path, job.width);
    Ok(())
}

/// The gallery answers the first call with 429 and `Retry-After: 1`.
#[handler(concurrency = 2)]
async fn publish(job: Publish, ctx: JobContext) -> JobResult {
    if ctx.deferrals == 0 {
        return Err(JobError::deferred_msg(Duration::from_secs(1), "429 too many requests"));
    }
    info!("image {} published", job.image);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().with_target(false).init();
    let url = std::env::var("AMQP_URL").unwrap_or_else(|_| "memory://quickstart".to_owned());
    let backend = queuey::connect(&url).await?;

    let producer = Producer::<Shop>::new(backend.clone()).await?;
    let mut enqueued = 0;
    for to in ["ada", "bob", "eve"] {
        producer.enqueue(&SendMail { to: to.into() }).await?;
        enqueued += 1;
    }
    for width in [800, 0] {
        producer.enqueue(&Resize { path: "cat.png".into(), width }).await?;
        enqueued += 1;
    }
    producer.enqueue(&Publish { image: 7 }).await?;
    let reminder = EnqueueOptions::after(Duration::from_millis(1500)).correlation_id("order 7");
    producer.enqueue_with(&SendMail { to: "ada, again".into() }, reminder).await?;
    enqueued += 2;

    let worker =
        Worker::<Shop>::builder(backend).discover_handlers().close_backend_on_shutdown(true).build().await?;
    let handle = worker.handle();
    let all_done = async {
        let ended = || {
            let stats = handle.stats();
            stats.succeeded + stats.discarded + stats.dead_total()
        };
        while ended() < enqueued {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    worker.run_until(all_done).await?;

    let stats = handle.stats();
    println!(
        "done: enqueued={enqueued} succeeded={} retried={} deferred={} discarded={} dead={}",
        stats.succeeded,
        stats.retried,
        stats.deferred,
        stats.discarded,
        stats.dead_total()
    );
    Ok(())
}
