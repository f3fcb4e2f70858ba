use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(crate = "::elsewhere")]
enum AppQueues {
    Emails,
}

fn main() {}
