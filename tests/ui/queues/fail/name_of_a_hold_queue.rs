use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(name = "images.deferred.60000")]
    Emails,
    Images,
}

fn main() {}
