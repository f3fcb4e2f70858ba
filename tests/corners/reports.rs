use super::*;

queue_set!(Set { Work });
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
struct Task;

/// `aborted`: "they will run again".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_blocks_a_little_past_the_deadline_is_not_both_acked_and_aborted() {
    let backend = MemoryBackend::new();
    Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap().enqueue(&Task).await.unwrap();
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .shutdown_timeout(Duration::from_millis(100))
            .handler(FnHandler::<Task, _>::new(async |_, _| {
                std::thread::sleep(Duration::from_millis(250));
                Ok(())
            })),
    )
    .await;
    until("runs", || worker.stats().in_flight == 1).await;
    let handle = worker.handle.clone();
    let report = worker.stop().await;
    let acked = backend.acked().len();
    assert_eq!(acked + report.aborted.len(), 1, "acked {acked}, {report:?}, {:?}", handle.stats().total);
}

/// A job that ended with the stop is not reported as aborted, with no time to drain.
#[tokio::test(start_paused = true)]
async fn with_no_time_to_drain_a_finished_job_is_not_reported_as_aborted() {
    for round in 0..40 {
        let backend = MemoryBackend::new();
        Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap().enqueue(&Task).await.unwrap();
        let slot: Arc<Mutex<Option<WorkerHandle>>> = Arc::default();
        let worker = Running::start(
            Worker::<Set>::builder(Arc::new(backend.clone())).shutdown_timeout(Duration::ZERO).handler(
                FnHandler::<Task, _>::with(slot.clone(), async |slot, _, _| {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    slot.lock().unwrap().as_ref().unwrap().shutdown();
                    Ok(())
                }),
            ),
        )
        .await;
        *slot.lock().unwrap() = Some(worker.handle.clone());
        let report = worker.join().await.unwrap();
        let acked = backend.acked().len();
        assert_eq!(acked + report.aborted.len(), 1, "round {round}: acked {acked}, {report:?}");
    }
}

/// docs/worker.md: `requeued` counts what a shutdown cut off.
#[tokio::test(start_paused = true)]
async fn a_job_cut_off_in_its_dead_letter_hook_is_counted_as_requeued() {
    let backend = MemoryBackend::new();
    Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap().enqueue(&Task).await.unwrap();
    let entered: Log<()> = Log::default();
    let e = entered.clone();
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .shutdown_timeout(Duration::from_secs(1))
            .handler(FnHandler::<Task, _>::new(async |_, _| Err(JobError::fatal_msg("x"))))
            .on_dead_letter(FnDeadLetterHook::new(move |_: DeadLetter| {
                note(&e, ());
                std::future::pending()
            })),
    )
    .await;
    until("in the hook", || !noted(&entered).is_empty()).await;
    let handle = worker.handle.clone();
    let report = worker.stop().await;
    assert_eq!(report.aborted.len(), 1);
    assert_eq!(backend.pending(Set::Work.name()).len(), 1);
    assert_eq!(handle.stats().requeued, 1, "{:?}", handle.stats().total);
}

/// Dropping the run gives everything back.
#[tokio::test(start_paused = true)]
async fn dropping_the_run_at_many_moments_loses_nothing() {
    for step in 0..60_u64 {
        let backend = MemoryBackend::new();
        let p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
        for _ in 0..20 {
            p.enqueue(&Task).await.unwrap();
        }
        let worker = Running::start(
            Worker::<Set>::builder(Arc::new(backend.clone()))
                .concurrency(3)
                .retry_override(Set::Work, RetryPolicy::fixed(3, Duration::from_millis(3)))
                .handler(FnHandler::<Task, _>::new(async |_, _ctx: JobContext| {
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..5))).await;
                    if fastrand::bool() { Ok(()) } else { Err(JobError::retryable_msg("x")) }
                })),
        )
        .await;
        tokio::time::sleep(Duration::from_millis(step)).await;
        worker.cut_off().await;
        let n = Set::Work.name();
        let all = backend.succeeded().len()
            + backend.pending(n).len()
            + backend.deferred(n).len()
            + backend.dead_letters(n).len();
        assert_eq!((all, backend.unsettled(n)), (20, 0));
    }
}
