// M09

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[cfg(any())]
    Emails,
    #[cfg(any())]
    #[queue(prefetch = 0)]
    Images,
}

fn main() {}
