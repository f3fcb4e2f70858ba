use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(kind = quorum, ack_timeout = "2h")]
    Emails,
}

fn main() {}
