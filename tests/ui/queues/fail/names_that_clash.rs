// errors: 2

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(name = "images")]
    Emails,
    Images,
}

fn main() {}
