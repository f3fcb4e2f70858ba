//! Who gets the slots.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use queuey_tests::{Running, queue_set, until};

use super::*;

#[tokio::test(start_paused = true)]
async fn queues_take_turns_however_long_their_backlogs() {
    queue_set!(Set { Long: |queue| queue.prefetch(50), Short: |queue| queue.prefetch(1) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Long)]
    struct Many;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Short)]
    struct Few;
    let order: Log<&'static str> = Log::default();
    async fn run(order: Log<&'static str>, ctx: JobContext) -> JobResult {
        tokio::time::sleep(Duration::from_millis(10)).await;
        note(&order, ctx.job_type);
        Ok(())
    }
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    for _ in 0..100 {
        producer.enqueue(&Many).await.unwrap();
    }
    for _ in 0..5 {
        producer.enqueue(&Few).await.unwrap();
    }
    let builder = Worker::<Set>::builder(backend)
        .handler(FnHandler::<Many, _>::with(order.clone(), async |order, _job, ctx| run(order, ctx).await))
        .handler(FnHandler::<Few, _>::with(order.clone(), async |order, _job, ctx| run(order, ctx).await))
        .concurrency(1);
    let worker = Running::start(builder).await;
    worker.until_ended(105).await;
    let last = noted(&order).iter().rposition(|job| *job == Few::NAME).unwrap();
    assert!(last <= 15, "the short queue waited: {last}");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handlers_own_limit_is_kept_and_holds_up_nobody_else() {
    queue_set!(Set { Work: |queue| queue.prefetch(40) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Limited;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Free;
    #[derive(Clone, Default)]
    struct Seen {
        running: Arc<AtomicU32>,
        most: Arc<AtomicU32>,
        order: Log<&'static str>,
    }
    let seen = Seen::default();
    let limited = FnHandler::<Limited, _>::with(seen.clone(), async |seen: Seen, _job, ctx: JobContext| {
        seen.most.fetch_max(seen.running.fetch_add(1, SeqCst) + 1, SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        seen.running.fetch_sub(1, SeqCst);
        note(&seen.order, ctx.job_type);
        Ok(())
    });
    let free = FnHandler::<Free, _>::with(seen.clone(), async |seen: Seen, _job, ctx: JobContext| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        note(&seen.order, ctx.job_type);
        Ok(())
    });
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    for _ in 0..20 {
        producer.enqueue(&Limited).await.unwrap();
    }
    for _ in 0..20 {
        producer.enqueue(&Free).await.unwrap();
    }
    let builder =
        Worker::<Set>::builder(backend).handler(limited.concurrency(2)).handler(free).concurrency(10);
    let worker = Running::start(builder).await;
    worker.until_ended(40).await;
    assert_eq!(seen.most.load(SeqCst), 2);
    let order = noted(&seen.order);
    let last_free = order.iter().rposition(|job| *job == Free::NAME).unwrap();
    assert!(last_free <= 28, "the free ones had eight slots for themselves: {last_free}");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_more_jobs_run_at_once_than_the_concurrency_says() {
    queue_set!(Set { One: |queue| queue.prefetch(20), Two: |queue| queue.prefetch(20) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::One)]
    struct First;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Two)]
    struct Second;
    let counts = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    async fn run((running, most): (Arc<AtomicU32>, Arc<AtomicU32>)) -> JobResult {
        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        running.fetch_sub(1, SeqCst);
        Ok(())
    }
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    for _ in 0..30 {
        producer.enqueue(&First).await.unwrap();
        producer.enqueue(&Second).await.unwrap();
    }
    let builder = Worker::<Set>::builder(backend)
        .handler(FnHandler::<First, _>::with(counts.clone(), async |counts, _job, _ctx| run(counts).await))
        .handler(FnHandler::<Second, _>::with(counts.clone(), async |counts, _job, _ctx| run(counts).await));
    let worker = Running::start(builder.concurrency(7)).await;
    worker.until_ended(60).await;
    assert_eq!(counts.1.load(SeqCst), 7);
    let stats = worker.stats();
    for queue in [Set::One, Set::Two] {
        assert_eq!((stats.queues[queue.name()].started, stats.queues[queue.name()].succeeded), (30, 30));
    }
    until("nothing runs", || worker.stats().in_flight == 0).await;
    worker.stop().await;
}
