use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "my\tapp")]
enum AppQueues {
    Emails,
}

fn main() {}
