// errors: 2
// The fields, without which the parameter would be unused, are a mistake of their own.

use queuey::prelude::*;

#[derive(Queues)]
enum AppQueues<T> {
    #[queue(prefetch = 5)]
    Emails(std::marker::PhantomData<T>),
}

fn main() {}
