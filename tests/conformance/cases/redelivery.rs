//! Deliveries that come back unsettled: counted on the message, isolated, and ended at their limit.

use super::*;
use futures_util::StreamExt;
use queuey::Settlement;

/// Hands the next delivery of a queue out and takes it back unsettled, as a worker does that crashes with it. Gives
/// `(envelope's redeliveries, flagged by the broker)`.
async fn crash_with_it(world: &World, queue: &QueueConfig) -> (u32, bool) {
    let mut stream = world.backend.consume(queue).await.unwrap();
    let delivery = stream.next().await.unwrap().unwrap();
    (delivery.envelope().redeliveries, delivery.redelivered())
}

pub(crate) async fn a_redelivery_is_counted_on_the_message_before_it_runs(world: World) {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let runs: Log<(u32, u32)> = Log::default();
    let handler = FnHandler::<Task, _>::with(runs.clone(), async |runs: Log<_>, _job, ctx: JobContext| {
        note(&runs, (ctx.redeliveries, ctx.attempt));
        Ok(())
    });
    producer::<Set>(&world).await.enqueue(&Task).await.unwrap();
    assert_eq!(crash_with_it(&world, &Set::Work.config()).await, (0, false));
    assert_eq!(crash_with_it(&world, &Set::Work.config()).await, (0, true));
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    worker.until_ended(1).await;
    assert_eq!(noted(&runs), [(1, 1)], "it runs once, as its copy");
    worker.stop().await;
}

pub(crate) async fn a_job_that_kills_its_workers_is_given_up_on_at_its_limit(world: World) {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Killer;
    // The worker is cut off in the middle of each run: nothing it held was settled.
    let runs: Log<u32> = Log::default();
    let producer = producer::<Set>(&world).await;
    producer.enqueue(&Killer).await.unwrap();
    for crash in 1.. {
        let handler =
            FnHandler::<Killer, _>::with(runs.clone(), async |runs: Log<_>, _job, ctx: JobContext| {
                note(&runs, ctx.redeliveries);
                std::future::pending().await
            });
        let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
        until("it runs again, or ended", || noted(&runs).len() == crash || worker.ended() == 1).await;
        if worker.ended() == 1 {
            worker.stop().await;
            break;
        }
        worker.cut_off().await;
    }
    assert_eq!(noted(&runs), [0, 1, 2, 3, 4]);
    assert_eq!(dead_reasons(&world, Set::Work).await, ["delivered 5 times without being settled"]);
}

pub(crate) async fn a_limit_of_zero_makes_no_copies(world: World) {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(0) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let runs: Log<u32> = Log::default();
    let handler = FnHandler::<Task, _>::with(runs.clone(), async |runs: Log<_>, _job, ctx: JobContext| {
        note(&runs, ctx.redeliveries);
        Ok(())
    });
    producer::<Set>(&world).await.enqueue(&Task).await.unwrap();
    for _ in 0..30 {
        crash_with_it(&world, &Set::Work.config()).await;
    }
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    worker.until_ended(1).await;
    assert_eq!(noted(&runs), [0]);
    worker.stop().await;
}

pub(crate) async fn from_half_its_limit_on_a_job_runs_alone(world: World) {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(4) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        suspect: bool,
    }
    /// Who runs at this moment, and what was seen of it.
    #[derive(Clone, Default)]
    struct Seen {
        running: Arc<std::sync::atomic::AtomicU32>,
        beside_the_suspect: Log<u32>,
    }
    use std::sync::atomic::Ordering::SeqCst;
    let seen = Seen::default();
    let handler = FnHandler::<Task, _>::with(seen.clone(), async |seen: Seen, job, _ctx| {
        let others = seen.running.fetch_add(1, SeqCst);
        if job.suspect {
            note(&seen.beside_the_suspect, others);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        if job.suspect {
            note(&seen.beside_the_suspect, seen.running.load(SeqCst) - 1);
        }
        seen.running.fetch_sub(1, SeqCst);
        Ok(())
    });
    let producer = producer::<Set>(&world).await;
    producer.enqueue(&Task { suspect: true }).await.unwrap();
    let config = Set::Work.config();
    for _ in 0..2 {
        // Twice counted, as two crashes would have it.
        let mut stream = world.backend.consume(&config).await.unwrap();
        let delivery = stream.next().await.unwrap().unwrap();
        let next = delivery.envelope().redelivered();
        delivery.settle(Settlement::Redeliver { next }).await.unwrap();
    }
    for _ in 0..20 {
        producer.enqueue(&Task { suspect: false }).await.unwrap();
    }
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    worker.until_ended(21).await;
    assert_eq!(noted(&seen.beside_the_suspect), [0, 0]);
    worker.stop().await;
}

pub(crate) async fn an_isolation_that_cannot_be_had_ends_in_a_run_without_it(world: World) {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(1) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        endless: bool,
    }
    let handler = FnHandler::<Task, _>::new(async |job, ctx: JobContext| {
        if job.endless {
            ctx.cancelled().await;
        }
        Ok(())
    });
    let producer = producer::<Set>(&world).await;
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    producer.enqueue(&Task { endless: true }).await.unwrap();
    until("it runs", || worker.stats().in_flight == 1).await;
    let mut suspect = queuey::Envelope::new(&Task { endless: false }).unwrap();
    suspect.redeliveries = 1;
    let start = tokio::time::Instant::now();
    world.backend.publish(&suspect, None).await.unwrap();
    // It waits a minute for its neighbour, which does not end, and then runs beside it.
    let deadline = start + Duration::from_secs(90);
    while worker.stats().succeeded == 0 {
        assert!(tokio::time::Instant::now() < deadline, "it never ran");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(60));
    assert_eq!(worker.stop().await.finished, 1);
}

pub(crate) async fn a_job_that_hands_itself_back_keeps_all_its_counters(world: World) {
    queue_set!(Set { Work: |queue| queue.retry(RetryPolicy::fixed(3, Duration::from_secs(1))) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let runs: Log<(u32, u32, u32, u8)> = Log::default();
    let handler = FnHandler::<Task, _>::with(runs.clone(), async |runs: Log<_>, _job, ctx: JobContext| {
        note(&runs, (ctx.attempt, ctx.deferrals, ctx.redeliveries, ctx.priority));
        if noted(&runs).len() < 3 { Err(JobError::requeue()) } else { Ok(()) }
    });
    let producer = producer::<Set>(&world).await;
    producer.enqueue_with(&Task, EnqueueOptions::now().priority(4)).await.unwrap();
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    worker.until_ended(1).await;
    assert_eq!(noted(&runs), [(1, 0, 0, 4); 3]);
    // A copy may run to its end before the settlement of its original has.
    until("both hand-backs are counted", || worker.stats().requeued == 2).await;
    worker.stop().await;
}

pub(crate) async fn what_can_never_be_published_becomes_a_dead_letter(world: World) {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Patient;
    let handler =
        FnHandler::<Patient, _>::new(async |_, _| Err(JobError::deferred(Duration::from_secs(30 * 86_400))));
    producer::<Set>(&world).await.enqueue(&Patient).await.unwrap();
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    worker.until_ended(1).await;
    assert_eq!(worker.stats().dead["undeliverable"], 1);
    let reason = dead_reasons(&world, Set::Work).await.remove(0);
    assert!(reason.contains("delay of 30d is longer than a hold queue can wait"), "{reason}");
    worker.stop().await;
}
