// M12

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queue(prefetch = 5)]
enum AppQueues {
    Emails,
}

fn main() {}
