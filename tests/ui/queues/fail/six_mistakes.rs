// errors: 6

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "myapp.")]
enum AppQueues {
    #[queue(prefech = 5, durable = "no", message_ttl = "0s")]
    Emails,
    #[queue(kind = "quorum", max_priority = 5)]
    Images,
    Reports(u8),
}

// A job on such a queue set adds no error, nor does its use.
#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails)]
struct SendEmail;

async fn send(producer: Producer<AppQueues>) -> queuey::Result<()> {
    producer.enqueue(&SendEmail).await.map(drop)
}

fn main() {}
