use super::*;

queue_set!(Set { Work: |queue| queue.prefetch(4) });
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
struct Task;

async fn enqueue(backend: &Odd, n: usize) {
    let p = Producer::<Set>::new(Arc::new(backend.inner.clone())).await.unwrap();
    for _ in 0..n {
        p.enqueue(&Task).await.unwrap();
    }
}

/// A job that hands itself back is not given up on because its copy is refused just now.
#[tokio::test(start_paused = true)]
async fn a_requeue_whose_copy_is_refused_is_no_dead_letter() {
    let backend = Odd::new(|inner, settlement| match settlement {
        Settlement::Redeliver { .. } => {
            Box::pin(async move { Err(SettleError { error: refused(), delivery: Some(inner) }) })
        }
        other => inner.settle(other),
    });
    enqueue(&backend, 1).await;
    let worker =
        Running::start(Worker::<Set>::builder(Arc::new(backend.clone())).handler(FnHandler::<Task, _>::new(
            async |_, ctx: JobContext| {
                ctx.cancelled().await;
                Err(JobError::requeue())
            },
        )))
        .await;
    until("runs", || worker.stats().in_flight == 1).await;
    let _report = worker.stop().await;
    let dead = backend.inner.dead_letters(Set::Work.name());
    assert!(dead.is_empty() && backend.inner.pending(Set::Work.name()).len() == 1, "{dead:?}");
}

/// A retryable failure in a shutdown: the same.
#[tokio::test(start_paused = true)]
async fn a_failure_in_a_shutdown_whose_copy_is_refused_is_no_dead_letter() {
    let backend = Odd::new(|inner, settlement| match settlement {
        Settlement::Redeliver { .. } => {
            Box::pin(async move { Err(SettleError { error: refused(), delivery: Some(inner) }) })
        }
        other => inner.settle(other),
    });
    enqueue(&backend, 1).await;
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .retry_override(Set::Work, RetryPolicy::fixed(5, Duration::from_secs(1)))
            .handler(FnHandler::<Task, _>::new(async |_, ctx: JobContext| {
                ctx.cancelled().await;
                Err(JobError::retryable_msg("connection closed by the shutdown"))
            })),
    )
    .await;
    until("runs", || worker.stats().in_flight == 1).await;
    worker.stop().await;
    let dead = backend.inner.dead_letters(Set::Work.name());
    assert!(dead.is_empty(), "attempt {} of 5: {dead:?}", dead[0].0.attempt);
}

/// `lost()` at once: the worker leaves the thread to others.
#[test]
fn lost_at_once_does_not_hog_the_thread() {
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let backend = Odd { lost: Arc::new(|| Box::pin(async {})), ..Odd::plain() };
            enqueue(&backend, 1).await;
            let worker = Running::start(
                Worker::<Set>::builder(Arc::new(backend.clone()))
                    .shutdown_timeout(Duration::from_millis(100))
                    .handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))),
            )
            .await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            worker.stop().await;
            done.send(()).unwrap();
        });
    });
    assert!(
        finished.recv_timeout(Duration::from_secs(5)).is_ok(),
        "no timer fired and no shutdown came for 5 s"
    );
}

/// A job whose enqueue returned Ok is there.
#[tokio::test(start_paused = true)]
async fn a_backend_that_gives_too_few_results_makes_no_success_of_them() {
    let backend = Odd { short_results: true, ..Odd::plain() };
    let p = Producer::<Set, Odd>::new(Arc::new(backend.clone())).await.unwrap();
    let results = p.enqueue_many(&[Task, Task]).await;
    let there = backend.inner.pending(Set::Work.name()).len();
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), there);
}

/// S03: within the limit + 1 s.
#[tokio::test(start_paused = true)]
async fn a_broker_that_answers_nothing_holds_a_shutdown_up_for_a_second_at_most() {
    let backend = Odd { hangs: true, ..Odd::new(|_, _| Box::pin(std::future::pending())) };
    enqueue(&backend, 1).await;
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .shutdown_timeout(Duration::from_secs(3))
            .close_backend_on_shutdown(true)
            .handler(FnHandler::<Task, _>::new(async |_, _| std::future::pending().await)),
    )
    .await;
    until("runs", || worker.stats().in_flight == 1).await;
    let start = Instant::now();
    worker.stop().await;
    let took = start.elapsed();
    assert!(took <= Duration::from_millis(4000), "{took:?}");
}

/// A copy that is never confirmed: the slot is held, but nothing else stops.
#[tokio::test(start_paused = true)]
async fn malformed_for_ever_does_not_hog() {
    // memory: thousands of foreign messages and a slow hook; ordinary jobs still run and a shutdown ends it
    let backend = MemoryBackend::new();
    let p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    for _ in 0..2000 {
        backend.publish_bytes(Set::Work.name(), *b"{").unwrap();
    }
    p.enqueue(&Task).await.unwrap();
    let worker =
        Running::start(
            Worker::<Set>::builder(Arc::new(backend.clone()))
                .handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))),
        )
        .await;
    worker.until_ended(1).await;
    assert_eq!(worker.stats().malformed, 2000);
    worker.stop().await;
}

/// docs/shutdown.md: a second signal is "now"; here it comes while the broker does not answer the flush of an idle worker.
#[tokio::test]
async fn a_second_signal_stops_at_once_in_the_flush_too() {
    fn terminate_self() {
        let id = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    }
    let backend = Odd { hangs: true, ..Odd::plain() };
    let p = Producer::<Set>::new(Arc::new(backend.inner.clone())).await.unwrap();
    let worker = Worker::<Set>::builder(Arc::new(backend.clone()))
        .shutdown_timeout(Duration::from_secs(8))
        .handler(FnHandler::<Task, _>::new(async |_, _| Ok(())))
        .build()
        .await
        .unwrap();
    let (handle, running) = (worker.handle(), tokio::spawn(worker.run_until_signal()));
    p.enqueue(&Task).await.unwrap();
    until("it runs", || handle.stats().succeeded == 1).await;
    terminate_self();
    until("the drain has begun", || handle.is_shutdown()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    terminate_self();
    let second = std::time::Instant::now();
    running.await.unwrap().unwrap();
    assert!(
        second.elapsed() < Duration::from_secs(2),
        "stopped {:?} after the second signal",
        second.elapsed()
    );
}

/// A closed settle that never resolves holds its own place and nothing else.
#[tokio::test(start_paused = true)]
async fn a_settle_that_never_resolves_holds_one_place() {
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let backend =
        Odd::new(move |inner, settlement| match first.swap(false, std::sync::atomic::Ordering::SeqCst) {
            true => Box::pin(async move {
                let _inner = inner;
                std::future::pending().await
            }),
            false => inner.settle(settlement),
        });
    enqueue(&backend, 20).await;
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .concurrency(1)
            .shutdown_timeout(Duration::from_secs(3))
            .handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))),
    )
    .await;
    worker.until_ended(19).await;
    let report = worker.stop().await;
    assert_eq!(report.aborted.len(), 1);
    assert_eq!(backend.inner.pending(Set::Work.name()).len(), 1);
}

/// A lost delivery that waits behind a job of its own limited handler.
#[tokio::test(start_paused = true)]
async fn a_redelivery_that_is_copied_when_the_stop_comes_is_not_reported_as_finished() {
    let begun: Log<()> = Log::default();
    let b = begun.clone();
    let backend = Odd::new(move |inner, settlement| match settlement {
        Settlement::Redeliver { .. } => {
            note(&b, ());
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(500)).await;
                inner.settle(settlement).await
            })
        }
        other => inner.settle(other),
    });
    enqueue(&backend, 1).await;
    drop(backend.inner.consume(&Set::Work.config()).await.unwrap().next().await);
    let worker =
        Running::start(
            Worker::<Set>::builder(Arc::new(backend.clone()))
                .handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))),
        )
        .await;
    until("it is copied", || !noted(&begun).is_empty()).await;
    let report = worker.stop().await;
    assert_eq!(backend.inner.pending(Set::Work.name()).len(), 1);
    assert_eq!(report.finished, 0, "nothing came to its end: {report:?}");
}

/// "(2) deliveries not yet started go back at once"
#[tokio::test(start_paused = true)]
async fn a_job_whose_copy_fails_during_a_shutdown_is_not_started() {
    let begun: Log<()> = Log::default();
    let b = begun.clone();
    let backend = Odd::new(move |inner, settlement| match settlement {
        Settlement::Redeliver { .. } => {
            note(&b, ());
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(500)).await;
                Err(SettleError { error: refused(), delivery: Some(inner) })
            })
        }
        other => inner.settle(other),
    });
    enqueue(&backend, 1).await;
    drop(backend.inner.consume(&Set::Work.config()).await.unwrap().next().await);
    let worker =
        Running::start(
            Worker::<Set>::builder(Arc::new(backend.clone()))
                .handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))),
        )
        .await;
    until("it is copied", || !noted(&begun).is_empty()).await;
    let handle = worker.handle.clone();
    worker.stop().await;
    assert_eq!(handle.stats().started, 0, "started half a second after the shutdown");
}

/// docs/shutdown.md: "a consumer that ends for good: the drain is the same, then `run` gives its error".
#[tokio::test(start_paused = true)]
async fn a_consumer_that_ends_while_the_prefetch_is_full_ends_the_worker() {
    queue_set!(One { Work: |queue| queue.prefetch(1) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = One::Work)]
    struct Endless;
    let backend = MemoryBackend::new();
    Producer::<One>::new(Arc::new(backend.clone())).await.unwrap().enqueue(&Endless).await.unwrap();
    let worker = Running::start(
        Worker::<One>::builder(Arc::new(backend.clone()))
            .shutdown_timeout(Duration::from_secs(3))
            .handler(FnHandler::<Endless, _>::new(async |_, _| std::future::pending().await)),
    )
    .await;
    until("runs", || worker.stats().in_flight == 1).await;
    backend.close().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(3600), worker.join()).await;
    assert!(ended.is_ok(), "still runs an hour after its backend was closed");
}
