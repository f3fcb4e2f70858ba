//! R07 and R08: how often a job runs, and who says so.

use super::*;

const WAIT: Duration = Duration::from_secs(1);

pub(crate) async fn r07_attempts_are_numbered_without_gaps_up_to_the_maximum(world: World) {
    // R07: counting attempts.
    queue_set!(Set { Work: |queue| queue.prefetch(50) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Failing {
        max: u32,
        backoff: u8,
    }
    struct Handler(Log<(u32, u8, u32)>);
    impl JobHandler for Handler {
        type Job = Failing;
        async fn handle(&self, job: Failing, ctx: JobContext) -> JobResult {
            assert_eq!((ctx.max_attempts, ctx.is_last_attempt()), (job.max, ctx.attempt == job.max));
            note(&self.0, (job.max, job.backoff, ctx.attempt));
            Err(JobError::retryable_msg("again"))
        }
        fn retry_policy(&self, job: &Failing) -> Option<RetryPolicy> {
            let backoff = match job.backoff {
                0 => Backoff::None,
                1 => Backoff::Fixed(WAIT),
                _ => Backoff::Exponential { base: WAIT, factor: 1.2, max: WAIT * 2 },
            };
            Some(RetryPolicy::new(job.max, backoff))
        }
    }
    let runs = Log::default();
    let worker =
        Running::start(Worker::<Set>::builder(world.backend.clone()).handler(Handler(runs.clone()))).await;
    let producer = producer::<Set>(&world).await;
    let maxima = [1, 2, 3, 5, 10];
    for max in maxima {
        for backoff in 0..3 {
            producer.enqueue(&Failing { max, backoff }).await.unwrap();
        }
    }
    worker.until_ended(15).await;
    for max in maxima {
        for backoff in 0..3 {
            let attempts: Vec<u32> = noted(&runs)
                .into_iter()
                .filter(|run| (run.0, run.1) == (max, backoff))
                .map(|run| run.2)
                .collect();
            assert_eq!(attempts, (1..=max).collect::<Vec<_>>(), "{max} {backoff}");
        }
        let reason = format!("max attempts ({max}) exhausted after attempt {max}: again");
        let stated =
            dead_reasons(&world, Set::Work).await.into_iter().filter(|found| *found == reason).count();
        assert_eq!(stated, 3, "{reason}");
    }
    worker.stop().await;
}

pub(crate) async fn r07_deferrals_never_change_the_attempt(world: World) {
    // R07: mixes of defer and fail, with the worker restarted between attempts.
    queue_set!(Set { Work: |queue| queue.retry(RetryPolicy::fixed(3, WAIT)) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Mixed;
    let runs: Log<(u32, u32)> = Log::default();
    let producer = producer::<Set>(&world).await;
    producer.enqueue(&Mixed).await.unwrap();
    // D F D D F F
    let expected = [(1, 0), (1, 1), (2, 1), (2, 2), (2, 3), (3, 3)];
    for restart in 1.. {
        let handler =
            FnHandler::<Mixed, _>::with(runs.clone(), async |runs: Log<_>, _job, ctx: JobContext| {
                note(&runs, (ctx.attempt, ctx.deferrals));
                match (ctx.attempt, ctx.deferrals) {
                    (1, 0) | (2, 1 | 2) => Err(JobError::deferred(WAIT)),
                    _ => Err(JobError::retryable_msg("again")),
                }
            });
        let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
        until("it ran twice more, or ended", || noted(&runs).len() >= 2 * restart || worker.ended() == 1)
            .await;
        until("it is settled", || worker.stats().in_flight == 0).await;
        let ended = worker.ended() == 1;
        worker.stop().await;
        if ended || noted(&runs).len() == expected.len() {
            break;
        }
    }
    assert_eq!(noted(&runs), expected);
    assert_eq!(dead_reasons(&world, Set::Work).await, ["max attempts (3) exhausted after attempt 3: again"]);
}

pub(crate) async fn r08_the_highest_policy_wins_and_the_handler_sees_it(world: World) {
    // R08: two places to say how often.
    queue_set!(Set {
        Plain: |queue| queue.retry(RetryPolicy::fixed(2, WAIT)),
        Overridden: |queue| queue.retry(RetryPolicy::fixed(2, WAIT)),
        Silent
    });
    macro_rules! jobs {
        ($($job:ident on $queue:ident);+ $(;)?) => { $(
            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = Set::$queue)]
            struct $job;
        )+ };
    }
    jobs! {
        QueueSays on Plain;
        NobodySays on Silent;
        QueueOverride on Overridden;
        JobOverride on Overridden;
        HandlerSays on Overridden;
    }
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Plain, retry(max_attempts = 3, backoff = "fixed", delay = "1s"))]
    struct JobSays;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Overridden, retry(max_attempts = 3, backoff = "fixed", delay = "1s"))]
    struct QueueOverrideBeatsJob;

    type Runs = Log<(&'static str, u32, u32, bool)>;
    async fn fail(runs: &Runs, ctx: JobContext) -> JobResult {
        note(runs, (ctx.job_type, ctx.max_attempts, ctx.attempt, ctx.is_last_attempt()));
        Err(JobError::retryable_msg("again"))
    }
    fn failing<J: Job>(runs: &Runs) -> impl JobHandler<Job = J> {
        FnHandler::<J, _>::with(runs.clone(), async |runs: Runs, _job: J, ctx: JobContext| {
            fail(&runs, ctx).await
        })
    }
    struct Own(Runs);
    impl JobHandler for Own {
        type Job = HandlerSays;
        async fn handle(&self, _job: HandlerSays, ctx: JobContext) -> JobResult {
            fail(&self.0, ctx).await
        }
        fn retry_policy(&self, _job: &HandlerSays) -> Option<RetryPolicy> {
            Some(RetryPolicy::fixed(6, WAIT))
        }
    }
    let runs = Runs::default();
    let worker = Running::start(
        Worker::<Set>::builder(world.backend.clone())
            .handler(failing::<QueueSays>(&runs))
            .handler(failing::<NobodySays>(&runs))
            .handler(failing::<JobSays>(&runs))
            .handler(failing::<QueueOverride>(&runs))
            .handler(failing::<QueueOverrideBeatsJob>(&runs))
            .handler(failing::<JobOverride>(&runs))
            .handler(Own(runs.clone()))
            .retry_override(Set::Overridden, RetryPolicy::fixed(4, WAIT))
            .job_retry_override::<JobOverride>(RetryPolicy::fixed(5, WAIT))
            .job_retry_override::<HandlerSays>(RetryPolicy::fixed(5, WAIT)),
    )
    .await;
    let producer = producer::<Set>(&world).await;
    producer.enqueue(&QueueSays).await.unwrap();
    producer.enqueue(&NobodySays).await.unwrap();
    producer.enqueue(&JobSays).await.unwrap();
    producer.enqueue(&QueueOverride).await.unwrap();
    producer.enqueue(&QueueOverrideBeatsJob).await.unwrap();
    producer.enqueue(&JobOverride).await.unwrap();
    producer.enqueue(&HandlerSays).await.unwrap();
    worker.until_ended(7).await;
    let expected = [
        (NobodySays::NAME, 1),
        (QueueSays::NAME, 2),
        (JobSays::NAME, 3),
        (QueueOverride::NAME, 4),
        (QueueOverrideBeatsJob::NAME, 4),
        (JobOverride::NAME, 5),
        (HandlerSays::NAME, 6),
    ];
    for (job, max) in expected {
        let own: Vec<_> =
            noted(&runs).into_iter().filter(|run| run.0 == job).map(|run| (run.1, run.2, run.3)).collect();
        let wanted: Vec<_> = (1..=max).map(|attempt| (max, attempt, attempt == max)).collect();
        assert_eq!(own, wanted, "{job}");
    }
    worker.stop().await;
}

pub(crate) async fn a_job_past_its_age_is_given_up_on(world: World) {
    queue_set!(Set {
        Work: |queue| queue.retry(RetryPolicy::fixed(9, WAIT).give_up_after(Duration::from_secs(4)))
    });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Old;
    let runs: Log<u32> = Log::default();
    let handler = FnHandler::<Old, _>::with(runs.clone(), async |runs: Log<_>, _job, ctx: JobContext| {
        note(&runs, ctx.attempt);
        Err(JobError::retryable_msg("again"))
    });
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    // Age counts from when it was due, so the wait before the first run does not make it old.
    producer::<Set>(&world).await.enqueue_after(&Old, Duration::from_secs(6)).await.unwrap();
    worker.until_ended(1).await;
    let runs = noted(&runs).len();
    let expected = if world.slack.is_zero() { 4..=5 } else { 1..=5 };
    assert!(expected.contains(&runs), "{runs}");
    let reason = dead_reasons(&world, Set::Work).await.remove(0);
    assert!(reason.starts_with("too old to be tried again ("), "{reason}");
    worker.stop().await;
}

pub(crate) async fn a_job_that_defers_itself_too_often_is_given_up_on(world: World) {
    queue_set!(Set { Work: |queue| queue.max_deferrals(2) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct QueueSays;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, max_deferrals = 1)]
    struct JobSays;
    let runs: Log<&'static str> = Log::default();
    async fn defer(runs: Log<&'static str>, ctx: JobContext) -> JobResult {
        note(&runs, ctx.job_type);
        Err(JobError::deferred_msg(Duration::ZERO, "not yet"))
    }
    let worker = Running::start(
        Worker::<Set>::builder(world.backend.clone())
            .handler(FnHandler::<QueueSays, _>::with(runs.clone(), async |runs, _job, ctx| {
                defer(runs, ctx).await
            }))
            .handler(FnHandler::<JobSays, _>::with(runs.clone(), async |runs, _job, ctx| {
                defer(runs, ctx).await
            })),
    )
    .await;
    let producer = producer::<Set>(&world).await;
    // What a producer defers is no deferral of the job's own.
    producer.defer(&QueueSays, WAIT).await.unwrap();
    producer.enqueue(&JobSays).await.unwrap();
    worker.until_ended(2).await;
    let runs = noted(&runs);
    assert_eq!(runs.iter().filter(|job| **job == QueueSays::NAME).count(), 3);
    assert_eq!(runs.iter().filter(|job| **job == JobSays::NAME).count(), 2);
    let mut reasons = dead_reasons(&world, Set::Work).await;
    reasons.sort_unstable();
    assert_eq!(reasons, ["max deferrals (1) exhausted: not yet", "max deferrals (2) exhausted: not yet"]);
    worker.stop().await;
}
