use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "amq")]
enum AppQueues {
    Emails,
}

fn main() {}
