// errors: 2

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
struct SendEmail<T> {
    to: T,
}

fn main() {}
