// M01
#![allow(non_camel_case_types)]

mod r#match {
    use queuey::prelude::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub enum r#Queues {
        r#type,
        #[queue(r#prefetch = 3)]
        r#match,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Queues::r#type)]
    pub struct r#struct {
        pub r#type: String,
        pub r#async: u8,
    }

    #[handler(r#concurrency = 2)]
    pub async fn r#fn(job: r#struct, r#try: JobContext) -> Result<(), JobError> {
        assert_eq!((job.r#async, r#try.queue), (7, "type"));
        Ok(())
    }
}

use r#match::{Queues as Set, r#struct};
use queuey::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> queuey::Result<()> {
    assert_eq!(Set::all().iter().map(Set::name).collect::<Vec<_>>(), ["type", "match"]);
    assert_eq!(Set::r#match.config().prefetch, 3);
    assert!(r#struct::NAME.ends_with("::match::struct") && !r#struct::NAME.contains('#'));

    let backend = Arc::new(MemoryBackend::new());
    let job = r#struct { r#type: "x".into(), r#async: 7 };
    Producer::<Set>::new(backend.clone()).await?.enqueue(&job).await?;
    let body = backend.pending("type")[0].to_bytes();
    assert!(!String::from_utf8_lossy(&body).contains('#'));
    assert!(backend.queue_names().iter().all(|name| !name.contains('#')));

    let worker = Worker::<Set>::builder(backend.clone()).discover_handlers().build().await?;
    let handle = worker.handle();
    let done = async {
        while handle.stats().succeeded == 0 {
            tokio::task::yield_now().await;
        }
    };
    worker.run_until(done).await?;
    Ok(())
}
