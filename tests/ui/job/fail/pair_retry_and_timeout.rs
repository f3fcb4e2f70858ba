// errors: 2

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails, retry(max_attempts = 0), timeout = 0)]
struct SendEmail {
    to: String,
}

fn main() {}
