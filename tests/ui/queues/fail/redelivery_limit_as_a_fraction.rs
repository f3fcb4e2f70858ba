use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(redelivery_limit = 1.5)]
    Emails,
}

fn main() {}
