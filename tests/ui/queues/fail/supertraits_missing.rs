// errors: 2
// One for each of the two.

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, Queues)]
enum AppQueues {
    Emails,
}

fn main() {}
