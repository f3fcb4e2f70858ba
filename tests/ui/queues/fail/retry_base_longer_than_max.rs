use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(retry(base = "10m", max = "5m"))]
    Emails,
}

fn main() {}
