// errors: 2
// One for each of the two.

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Job)]
#[job(queue = AppQueues::Emails)]
struct SendEmail;

fn main() {}
