use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails)]
struct SendEmail {
    to: String,
}

#[derive(Clone)]
struct Mailer;

/// Sends.
#[handler(concurrency = 0)]
pub async fn send_email(
    job: SendEmail,
    ctx: JobContext,
    State(_mailer): State<Mailer>,
) -> Result<(), JobError> {
    println!("{} {}", job.to, ctx.attempt);
    Ok(())
}

async fn use_it(job: SendEmail) -> Result<(), JobError> {
    send_email(job, JobContext::new::<SendEmail>(1, 1), State(Mailer)).await
}

fn main() {}
