use super::*;

queue_set!(Set { Work });
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
struct Task;

fn ok() -> impl JobHandler<Job = Task> {
    FnHandler::<Task, _>::new(async |_, _| Ok(()))
}

/// A drain without a limit is what `Duration::MAX` says.
#[tokio::test(start_paused = true)]
async fn shutdown_timeout_of_duration_max() {
    let backend = Arc::new(MemoryBackend::new());
    let worker =
        Running::start(Worker::<Set>::builder(backend.clone()).handler(ok()).shutdown_timeout(Duration::MAX))
            .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    worker.handle.shutdown();
    worker.join().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ack_timeout_of_duration_max() {
    queue_set!(Q { Work: |queue| queue.kind(QueueKind::Quorum).ack_timeout(Duration::MAX) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Q::Work)]
    struct T;
    let backend = Arc::new(MemoryBackend::new());
    Producer::<Q>::new(backend.clone()).await.unwrap().enqueue(&T).await.unwrap();
    let worker = Running::start(
        Worker::<Q>::builder(backend.clone()).handler(FnHandler::<T, _>::new(async |_, _| Ok(()))),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(worker.stats().succeeded, 1);
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn job_timeout_of_duration_max_and_concurrency_max() {
    let backend = Arc::new(MemoryBackend::new());
    Producer::<Set>::new(backend.clone()).await.unwrap().enqueue(&Task).await.unwrap();
    let worker = Running::start(
        Worker::<Set>::builder(backend.clone())
            .handler(ok())
            .job_timeout(Duration::MAX)
            .concurrency(usize::MAX),
    )
    .await;
    worker.until_ended(1).await;
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_far_past_and_future() {
    use std::time::{SystemTime, UNIX_EPOCH};
    let backend = Arc::new(MemoryBackend::new());
    let p = Producer::<Set>::new(backend.clone()).await.unwrap();
    for t in [
        UNIX_EPOCH,
        UNIX_EPOCH - Duration::from_secs(u32::MAX as u64 * 2),
        SystemTime::now() - Duration::from_secs(1),
    ] {
        p.enqueue_with(&Task, EnqueueOptions::at(t)).await.unwrap();
    }
    assert_eq!(backend.pending(Set::Work.name()).len(), 3);
    for t in [
        SystemTime::now() + Duration::from_secs(86400 * 365 * 1000),
        UNIX_EPOCH + Duration::from_secs(i64::MAX as u64),
    ] {
        assert!(matches!(
            p.enqueue_with(&Task, EnqueueOptions::at(t)).await,
            Err(Error::DelayTooLong { .. })
        ));
    }
    for d in [Duration::MAX, queuey::MAX_DELAY + Duration::from_nanos(1)] {
        assert!(p.enqueue_after(&Task, d).await.is_err());
        assert!(p.defer(&Task, d).await.is_err());
    }
    p.enqueue_after(&Task, queuey::MAX_DELAY).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn max_attempts_zero_shows_the_same_number_everywhere() {
    let backend = Arc::new(MemoryBackend::new());
    Producer::<Set>::new(backend.clone()).await.unwrap().enqueue(&Task).await.unwrap();
    let mut policy = RetryPolicy::none();
    policy.max_attempts = 0;
    let seen: Log<u32> = Log::default();
    let (a, b) = (seen.clone(), seen.clone());
    let worker = Running::start(
        Worker::<Set>::builder(backend.clone())
            .handler(FnHandler::<Task, _>::with(a, async |a, _, ctx: JobContext| {
                note(&a, ctx.max_attempts);
                Err(JobError::retryable_msg("x"))
            }))
            .job_retry_override::<Task>(policy)
            .on_dead_letter(FnDeadLetterHook::new(move |dead: DeadLetter| {
                note(&b, dead.max_attempts);
                std::future::ready(())
            })),
    )
    .await;
    worker.until_ended(1).await;
    worker.stop().await;
    assert_eq!(noted(&seen), [1, 1]);
}
