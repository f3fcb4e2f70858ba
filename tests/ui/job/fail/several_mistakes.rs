// errors: 8

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Emails, name = "", timeout = "5", retry(max_attempts = 0, delay = "1s"), colour = 1)]
struct SendEmail<T> {
    #[job(name = "to")]
    to: T,
}

fn main() {}
