use super::*;

/// Gives a delivery to nobody `times` times, so that the job on `queue` has that many redeliveries in the envelope.
fn suspect<J: Job>(job: &J, redeliveries: u32) -> Envelope {
    let mut envelope = Envelope::new(job).unwrap();
    envelope.redeliveries = redeliveries;
    envelope
}

async fn hand_out_and_drop(backend: &MemoryBackend, config: &QueueConfig, count: usize) {
    let mut stream = backend.consume(config).await.unwrap();
    let mut hands = Vec::new();
    for _ in 0..count {
        hands.push(stream.next().await.unwrap().unwrap());
    }
    drop(hands);
}

/// As on a broker: the copy is confirmed and handed out while the original is still being acknowledged.
#[tokio::test(start_paused = true)]
async fn the_copy_that_comes_before_its_redelivery_is_acked_does_not_stop_the_worker_for_five_seconds() {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    let backend = Odd::new(|inner, settlement| {
        Box::pin(async move {
            match settlement {
                Settlement::Redeliver { .. } => {
                    let settled = inner.settle(settlement).await;
                    tokio::time::sleep(Duration::from_millis(2)).await; // the ack is flushed
                    settled
                }
                other => inner.settle(other).await,
            }
        })
    });
    let producer = Producer::<Set>::new(Arc::new(backend.inner.clone())).await.unwrap();
    backend.publish(&suspect(&Task { n: 0 }, 2), None).await.unwrap();
    hand_out_and_drop(&backend.inner, &Set::Work.config(), 1).await;
    for n in 1..5 {
        producer.enqueue(&Task { n }).await.unwrap();
    }
    let log: Log<(u32, Duration)> = Log::default();
    let start = Instant::now();
    let worker = Running::start(Worker::<Set>::builder(Arc::new(backend.clone())).handler(FnHandler::<
        Task,
        _,
    >::with(
        (log.clone(), start),
        async |(log, start): (Log<(u32, Duration)>, Instant), job: Task, _| {
            note(&log, (job.n, start.elapsed()));
            Ok(())
        },
    )))
    .await;
    worker.until_ended(5).await;
    worker.stop().await;
    let log = noted(&log);
    assert!(log.iter().all(|(_, at)| *at < Duration::from_secs(1)), "{log:?}");
}

/// The same without help, on threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_race_in_memory_on_threads() {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    let mut slow = 0;
    let begin = std::time::Instant::now();
    for round in 0..300 {
        if begin.elapsed() > Duration::from_secs(40) {
            break;
        }
        let backend = MemoryBackend::new();
        let _producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
        backend.publish(&suspect(&Task { n: 0 }, 2), None).await.unwrap();
        hand_out_and_drop(&backend, &Set::Work.config(), 1).await;
        let start = std::time::Instant::now();
        let worker =
            Running::start(
                Worker::<Set>::builder(Arc::new(backend.clone()))
                    .handler(FnHandler::<Task, _>::new(async |_, _| Ok(()))),
            )
            .await;
        worker.until_ended(1).await;
        if start.elapsed() > Duration::from_secs(4) {
            slow += 1;
            println!("round {round}: {:?}", start.elapsed());
        }
        worker.stop().await;
    }
    assert_eq!(slow, 0);
}

/// "a handler's own limit is taken before a shared slot"
#[tokio::test(start_paused = true)]
async fn a_handlers_own_limit_holds_for_suspects_too() {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    let backend = MemoryBackend::new();
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    let most: Log<usize> = Log::default();
    let now = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let state = (most.clone(), now.clone());
    producer.enqueue(&Task { n: 0 }).await.unwrap();
    let handler = FnHandler::<Task, _>::with(
        state,
        async |(most, now): (Log<usize>, Arc<std::sync::atomic::AtomicUsize>), _job: Task, _| {
            note(&most, now.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1);
            tokio::time::sleep(Duration::from_secs(600)).await;
            now.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            Ok(())
        },
    )
    .concurrency(1);
    let worker = Running::start(Worker::<Set>::builder(Arc::new(backend.clone())).handler(handler)).await;
    until("runs", || worker.stats().in_flight == 1).await;
    backend.publish(&suspect(&Task { n: 1 }, 3), None).await.unwrap();
    worker.until_ended(2).await;
    worker.stop().await;
    assert_eq!(noted(&most).into_iter().max(), Some(1));
}

/// "a wait of more than a minute for it ends in a run without it"
#[tokio::test(start_paused = true)]
async fn a_suspect_redelivery_waits_a_minute_and_not_two() {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    let backend = MemoryBackend::new();
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    backend.publish(&suspect(&Task { n: 1 }, 2), None).await.unwrap();
    hand_out_and_drop(&backend, &Set::Work.config(), 1).await;
    let mut elsewhere = backend.consume(&Set::Work.config()).await.unwrap();
    let held = elsewhere.next().await.unwrap().unwrap();
    drop(elsewhere);
    producer.enqueue(&Task { n: 0 }).await.unwrap();
    let log: Log<(u32, Instant)> = Log::default();
    let worker =
        Running::start(Worker::<Set>::builder(Arc::new(backend.clone())).handler(
            FnHandler::<Task, _>::with(log.clone(), async |log, job: Task, _| {
                note(&log, (job.n, Instant::now()));
                if job.n == 0 {
                    tokio::time::sleep(Duration::from_secs(3600)).await;
                }
                Ok(())
            }),
        ))
        .await;
    until("runs", || worker.stats().in_flight == 1).await;
    let start = Instant::now();
    drop(held); // the suspect comes
    tokio::time::sleep(Duration::from_secs(1)).await;
    producer.enqueue(&Task { n: 2 }).await.unwrap(); // an innocent one behind it
    until("both", || noted(&log).len() == 3).await;
    let waits: Vec<_> = noted(&log).iter().map(|(n, at)| (*n, at.duration_since(start))).collect();
    println!("{waits:?}");
    assert!(waits[1..].iter().all(|(_, at)| *at < Duration::from_secs(65)), "{waits:?}");
    worker.cut_off().await;
}

/// Ordinary jobs beside suspects and a long job.
#[tokio::test(start_paused = true)]
async fn suspects_do_not_starve_the_ordinary_jobs() {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(4), Other });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Other)]
    struct Innocent;
    let backend = MemoryBackend::new();
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    for n in 1..=8 {
        backend.publish(&suspect(&Task { n }, 2), None).await.unwrap();
    }
    let mut elsewhere = backend.consume(&Set::Work.config()).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(elsewhere.next().await.unwrap().unwrap());
    }
    drop(elsewhere);
    producer.enqueue(&Task { n: 0 }).await.unwrap();
    let log: Log<Instant> = Log::default();
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .handler(FnHandler::<Task, _>::new(async |job: Task, _| {
                if job.n == 0 {
                    tokio::time::sleep(Duration::from_secs(36000)).await;
                }
                Ok(())
            }))
            .handler(FnHandler::<Innocent, _>::with(log.clone(), async |log, _, _| {
                note(&log, Instant::now());
                Ok(())
            })),
    )
    .await;
    until("runs", || worker.stats().in_flight == 1).await;
    let start = Instant::now();
    drop(held);
    tokio::time::sleep(Duration::from_secs(1)).await;
    producer.enqueue(&Innocent).await.unwrap();
    until("innocent ran", || !noted(&log).is_empty()).await;
    let waited = noted(&log)[0] - start;
    worker.cut_off().await;
    assert!(waited < Duration::from_secs(130), "an ordinary job of another queue waited {waited:?}");
}

/// docs/dead-letters.md: the hook "takes no slot of the worker's concurrency while it runs".
#[tokio::test(start_paused = true)]
async fn the_hook_of_a_redelivered_dead_letter_does_not_stop_the_worker() {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(2) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    let backend = MemoryBackend::new();
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    backend.publish(&suspect(&Task { n: 0 }, 9), None).await.unwrap();
    for n in 1..5 {
        producer.enqueue(&Task { n }).await.unwrap();
    }
    let log: Log<Duration> = Log::default();
    let start = Instant::now();
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .handler(FnHandler::<Task, _>::with(
                (log.clone(), start),
                async |(log, start): (Log<Duration>, Instant), _job: Task, _| {
                    note(&log, start.elapsed());
                    Ok(())
                },
            ))
            .on_dead_letter(FnDeadLetterHook::new(async |_: DeadLetter| {
                tokio::time::sleep(Duration::from_secs(25)).await;
            })),
    )
    .await;
    worker.until_ended(5).await;
    worker.stop().await;
    let log = noted(&log);
    assert!(log.iter().all(|at| *at < Duration::from_secs(1)), "{log:?}");
}

/// "A delivery that has waited unstarted for half the acknowledgement limit is handed back"
#[tokio::test(start_paused = true)]
async fn one_that_waits_behind_a_copy_is_handed_back_in_time() {
    queue_set!(Set { Work: |queue| queue.prefetch(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    let backend = MemoryBackend::new();
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    producer.enqueue(&Task { n: 1 }).await.unwrap();
    hand_out_and_drop(&backend, &Set::Work.config(), 1).await; // 1 is a redelivery
    producer.enqueue_with(&Task { n: 0 }, EnqueueOptions::now().priority(9)).await.unwrap();
    for n in 2..4 {
        producer.enqueue(&Task { n }).await.unwrap();
    }
    // All four arrive at 0 min. 0 runs 14 min; 1 is copied then; 2 runs long; 3 waits behind the copy of 1.
    let handler = FnHandler::<Task, _>::new(async |job: Task, _ctx: JobContext| {
        let minutes = if job.n == 0 { 14 } else { 28 };
        tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
        Ok(())
    });
    let start = Instant::now();
    let worker =
        Running::start(Worker::<Set>::builder(Arc::new(backend.clone())).concurrency(1).handler(handler))
            .await;
    until("handed back", || worker.stats().requeued > 0).await;
    let at = start.elapsed();
    worker.cut_off().await;
    assert!(at < Duration::from_secs(15 * 60 + 10), "first hand-back after {at:?}");
}

/// `ctx.redeliveries`: "How often the job was handed out and never settled."
#[tokio::test(start_paused = true)]
async fn a_handler_sees_the_redeliveries_that_a_quorum_queue_counted() {
    queue_set!(Set { Work: |queue| queue.kind(QueueKind::Quorum) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let backend = MemoryBackend::new();
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    producer.enqueue(&Task).await.unwrap();
    for _ in 0..3 {
        hand_out_and_drop(&backend, &Set::Work.config(), 1).await;
    }
    let seen: Log<u32> = Log::default();
    let worker =
        Running::start(Worker::<Set>::builder(Arc::new(backend.clone())).handler(
            FnHandler::<Task, _>::with(seen.clone(), async |seen, _, ctx: JobContext| {
                note(&seen, ctx.redeliveries);
                Ok(())
            }),
        ))
        .await;
    worker.until_ended(1).await;
    worker.stop().await;
    assert_eq!(noted(&seen), [3]);
}

/// A job that never ran is no job that kills its worker: waiting in a prefetch must not make it a dead letter.
#[tokio::test(start_paused = true)]
async fn a_job_that_only_waited_is_not_dead_lettered_unrun() {
    queue_set!(Set { Work: |queue| queue.kind(QueueKind::Quorum).prefetch(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        n: u32,
    }
    let backend = MemoryBackend::new();
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    for n in 0..4 {
        producer.enqueue(&Task { n }).await.unwrap();
    }
    let causes: Log<String> = Log::default();
    let c = causes.clone();
    let worker = Running::start(
        Worker::<Set>::builder(Arc::new(backend.clone()))
            .concurrency(1)
            .on_dead_letter(FnDeadLetterHook::new(move |d: DeadLetter| {
                note(&c, d.reason);
                std::future::ready(())
            }))
            .handler(FnHandler::<Task, _>::new(async |job: Task, _| {
                if job.n == 0 {
                    tokio::time::sleep(Duration::from_secs(8 * 3600)).await; // no timeout, no warning
                }
                Ok(())
            })),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    let dead = backend.dead_letters(Set::Work.name());
    let stats = worker.stats();
    worker.stop().await;
    assert_eq!(dead.len(), 0, "{dead:?} {stats:?} {:?}", noted(&causes));
}

queue_set!(Gone { Work: |queue| queue.redelivery_limit(4), Other });
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Gone::Work)]
struct Suspect {
    n: u32,
}
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Gone::Other)]
struct Innocent {
    long: bool,
}

/// One long job runs; a suspect with `redeliveries` comes, then an innocent job. How long does the innocent one wait?
async fn innocent_waits(redeliveries: u32, lost: bool) -> Duration {
    let token = tokio_util::sync::CancellationToken::new();
    let t = token.clone();
    let backend = Odd { lost: Arc::new(move || Box::pin(t.clone().cancelled_owned())), ..Odd::plain() };
    let producer = Producer::<Gone>::new(Arc::new(backend.inner.clone())).await.unwrap();
    producer.enqueue(&Innocent { long: true }).await.unwrap();
    let log: Log<Instant> = Log::default();
    let worker = Running::start(
        Worker::<Gone>::builder(Arc::new(backend.clone()))
            .handler(FnHandler::<Suspect, _>::new(async |_, _| Ok(())))
            .handler(FnHandler::<Innocent, _>::with(log.clone(), async |log, job: Innocent, _| {
                if job.long {
                    tokio::time::sleep(Duration::from_secs(36000)).await;
                }
                note(&log, Instant::now());
                Ok(())
            })),
    )
    .await;
    until("runs", || worker.stats().in_flight == 1).await;
    backend.publish(&suspect(&Suspect { n: 0 }, redeliveries), None).await.unwrap();
    until("it waits in the worker", || backend.inner.unsettled(Gone::Work.name()) == 1 || worker.ended() > 0)
        .await;
    if lost {
        token.cancel();
        tokio::time::sleep(Duration::from_millis(1)).await;
        // The next ones are of a new connection... the token is shared, so look at the isolation wait only.
        let start = Instant::now();
        until("the lost one is dropped", || {
            backend.inner.unsettled(Gone::Work.name()) == 0 || start.elapsed() > Duration::from_secs(50)
        })
        .await;
        let waited = start.elapsed();
        worker.cut_off().await;
        return waited;
    }
    let start = Instant::now();
    producer.enqueue(&Innocent { long: false }).await.unwrap();
    until("the innocent ran", || !noted(&log).is_empty()).await;
    worker.cut_off().await;
    noted(&log)[0] - start
}

/// What will only become a dead letter needs no isolation.
#[tokio::test(start_paused = true)]
async fn a_delivery_past_its_limit_does_not_stop_the_others_for_a_minute() {
    let waited = innocent_waits(9, false).await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}
