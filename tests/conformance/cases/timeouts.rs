//! S07: a run that takes too long is cut off, counted and tried again.

use super::*;

pub(crate) async fn s07_a_run_past_its_limit_is_a_failed_attempt(world: World) {
    // S07: job timeout.
    queue_set!(Set { Work: |queue| queue.retry(RetryPolicy::fixed(3, Duration::from_secs(1))) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, timeout = "1s")]
    struct Slow {
        how: String,
    }
    struct Work {
        exact: bool,
        runs: Log<(String, u32)>,
        ticks: Log<String>,
    }
    impl JobHandler for Work {
        type Job = Slow;
        async fn handle(&self, job: Slow, ctx: JobContext) -> JobResult {
            note(&self.runs, (job.how.clone(), ctx.attempt));
            match job.how.as_str() {
                "just in time" => {
                    let millis = if self.exact { 990 } else { 400 };
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
                "too long" => tokio::time::sleep(Duration::from_secs(10)).await,
                _ => loop {
                    // Takes no hint.
                    ctx.cancelled().await;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    note(&self.ticks, job.how.clone());
                },
            }
            Ok(())
        }
    }
    let work = Arc::new(Work { exact: world.slack.is_zero(), runs: Log::default(), ticks: Log::default() });
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(work.clone())).await;
    let producer = producer::<Set>(&world).await;
    for how in ["just in time", "too long", "stubborn"] {
        producer.enqueue(&Slow { how: how.into() }).await.unwrap();
    }
    worker.until_ended(3).await;
    let runs = |how: &str| {
        noted(&work.runs).into_iter().filter(|run| run.0 == how).map(|run| run.1).collect::<Vec<_>>()
    };
    assert_eq!(runs("just in time"), [1]);
    assert_eq!((runs("too long"), runs("stubborn")), (vec![1, 2, 3], vec![1, 2, 3]));
    let reason = "max attempts (3) exhausted after attempt 3: timed out after 1s";
    assert_eq!(dead_reasons(&world, Set::Work).await, [reason, reason]);
    let ticks = noted(&work.ticks).len();
    assert!(ticks > 0, "cancelled() fires before the run is cut off");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(noted(&work.ticks).len(), ticks, "no work goes on after the limit");
    worker.stop().await;
}

pub(crate) async fn the_handlers_limit_beats_the_jobs_and_that_the_workers(world: World) {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct WorkerSays;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, timeout = "2s")]
    struct JobSays;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, timeout = "2s")]
    struct HandlerSays;
    let worker = Running::start(
        Worker::<Set>::builder(world.backend.clone())
            .job_timeout(Duration::from_secs(3))
            .handler(FnHandler::<WorkerSays, _>::new(async |_, _| std::future::pending().await))
            .handler(FnHandler::<JobSays, _>::new(async |_, _| std::future::pending().await))
            .handler(
                FnHandler::<HandlerSays, _>::new(async |_, _| std::future::pending().await)
                    .timeout(Duration::from_secs(1)),
            ),
    )
    .await;
    let producer = producer::<Set>(&world).await;
    producer.enqueue(&WorkerSays).await.unwrap();
    producer.enqueue(&JobSays).await.unwrap();
    producer.enqueue(&HandlerSays).await.unwrap();
    worker.until_ended(3).await;
    let mut reasons = dead_reasons(&world, Set::Work).await;
    reasons.sort_unstable();
    let said =
        |seconds: u32| format!("max attempts (1) exhausted after attempt 1: timed out after {seconds}s");
    assert_eq!(reasons, [said(1), said(2), said(3)]);
    worker.stop().await;
}
