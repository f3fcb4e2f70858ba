use super::*;
use queuey::testing::drain;

/// `drain`: "Runs a worker until its queues are idle".
#[tokio::test(start_paused = true)]
async fn drain_looks_at_the_queues_of_the_worker_only() {
    queue_set!(Set { Work, Other });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Other)]
    struct Next;
    let backend = Arc::new(MemoryBackend::new());
    let p = Producer::<Set>::new(backend.clone()).await.unwrap();
    p.enqueue(&Task).await.unwrap();
    p.enqueue(&Next).await.unwrap();
    let worker = Worker::<Set>::builder(backend.clone())
        .queues(&[Set::Work])
        .handler(FnHandler::<Task, _>::new(async |_, _| Ok(())))
        .build()
        .await
        .unwrap();
    assert_eq!(drain(&backend, worker).await.unwrap().succeeded, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_on_threads_ends_only_when_all_is_done() {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let begin = std::time::Instant::now();
    let mut short = 0;
    let mut rounds = 0;
    while begin.elapsed() < Duration::from_secs(20) {
        rounds += 1;
        let backend = Arc::new(MemoryBackend::new());
        let p = Producer::<Set>::new(backend.clone()).await.unwrap();
        for _ in 0..1 {
            p.enqueue(&Task).await.unwrap();
        }
        let q = Set::Work.name();
        let worker = Worker::<Set>::builder(backend.clone())
            .handler(FnHandler::<Task, _>::with(p.clone(), async |p: Producer<Set>, _, ctx: JobContext| {
                // a chain of 400 jobs, one after the other
                let n: u32 = ctx.metadata.get("n").map_or(0, |n| n.parse().unwrap());
                if n < 400 {
                    p.enqueue_with(&Task, EnqueueOptions::now().metadata("n", (n + 1).to_string())).await?;
                }
                Ok(())
            }))
            .build()
            .await
            .unwrap();
        let stats = drain(&backend, worker).await.unwrap();
        if stats.succeeded != 401 {
            short += 1;
            println!("round {rounds}: {} of 401, {} pending", stats.succeeded, backend.pending(q).len());
        }
    }
    assert_eq!(short, 0, "of {rounds}");
}

/// A handler enqueues to a queue that `drain` has looked at already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_on_threads_over_two_queues() {
    queue_set!(Set { Alpha, Beta });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Alpha)]
    struct A;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Beta)]
    struct B;
    let begin = std::time::Instant::now();
    let (mut short, mut rounds) = (0, 0);
    while begin.elapsed() < Duration::from_secs(20) {
        rounds += 1;
        let backend = Arc::new(MemoryBackend::new());
        let p = Producer::<Set>::new(backend.clone()).await.unwrap();
        p.enqueue(&A).await.unwrap();
        let worker = Worker::<Set>::builder(backend.clone())
            .handler(FnHandler::<A, _>::with(p.clone(), async |p: Producer<Set>, _, ctx: JobContext| {
                let n: u32 = ctx.metadata.get("n").map_or(0, |n| n.parse().unwrap());
                p.enqueue_with(&B, EnqueueOptions::now().metadata("n", (n + 1).to_string())).await?;
                Ok(())
            }))
            .handler(FnHandler::<B, _>::with(p.clone(), async |p: Producer<Set>, _, ctx: JobContext| {
                let n: u32 = ctx.metadata.get("n").map_or(0, |n| n.parse().unwrap());
                if n < 400 {
                    p.enqueue_with(&A, EnqueueOptions::now().metadata("n", (n + 1).to_string())).await?;
                }
                Ok(())
            }))
            .build()
            .await
            .unwrap();
        let stats = drain(&backend, worker).await.unwrap();
        if stats.succeeded < 401 {
            short += 1;
        }
    }
    assert_eq!(short, 0, "of {rounds}");
}

/// docs/testing.md: "until nothing is ready, held or in hand"
#[tokio::test(start_paused = true)]
async fn drain_waits_for_messages_that_are_no_jobs() {
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let backend = Arc::new(MemoryBackend::new());
    let _p = Producer::<Set>::new(backend.clone()).await.unwrap();
    for _ in 0..30 {
        backend.publish_bytes(Set::Work.name(), *b"{").unwrap();
    }
    let worker = Worker::<Set>::builder(backend.clone())
        .handler(FnHandler::<Task, _>::new(async |_, _| Ok(())))
        .build()
        .await
        .unwrap();
    assert_eq!(drain(&backend, worker).await.unwrap().malformed, 30);
}
