use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(retry(backoff = "steps", delays = []))]
    Emails,
}

fn main() {}
