// errors: 3
// Each of the three once, though the registration depends on all of them.

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
async fn send_email(job: SendMail, State(mailer): State<Mailr>) -> Result<(), JobErr> {
    Ok(())
}

fn main() {}
