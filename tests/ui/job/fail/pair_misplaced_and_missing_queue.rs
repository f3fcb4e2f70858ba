// errors: 2

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
struct SendEmail {
    #[job(queue = AppQueues::Emails)]
    to: String,
    #[job(name = "x")]
    subject: String,
}

fn main() {}
