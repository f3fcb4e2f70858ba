use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(name = 5)]
    Emails,
    #[queue(name = "emails")]
    Mails,
}

fn main() {}
