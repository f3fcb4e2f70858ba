use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "myapp.")]
enum AppQueues {
    Emails,
}

fn main() {}
