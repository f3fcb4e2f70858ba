use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(retry(backoff = "steps", delays = ["1s", "0s"]))]
    Emails,
}

fn main() {}
