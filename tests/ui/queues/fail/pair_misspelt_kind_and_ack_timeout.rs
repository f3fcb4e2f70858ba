// What is meant can be told, so nothing else is held against it.

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(knd = "quorum", ack_timeout = "2h")]
    Emails,
}

fn main() {}
