// errors: 4

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(name = "images.dead")]
    Emails,
    #[queue(name = "images.dead")]
    Mails,
    Images,
}

fn main() {}
