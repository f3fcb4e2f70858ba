use super::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

queue_set!(Set {
    Work: |queue| queue
        .redelivery_limit(40)
        .prefetch(5)
        .retry(RetryPolicy::fixed(50, Duration::from_millis(1))),
    Plain: |queue| queue.max_priority(0).prefetch(3).redelivery_limit(40),
    Quorum: |queue| queue.kind(QueueKind::Quorum).prefetch(4).redelivery_limit(60)
});
macro_rules! job {
    ($name:ident, $queue:ident) => {
        #[derive(Serialize, Deserialize, Job)]
        #[job(queue = Set::$queue)]
        struct $name {
            n: u32,
        }
    };
}
job!(A, Work);
job!(B, Plain);
job!(C, Quorum);

#[derive(Default)]
struct Book {
    ended: Mutex<HashMap<uuid::Uuid, u32>>,
    attempts: Mutex<HashMap<uuid::Uuid, Vec<(u32, u32)>>>,
    c_running: AtomicUsize,
    c_most: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

async fn run(book: Arc<Book>, ctx: JobContext, limited: bool) -> JobResult {
    if limited {
        let now = book.c_running.fetch_add(1, SeqCst) + 1;
        book.c_most.fetch_max(now, SeqCst);
    }
    {
        let mut attempts = book.attempts.lock().unwrap();
        let list = attempts.entry(ctx.job_id).or_default();
        if let Some((attempt, deferrals)) = list.last() {
            // One after the other: nothing runs twice at once, and counters go up by one.
            let ok = ctx.attempt == *attempt || ctx.attempt == attempt + 1;
            if !ok || ctx.deferrals < *deferrals || ctx.deferrals > deferrals + 1 {
                book.wrong.lock().unwrap().push(format!("{list:?} then {} {}", ctx.attempt, ctx.deferrals));
            }
        }
        list.push((ctx.attempt, ctx.deferrals));
    }
    for _ in 0..fastrand::u32(0..4) {
        tokio::task::yield_now().await;
    }
    if fastrand::u32(0..4) == 0 {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..3))).await;
    }
    if limited {
        book.c_running.fetch_sub(1, SeqCst);
    }
    match fastrand::u32(0..10) {
        0 if ctx.queue == Set::Work.name() => Err(JobError::retryable_msg("again")),
        1 => Err(JobError::deferred(Duration::from_millis(1))),
        2 => Err(JobError::requeue()),
        3 if ctx.queue == Set::Work.name() => panic!("again"),
        _ => {
            *book.ended.lock().unwrap().entry(ctx.job_id).or_default() += 1;
            Ok(())
        }
    }
}

/// Graceful stops only, and deliveries that are handed out and dropped unstarted: every job ends exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graceful_stops_and_dropped_deliveries_end_every_job_exactly_once() {
    std::panic::set_hook(Box::new(|info| {
        if !info.to_string().contains("again") {
            eprintln!("{info}");
        }
    }));
    let begin = std::time::Instant::now();
    let mut rounds = 0;
    while begin.elapsed() < Duration::from_secs(60) {
        rounds += 1;
        let backend = MemoryBackend::new();
        let p = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
        let book = Arc::new(Book::default());
        let mut ids = Vec::new();
        for n in 0..40 {
            ids.push(p.enqueue(&A { n }).await.unwrap());
            ids.push(p.enqueue(&B { n }).await.unwrap());
            ids.push(p.enqueue(&C { n }).await.unwrap());
        }
        let mut workers = Vec::new();
        let start = || async {
            let book = book.clone();
            Running::start(
                Worker::<Set>::builder(Arc::new(backend.clone()))
                    .concurrency(fastrand::usize(1..8))
                    .handler(FnHandler::<A, _>::with(book.clone(), async |b, _, ctx| {
                        run(b, ctx, false).await
                    }))
                    .handler(FnHandler::<B, _>::with(book.clone(), async |b, _, ctx| {
                        run(b, ctx, false).await
                    }))
                    .handler(
                        FnHandler::<C, _>::with(book.clone(), async |b, _, ctx| run(b, ctx, true).await)
                            .concurrency(1),
                    ),
            )
            .await
        };
        let round = std::time::Instant::now();
        while book.ended.lock().unwrap().len() < ids.len() {
            assert!(round.elapsed() < Duration::from_secs(50), "hangs: {:?}", backend);
            let calm = round.elapsed() > Duration::from_millis(700);
            match fastrand::u32(0..6) {
                0 | 1 if workers.is_empty() => workers.push(start().await),
                2 if workers.len() == 1 && !calm => {
                    workers.pop().unwrap().stop().await;
                }
                3 if !calm => {
                    let queue = Set::all()[fastrand::usize(0..3)];
                    let mut s = backend.consume(&queue.config()).await.unwrap();
                    if let Ok(Some(Ok(d))) = tokio::time::timeout(Duration::from_millis(1), s.next()).await {
                        drop(d);
                    }
                }
                _ => tokio::time::sleep(Duration::from_millis(fastrand::u64(0..4))).await,
            }
        }
        for w in workers {
            w.stop().await;
        }
        let ended = book.ended.lock().unwrap().clone();
        assert!(ids.iter().all(|id| ended.get(id) == Some(&1)), "{ended:?}");
        assert!(book.c_most.load(SeqCst) <= 1, "limit {}", book.c_most.load(SeqCst));
        assert!(book.wrong.lock().unwrap().is_empty(), "{:?}", book.wrong.lock().unwrap());
        for q in Set::all() {
            let n = q.name();
            assert_eq!(
                (
                    backend.pending(n).len(),
                    backend.deferred(n).len(),
                    backend.unsettled(n),
                    backend.dead_letters(n).len()
                ),
                (0, 0, 0, 0)
            );
        }
    }
    println!("{rounds} rounds");
}
