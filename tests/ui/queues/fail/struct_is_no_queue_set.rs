use queuey::prelude::*;

#[derive(Queues)]
struct AppQueues;

fn main() {}
