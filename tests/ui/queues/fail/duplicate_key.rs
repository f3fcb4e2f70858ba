// M12

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(prefetch = 1, prefetch = 2)]
    Emails,
}

fn main() {}
