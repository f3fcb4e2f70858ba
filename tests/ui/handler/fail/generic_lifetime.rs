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
async fn send_email<'a>(job: SendEmail, State(mailer): State<&'a Mailer>) {
    let _ = (job, mailer);
}

fn main() {}
