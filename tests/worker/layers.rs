//! Middleware: around every job, in order, with the last word.

use std::time::Duration;

use queuey_tests::{Running, queue_set};

use super::*;

#[tokio::test(start_paused = true)]
async fn layers_run_outermost_first_and_may_change_context_and_result() {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    struct Named(&'static str, Log<String>);
    impl Layer for Named {
        async fn call(&self, ctx: JobContext, next: Next) -> JobResult {
            note(&self.1, format!("> {}", self.0));
            let result = next.run(ctx.with_metadata("seen by", self.0)).await;
            note(&self.1, format!("< {}: {}", self.0, result.is_ok()));
            result
        }
    }
    let log = Log::default();
    let handler = FnHandler::<Task, _>::with(log.clone(), async |log: Log<String>, _job, ctx: JobContext| {
        note(&log, format!("run, {}", ctx.metadata["seen by"]));
        panic!("whatever")
    });
    let backend = Arc::new(MemoryBackend::new());
    Producer::<Set>::new(backend.clone()).await.unwrap().enqueue(&Task).await.unwrap();
    let builder = Worker::<Set>::builder(backend.clone())
        .layer(Named("outer", log.clone()))
        .layer(async |ctx: JobContext, next: Next| {
            let error = next.run(ctx).await.expect_err("the handler panics");
            assert!(error.is_panic() && !error.is_timeout());
            Ok(())
        })
        .layer(Named("inner", log.clone()))
        .handler(handler);
    let worker = Running::start(builder).await;
    worker.until_ended(1).await;
    assert_eq!(noted(&log), ["> outer", "> inner", "run, inner", "< inner: false", "< outer: true"]);
    assert_eq!(worker.stats().succeeded, 1);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_layer_sees_timeouts_and_may_keep_a_job_from_running() {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, timeout = "1s")]
    struct Slow {
        forbidden: bool,
    }
    let seen: Log<(bool, bool)> = Log::default();
    let own = seen.clone();
    let builder = |backend| {
        Worker::<Set>::builder(backend)
            .handler(FnHandler::<Slow, _>::new(async |job, _ctx| {
                assert!(!job.forbidden, "it ran");
                std::future::pending().await
            }))
            .layer(move |ctx: JobContext, next: Next| {
                let seen = own.clone();
                async move {
                    if ctx.priority == 9 {
                        return Err(JobError::discard_msg("not today"));
                    }
                    let result = next.run(ctx).await;
                    let error = result.as_ref().expect_err("it times out");
                    note(&seen, (error.is_timeout(), error.is_panic()));
                    result
                }
            })
    };
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    producer.enqueue_with(&Slow { forbidden: true }, EnqueueOptions::now().priority(9)).await.unwrap();
    producer
        .enqueue_with(&Slow { forbidden: false }, EnqueueOptions::after(Duration::from_secs(1)))
        .await
        .unwrap();
    let worker = Running::start(builder(backend as Arc<dyn Backend>)).await;
    worker.until_ended(2).await;
    assert_eq!(noted(&seen), [(true, false)]);
    assert_eq!((worker.stats().discarded, worker.stats().dead["exhausted"]), (1, 1));
    worker.stop().await;
}
