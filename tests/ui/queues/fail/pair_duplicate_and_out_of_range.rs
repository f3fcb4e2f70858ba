// errors: 2

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(prefetch = 0, prefetch = 70000)]
    Emails,
}

fn main() {}
