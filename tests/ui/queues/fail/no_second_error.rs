use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(prefetch = 0)]
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails)]
struct SendEmail;

#[handler]
async fn send_email(_job: SendEmail) {}

async fn run(backend: Arc<dyn Backend>) -> queuey::Result<()> {
    println!("{}, {:?}", AppQueues::Emails.name(), AppQueues::Emails.config());
    Producer::<AppQueues>::new(backend.clone()).await?.enqueue(&SendEmail).await?;
    Worker::<AppQueues>::builder(backend)
        .queues(&[AppQueues::Emails])
        .discover_handlers()
        .build()
        .await?
        .run()
        .await?;
    send_email(SendEmail).await;
    Ok(())
}

fn main() {}
