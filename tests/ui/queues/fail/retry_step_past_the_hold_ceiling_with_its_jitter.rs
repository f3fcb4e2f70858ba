use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(retry(backoff = "steps", delays = ["1s", "24d"], jitter = 0.5))]
    Emails,
}

fn main() {}
