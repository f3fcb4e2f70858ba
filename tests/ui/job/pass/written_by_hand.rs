// Both traits can be implemented by hand, and a handler takes such a job, also one of several of a generic type.
#![deny(warnings)]

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Set {
    Work,
}

impl QueueSet for Set {
    fn all() -> &'static [Self] {
        &[Self::Work]
    }

    fn name(&self) -> &'static str {
        "by_hand"
    }

    fn config(&self) -> QueueConfig {
        QueueConfig::new(self.name()).prefetch(2)
    }

    fn from_name(name: &str) -> Option<Self> {
        (name == "by_hand").then_some(Self::Work)
    }
}

#[derive(Serialize, Deserialize)]
struct Wrapped<T>(T);

impl Job for Wrapped<u8> {
    type Queue = Set;
    const NAME: &'static str = "wrapped.u8";
    const QUEUE: Set = Set::Work;
}

impl Job for Wrapped<String> {
    type Queue = Set;
    const NAME: &'static str = "wrapped.string";
    const QUEUE: Set = Set::Work;
}

#[handler]
async fn number(Wrapped(number): Wrapped<u8>) {
    assert_eq!(number, 7);
}

#[handler]
async fn text(Wrapped(text): Wrapped<String>) {
    assert_eq!(text, "x");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> queuey::Result<()> {
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await?;
    producer.enqueue(&Wrapped(7)).await?;
    producer.enqueue(&Wrapped("x".to_owned())).await?;
    let worker = Worker::<Set>::builder(backend).discover_handlers().build().await?;
    let handle = worker.handle();
    let done = async {
        while handle.stats().succeeded < 2 {
            tokio::task::yield_now().await;
        }
    };
    worker.run_until(done).await?;
    Ok(())
}
