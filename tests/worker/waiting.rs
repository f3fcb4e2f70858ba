//! Deliveries that wait for their turn.

use std::time::Duration;

use futures_util::StreamExt;
use queuey_tests::{Running, queue_set, until};
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn what_waits_for_half_the_acknowledgement_limit_is_handed_back() {
    queue_set!(Set {
        Work: |queue| queue.kind(QueueKind::Quorum).ack_timeout(Duration::from_secs(20)).prefetch(3)
    });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    let slow = FnHandler::<Task, _>::new(async |_, ctx: JobContext| {
        ctx.cancelled().await;
        Ok(())
    });
    let first = Running::start(Worker::<Set>::builder(backend.clone()).handler(slow).concurrency(1)).await;
    for _ in 0..3 {
        producer.enqueue(&Task).await.unwrap();
    }
    until("it holds all three", || backend.unsettled(Set::Work.name()) == 3).await;
    let quick: Log<Instant> = Log::default();
    let handler = FnHandler::<Task, _>::with(quick.clone(), async |quick, _job, _ctx| {
        note(&quick, Instant::now());
        Ok(())
    });
    let start = Instant::now();
    let second = Running::start(Worker::<Set>::builder(backend.clone()).handler(handler)).await;
    until("the second one got one", || !noted(&quick).is_empty()).await;
    assert!(noted(&quick)[0] - start >= Duration::from_secs(9));
    assert!(first.stats().requeued >= 2);
    assert_eq!(first.stop().await.finished, 1);
    second.until_ended(2).await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_isolation_ends_with_the_delivery_that_waited() {
    queue_set!(Set {
        Work: |queue| queue
            .kind(QueueKind::Quorum)
            .ack_timeout(Duration::from_secs(20))
            .redelivery_limit(1)
            .message_ttl(Duration::from_secs(5))
    });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task;
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    let slow = FnHandler::<Task, _>::new(async |_, ctx: JobContext| {
        ctx.cancelled().await;
        Ok(())
    });
    let builder = || Worker::<Set>::builder(backend.clone());
    producer.enqueue(&Task).await.unwrap();
    let mut elsewhere = backend.consume(&Set::Work.config()).await.unwrap();
    let suspect = elsewhere.next().await.unwrap().unwrap();
    producer.enqueue(&Task).await.unwrap();
    let worker = Running::start(builder().handler(slow)).await;
    until("the other one runs", || worker.stats().in_flight == 1).await;
    // It comes back once, so it is to run alone; but the other one does not end.
    drop((suspect, elsewhere));
    until("it waits", || backend.unsettled(Set::Work.name()) == 2).await;
    // After ten seconds it is handed back, and has expired by then.
    until("it was handed back", || worker.stats().requeued == 1).await;
    // A worker that went on waiting for an isolation nobody asks for would spin, and this clock would stand still.
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(worker.stop().await.finished, 1);
}
