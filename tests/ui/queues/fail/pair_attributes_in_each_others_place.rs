// errors: 2

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queue(prefetch = 5)]
enum AppQueues {
    #[queues(prefix = "myapp")]
    Emails,
}

fn main() {}
