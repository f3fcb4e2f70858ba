use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails, max_deferrals = 4294967296)]
struct SendEmail {
    to: String,
}

fn main() {}
