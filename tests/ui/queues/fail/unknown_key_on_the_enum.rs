use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefx = "myapp")]
enum AppQueues {
    Emails,
}

fn main() {}
