use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(crate = "not a path")]
enum AppQueues {
    Emails,
}

fn main() {}
