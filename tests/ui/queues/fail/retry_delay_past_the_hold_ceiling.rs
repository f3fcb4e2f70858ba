use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(retry(backoff = "fixed", delay = "25d"))]
    Emails,
}

fn main() {}
