use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(kind = "quorum", max_priority = 5)]
    Emails,
}

fn main() {}
