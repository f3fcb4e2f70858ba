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

#[handler]
fn send_email(job: SendEmail) -> impl std::future::Future<Output = ()> {
    async move { drop(job) }
}

async fn use_it(job: SendEmail) {
    send_email(job).await;
}

fn main() {}
