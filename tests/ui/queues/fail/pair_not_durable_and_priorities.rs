// errors: 2

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(kind = "quorum", durable = false, max_priority = 5)]
    Emails,
}

fn main() {}
