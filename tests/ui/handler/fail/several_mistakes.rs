// errors: 8

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

#[handler(concurrency = 0, timeuot = "1s")]
unsafe fn send_email<T>(
    ctx: JobContext,
    job: &SendEmail,
    State(s): State<impl Clone>,
) -> Result<(), JobError> {
    let _ = (ctx, job, s);
    Ok(())
}

fn main() {}
