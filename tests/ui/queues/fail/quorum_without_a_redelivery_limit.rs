use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(kind = "quorum", redelivery_limit = 0)]
    Emails,
}

fn main() {}
