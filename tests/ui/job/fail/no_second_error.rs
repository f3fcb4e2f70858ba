use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails, timeout = "0s")]
struct SendEmail {
    to: String,
}

#[handler]
async fn send_email(job: SendEmail, ctx: JobContext) -> Result<(), JobError> {
    println!("{} {} {}", job.to, SendEmail::NAME, ctx.attempt);
    Ok(())
}

async fn send(producer: Producer<AppQueues>) -> queuey::Result<()> {
    producer.enqueue(&SendEmail { to: "ada".into() }).await.map(drop)
}

fn main() {}
