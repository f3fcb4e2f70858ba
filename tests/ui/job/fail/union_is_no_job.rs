use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Job)]
#[job(queue = AppQueues::Emails)]
union SendEmail {
    number: u8,
}

fn main() {}
