// Two queue sets with handlers in one program: each worker takes those of its own.
#![deny(warnings)]

use std::sync::atomic::{AtomicU8, Ordering};

use queuey::prelude::*;

static RUNS: AtomicU8 = AtomicU8::new(0);

macro_rules! service {
    ($module:ident, $prefix:literal, $worth:literal) => {
        mod $module {
            use super::*;

            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
            #[queues(prefix = $prefix)]
            pub enum Set {
                Work,
            }

            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = Set::Work, name = "work")]
            pub struct Work;

            #[handler]
            async fn work(_: Work, State(worth): State<[u8; $worth]>) {
                RUNS.fetch_add(worth.len() as u8, Ordering::Relaxed);
            }

            pub async fn run(backend: Arc<MemoryBackend>) -> queuey::Result<()> {
                Producer::<Set, _>::new(backend.clone()).await?.enqueue(&Work).await?;
                let builder = Worker::<Set, _>::builder(backend).discover_handlers().require_all_handlers();
                let worker = builder.state([0_u8; $worth]).build().await?;
                let handle = worker.handle();
                let done = async {
                    while handle.stats().succeeded == 0 {
                        tokio::task::yield_now().await;
                    }
                };
                worker.run_until(done).await.map(drop)
            }
        }
    };
}

service!(one, "one", 3);
service!(two, "two", 40);

#[tokio::main(flavor = "current_thread")]
async fn main() -> queuey::Result<()> {
    let backend = Arc::new(MemoryBackend::new());
    one::run(backend.clone()).await?;
    assert_eq!(RUNS.load(Ordering::Relaxed), 3);
    two::run(backend).await?;
    assert_eq!(RUNS.load(Ordering::Relaxed), 43);
    Ok(())
}
