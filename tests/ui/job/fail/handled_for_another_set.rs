use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    Emails,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum OtherQueues {
    Images,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails)]
struct SendEmail;

fn add(worker: WorkerBuilder<OtherQueues>) -> WorkerBuilder<OtherQueues> {
    worker.handler(FnHandler::<SendEmail, _>::new(async |_, _| Ok(())))
}

fn main() {}
