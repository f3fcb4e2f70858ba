// Jobs of one name in two modules, and handlers of one name, are apart.
#![deny(warnings)]

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
pub enum Set {
    Work,
}

macro_rules! modules {
    ($($module:ident)*) => {
        $(
            pub mod $module {
                use super::*;

                #[derive(Serialize, Deserialize, Job)]
                #[job(queue = Set::Work)]
                pub struct Work;

                #[handler]
                async fn work(_: Work, ctx: JobContext) {
                    assert_eq!(ctx.job_type, Work::NAME);
                }
            }
        )*
    };
}

modules!(first second third);

#[tokio::main(flavor = "current_thread")]
async fn main() -> queuey::Result<()> {
    assert_eq!(first::Work::NAME, concat!(module_path!(), "::first::Work"));
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await?;
    producer.enqueue(&first::Work).await?;
    producer.enqueue(&second::Work).await?;
    producer.enqueue(&third::Work).await?;
    let worker = Worker::<Set>::builder(backend).discover_handlers().build().await?;
    let handle = worker.handle();
    let done = async {
        while handle.stats().succeeded < 3 {
            tokio::task::yield_now().await;
        }
    };
    worker.run_until(done).await.map(drop)
}
