use queuey::prelude::*;

#[derive(Queues)]
union AppQueues {
    number: u8,
}

fn main() {}
