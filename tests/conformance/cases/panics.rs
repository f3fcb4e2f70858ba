//! S01: a panic is a failed attempt, wherever it comes from.

use super::*;

pub(crate) async fn s01_a_panic_is_a_failed_attempt(world: World) {
    // S01: panicking handler.
    queue_set!(Set { Work: |queue| queue.retry(RetryPolicy::fixed(2, Duration::from_secs(1))) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Panics {
        how: String,
    }
    #[derive(Serialize, Job)]
    #[job(queue = Set::Work)]
    struct PanicsOnArrival;
    impl<'de> Deserialize<'de> for PanicsOnArrival {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("boom while decoding")
        }
    }
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("boom in drop")
        }
    }
    async fn panic_as_told(job: Panics, _ctx: JobContext) -> JobResult {
        match job.how.as_str() {
            "str" => panic!("boom str"),
            "string" => panic!("boom {}", job.how),
            "payload" => std::panic::panic_any(7_u8),
            "late" => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                panic!("boom late")
            }
            "drop" => {
                let _guard = PanicsInDrop;
                Ok(())
            }
            "text of the error" => {
                #[derive(Debug)]
                struct Mute;
                impl std::fmt::Display for Mute {
                    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        panic!("boom in display")
                    }
                }
                impl std::error::Error for Mute {}
                Err(Mute.into())
            }
            _ => Ok(()),
        }
    }
    let worker = Running::start(
        Worker::<Set>::builder(world.backend.clone())
            .handler(FnHandler::<Panics, _>::new(panic_as_told))
            .handler(FnHandler::<PanicsOnArrival, _>::new(async |_, _| Ok(()))),
    )
    .await;
    let producer = producer::<Set>(&world).await;
    let hows = ["str", "string", "payload", "late", "drop", "text of the error"];
    for how in hows {
        producer.enqueue(&Panics { how: how.into() }).await.unwrap();
    }
    let body = queuey::Envelope::raw(PanicsOnArrival::NAME, Set::Work.name(), Default::default());
    world.backend.publish(&body, None).await.unwrap();
    worker.until_ended(7).await;
    for _ in 0..10 {
        producer.enqueue(&Panics { how: "good".into() }).await.unwrap();
    }
    worker.until_ended(17).await;
    let stats = worker.stats();
    assert_eq!((stats.succeeded, stats.retried, stats.dead["exhausted"]), (10, 7, 7));
    let mut reasons = dead_reasons(&world, Set::Work).await;
    reasons.sort_unstable();
    let said = |what: &str| format!("max attempts (2) exhausted after attempt 2: panicked: {what}");
    let mut expected = [
        "boom str",
        "boom string",
        "a value that is no string",
        "boom late",
        "boom in drop",
        "boom in display",
        "boom while decoding",
    ]
    .map(said);
    expected.sort_unstable();
    assert_eq!(reasons, expected);
    worker.stop().await;
}

pub(crate) async fn a_panic_in_a_layer_or_a_hook_stops_nothing(world: World) {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        fatal: bool,
    }
    let worker = Running::start(
        Worker::<Set>::builder(world.backend.clone())
            .handler(FnHandler::<Task, _>::new(async |job, _ctx| {
                if job.fatal { Err(JobError::fatal_msg("fatal")) } else { Ok(()) }
            }))
            .layer(async |ctx: JobContext, next: Next| {
                let result = next.run(ctx).await;
                if result.is_ok() {
                    panic!("boom in the layer");
                }
                result
            })
            .on_dead_letter(FnDeadLetterHook::new(async |_| panic!("boom in the hook"))),
    )
    .await;
    let producer = producer::<Set>(&world).await;
    for fatal in [true, false, true, false] {
        producer.enqueue(&Task { fatal }).await.unwrap();
    }
    worker.until_ended(4).await;
    let mut reasons = dead_reasons(&world, Set::Work).await;
    reasons.sort_unstable();
    let exhausted = "max attempts (1) exhausted after attempt 1: panicked: boom in the layer";
    assert_eq!(reasons, ["fatal", "fatal", exhausted, exhausted]);
    worker.stop().await;
}
