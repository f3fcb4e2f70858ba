// M12

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(message_ttl = "")]
    Emails,
}

fn main() {}
