// errors: 2

use queuey::prelude::*;

#[derive(Queues)]
enum AppQueues<const N: usize> {}

fn main() {}
