//! O05 and O08: who runs when.

use super::*;

pub(crate) async fn o05_a_returning_deferral_overtakes_all_but_the_prefetched(world: World) {
    // O05: priority meets prefetch.
    queue_set!(Set {
        One: |queue| queue.prefetch(1),
        Five: |queue| queue.prefetch(5),
        Ten: |queue| queue.prefetch(10),
    });
    macro_rules! run {
        ($queue:ident, $name:literal, $prefetch:literal) => {{
            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = Set::$queue, name = $name)]
            struct Step {
                number: usize,
            }
            let order: Log<(usize, u32)> = Log::default();
            let handler = FnHandler::<Step, _>::with(order.clone(), async |order: Log<_>, job, ctx: JobContext| {
                note(&order, (job.number, ctx.deferrals));
                if job.number == 0 && ctx.deferrals == 0 {
                    return Err(JobError::deferred(Duration::from_secs(2)));
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok(())
            });
            let builder = Worker::<Set>::builder(world.backend.clone()).queues(&[Set::$queue]).concurrency(1);
            let producer = producer::<Set>(&world).await;
            for number in 0..30 {
                producer.enqueue(&Step { number }).await.unwrap();
            }
            let worker = Running::start(builder.handler(handler)).await;
            until("it is due", || noted(&order).len() >= 2).await;
            worker.until_ended(30).await;
            let order = noted(&order);
            let back = order.iter().position(|step| *step == (0, 1)).unwrap();
            // Ten run in the two seconds, or in up to three where a broker rounds up; then the prefetched ones.
            let expected = if world.slack.is_zero() { 10..=11 + $prefetch } else { 1..=28 };
            assert!(expected.contains(&back), "prefetch {}: {order:?}", $prefetch);
            let backlog: Vec<usize> = order.iter().map(|step| step.0).filter(|number| *number > 0).collect();
            assert!(backlog.is_sorted(), "{order:?}");
            worker.stop().await;
        }};
    }
    run!(One, "one", 1);
    run!(Five, "five", 5);
    run!(Ten, "ten", 10);
}

pub(crate) async fn o05_the_backlog_drains_beside_jobs_that_defer_for_ever(world: World) {
    // O05: ten jobs deferring for ever every second beside the backlog; a failure after a deferral does not jump.
    queue_set!(Set { Work: |queue| queue.prefetch(1).retry(RetryPolicy::fixed(2, Duration::from_secs(1))) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Step {
        defers: bool,
    }
    let priorities: Log<(u32, u8)> = Log::default();
    let handler =
        FnHandler::<Step, _>::with(priorities.clone(), async |priorities: Log<_>, job, ctx: JobContext| {
            if !job.defers {
                tokio::time::sleep(Duration::from_millis(50)).await;
                return Ok(());
            }
            note(&priorities, (ctx.attempt, ctx.priority));
            match ctx.deferrals {
                0..5 => Err(JobError::deferred(Duration::from_secs(1))),
                _ => Err(JobError::retryable_msg("failed after a deferral")),
            }
        });
    let producer = producer::<Set>(&world).await;
    for _ in 0..10 {
        producer.enqueue(&Step { defers: true }).await.unwrap();
    }
    for _ in 0..100 {
        producer.enqueue(&Step { defers: false }).await.unwrap();
    }
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    worker.until_ended(110).await;
    for (attempt, priority) in noted(&priorities) {
        assert!(attempt == 1 || priority == 0, "a retry goes to the back: {attempt} {priority}");
    }
    worker.stop().await;
}

pub(crate) async fn o08_jobs_start_in_the_order_each_producer_enqueued_them(world: World) {
    // O08: order among equals.
    queue_set!(Set {
        One: |queue| queue.prefetch(1),
        Five: |queue| queue.prefetch(5),
        Fifty: |queue| queue.prefetch(50),
    });
    macro_rules! run {
        ($queue:ident, $name:literal) => {{
            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = Set::$queue, name = $name)]
            struct Numbered {
                producer: u32,
                number: u32,
            }
            let order: Log<(u32, u32)> = Log::default();
            let handler = FnHandler::<Numbered, _>::with(order.clone(), async |order: Log<_>, job, _ctx| {
                note(&order, (job.producer, job.number));
                Ok(())
            });
            let builder = Worker::<Set>::builder(world.backend.clone()).queues(&[Set::$queue]).concurrency(1);
            let worker = Running::start(builder.handler(handler)).await;
            let producers = (0..3).map(|number| {
                let world = world.clone();
                tokio::spawn(async move {
                    let producer = producer::<Set>(&world).await;
                    for job in 0..70 {
                        producer.enqueue(&Numbered { producer: number, number: job }).await.unwrap();
                    }
                })
            });
            for producer in producers.collect::<Vec<_>>() {
                producer.await.unwrap();
            }
            worker.until_ended(210).await;
            for producer in 0..3 {
                let own: Vec<u32> =
                    noted(&order).iter().filter(|run| run.0 == producer).map(|run| run.1).collect();
                assert_eq!(own, (0..70).collect::<Vec<_>>());
            }
            assert_eq!(worker.stats().settle_failures, 0);
            worker.stop().await;
        }};
    }
    run!(One, "one");
    run!(Five, "five");
    run!(Fifty, "fifty");
}
