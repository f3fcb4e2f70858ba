use super::*;
use std::{collections::HashMap, fmt};

queue_set!(Set { Work });

#[derive(Serialize, Deserialize, Debug, PartialEq)]
#[serde(tag = "kind")]
enum Tagged {
    Counts { by_id: HashMap<u64, u32> },
}
impl Job for Tagged {
    type Queue = Set;
    const NAME: &'static str = "tagged";
    const QUEUE: Set = Set::Work;
}
use queuey::Job;

/// "`enqueue` refuses a job whose text its own type can't read back"
#[tokio::test(start_paused = true)]
async fn an_internally_tagged_map_with_number_keys_is_refused_or_read_back() {
    let job = Tagged::Counts { by_id: [(7, 1)].into() };
    let backend = Arc::new(MemoryBackend::new());
    let p = Producer::<Set>::new(backend.clone()).await.unwrap();
    let enqueued = p.enqueue(&job).await;
    if enqueued.is_ok() {
        let back = backend.pending(Set::Work.name())[0].decode::<Tagged>();
        assert!(back.is_ok(), "accepted, and then a dead letter: {back:?}");
    }
}

#[derive(Debug)]
struct Chain(&'static [&'static str]);
impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0[0])
    }
}
impl std::error::Error for Chain {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.0.len() {
            1 => None,
            _ => Some(Box::leak(Box::new(Chain(&self.0[1..])))),
        }
    }
}

/// "the whole source chain joined by `: `, each text once"
#[test]
fn a_reason_has_each_text_of_the_chain_once() {
    assert_eq!(JobError::retryable(Chain(&["a", "b", "a"])).reason(), "a: b");
}
#[test]
fn a_reason_has_the_whole_chain() {
    assert_eq!(JobError::retryable(Chain(&["io blackout", "out"])).reason(), "io blackout: out");
}
#[test]
fn a_reason_keeps_a_text_that_ends_like_the_one_before() {
    assert_eq!(JobError::retryable(Chain(&["HTTP 1500", "500"])).reason(), "HTTP 1500: 500");
}

/// "with the contract of a broker ... the same refusals"
#[tokio::test(start_paused = true)]
async fn a_message_too_large_by_its_metadata_is_refused() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "misc-1")]
    struct Task;
    let backend = Arc::new(MemoryBackend::new());
    let p = Producer::<Set>::new(backend.clone()).await.unwrap();
    let big = "x".repeat(17 * 1024 * 1024);
    let r = p.enqueue_with(&Task, EnqueueOptions::now().metadata("k", big)).await;
    assert!(matches!(r, Err(Error::TooLarge { .. })), "{r:?}");
}

/// A shutdown that a handler begins: no job starts after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_starts_after_a_shutdown() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "misc-2")]
    struct Task;
    let mut late = 0;
    for _ in 0..3000 {
        let backend = MemoryBackend::new();
        let p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
        for _ in 0..6 {
            p.enqueue(&Task).await.unwrap();
        }
        let slot: Arc<std::sync::OnceLock<WorkerHandle>> = Arc::default();
        let begun: Log<bool> = Log::default();
        let worker = Worker::<Set>::builder(Arc::new(backend.clone()))
            .concurrency(1)
            .handler(FnHandler::<Task, _>::with(
                (slot.clone(), begun.clone()),
                async |(slot, begun): (Arc<std::sync::OnceLock<WorkerHandle>>, Log<bool>), _, _| {
                    let h = slot.get().unwrap();
                    note(&begun, h.is_shutdown());
                    h.shutdown();
                    Ok(())
                },
            ))
            .build()
            .await
            .unwrap();
        let _ = slot.set(worker.handle());
        tokio::spawn(worker.run()).await.unwrap().unwrap();
        if noted(&begun).len() > 1 {
            late += 1;
        }
    }
    assert_eq!(late, 0, "of 3000");
}

/// D F D F: numbers.
#[tokio::test(start_paused = true)]
async fn attempts_and_deferrals_through_mixes() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "misc-3")]
    struct Task;
    let backend = MemoryBackend::new();
    let p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    p.enqueue(&Task).await.unwrap();
    let seen: Log<(u32, u32, u8, bool)> = Log::default();
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .retry_override(Set::Work, RetryPolicy::exponential(5))
            .handler(FnHandler::<Task, _>::with(seen.clone(), async |seen, _, ctx: JobContext| {
                note(&seen, (ctx.attempt, ctx.deferrals, ctx.priority, ctx.is_last_attempt()));
                match noted(&seen).len() % 2 {
                    1 => Err(JobError::deferred(Duration::ZERO)),
                    _ => Err(JobError::retryable_msg("x")),
                }
            })),
    )
    .await;
    worker.until_ended(1).await;
    worker.stop().await;
    println!("{:?}", noted(&seen));
    assert_eq!(noted(&seen).len(), 10);
    assert_eq!(backend.dead_letters(Set::Work.name()).len(), 1);
}

/// A handler that panics in its future's destructor at a timeout, a layer that never calls next, and so on.
#[tokio::test(start_paused = true)]
async fn nasty_handlers_do_not_stop_the_worker() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "misc-4")]
    struct Task {
        n: u32,
    }
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("in drop");
            }
        }
    }
    #[derive(Debug)]
    struct BadError;
    impl fmt::Display for BadError {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("in display")
        }
    }
    impl std::error::Error for BadError {}
    let backend = MemoryBackend::new();
    let p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    for n in 0..8 {
        p.enqueue(&Task { n }).await.unwrap();
    }
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .job_timeout(Duration::from_secs(1))
            .layer(async |ctx: JobContext, next: Next| {
                if ctx.attempt == 77 {
                    return Ok(());
                }
                next.run(ctx).await
            })
            .handler(FnHandler::<Task, _>::new(async |job: Task, _| match job.n {
                0 => {
                    let _b = Bomb;
                    std::future::pending().await
                }
                1 => {
                    let _b = Bomb;
                    Ok(())
                }
                2 => Err(JobError::retryable(BadError)),
                3 => std::panic::panic_any(Bomb),
                4 => std::panic::panic_any(7_u8),
                5 => {
                    let _b = Bomb;
                    Err(JobError::fatal(BadError))
                }
                6 => {
                    tokio::task::yield_now().await;
                    panic!("late")
                }
                _ => Ok(()),
            })),
    )
    .await;
    worker.until_ended(8).await;
    let stats = worker.stats();
    worker.stop().await;
    println!("{:?}", stats.total);
    for (e, why) in backend.dead_letters(Set::Work.name()) {
        println!("{} {why}", e.payload);
    }
    assert_eq!((stats.succeeded, stats.dead_total()), (1, 7));
}

/// "its own type can't read back"
#[tokio::test]
async fn floats_come_back_as_they_were_sent() {
    #[derive(Serialize, Deserialize, Job, PartialEq, Debug)]
    #[job(queue = Set::Work, name = "misc-5")]
    struct Task {
        x: f64,
    }
    let mut wrong = 0;
    for _ in 0..100_000 {
        let x = fastrand::f64() * 1000.0;
        let job = Task { x };
        let Ok(e) = Envelope::new(&job) else { continue };
        if e.decode::<Task>().unwrap() != job {
            if wrong == 0 {
                println!("{job:?} {} {:?}", e.payload, e.decode::<Task>().unwrap());
            }
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0, "of 100000 random floats");
}

/// A consume that hangs; a shutdown ends it. And a second one from the hook.
#[tokio::test(start_paused = true)]
async fn shutdown_from_the_hook_does_not_hang() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "misc-6")]
    struct Task;
    let backend = MemoryBackend::new();
    let p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    p.enqueue(&Task).await.unwrap();
    let slot: Arc<std::sync::OnceLock<WorkerHandle>> = Arc::default();
    let s = slot.clone();
    let worker = Worker::<Set>::builder(Arc::new(backend.clone()))
        .handler(FnHandler::<Task, _>::new(async |_, _| Err(JobError::fatal_msg("x"))))
        .on_dead_letter(FnDeadLetterHook::new(move |_: DeadLetter| {
            s.get().unwrap().shutdown();
            std::future::ready(())
        }))
        .build()
        .await
        .unwrap();
    let _ = slot.set(worker.handle());
    let report = tokio::time::timeout(Duration::from_secs(1), worker.run()).await.unwrap().unwrap();
    assert_eq!((report.finished, backend.dead_letters(Set::Work.name()).len()), (1, 1));
}

/// `queue_config.check`: policies and limits by hand. An empty job type is no handler.
#[tokio::test(start_paused = true)]
async fn empty_job_type_is_a_dead_letter() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "misc-7")]
    struct Task;
    let backend = MemoryBackend::new();
    let _p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    backend.publish(&Envelope::raw("", Set::Work.name(), Default::default()), None).await.unwrap();
    let worker =
        Running::start(
            Worker::<Set>::builder(Arc::new(backend.clone()))
                .handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))),
        )
        .await;
    worker.until_ended(1).await;
    assert_eq!(worker.stats().dead["no-handler"], 1);
    worker.stop().await;
}

/// docs/jobs-and-queues.md: "keep what is dropped as a dead letter; a quorum queue always does"
#[tokio::test(start_paused = true)]
async fn no_false_warning_of_destroyed_jobs_on_a_quorum_queue() {
    queue_set!(Q { Work: |queue| queue.kind(QueueKind::Quorum).message_ttl(Duration::from_secs(5)) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Q::Work)]
    struct Task;
    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = Captured::default();
    let l = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_writer(move || l.clone()).with_ansi(false).without_time().finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let backend = Arc::new(MemoryBackend::new());
    let worker =
        Worker::<Q>::builder(backend).handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))).build().await;
    assert!(worker.is_ok());
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("destroyed"), "{text}");
}
