//! Delays: never early, at most a granularity and a second late, whatever else is waiting.

use super::*;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Asserts that a wait that began at `start` kept its promise.
fn assert_on_time(world: &World, start: Instant, delay: Duration) {
    let waited = start.elapsed();
    assert!(waited >= delay, "early: {waited:?} instead of {delay:?}");
    assert!(waited <= delay + 2 * SECOND + world.slack, "late: {waited:?} instead of {delay:?}");
}

pub(crate) async fn a_delayed_job_is_never_early_and_joins_the_back(world: World) {
    let config = queue("delayed").prefetch(1);
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    let start = Instant::now();
    world.backend.publish(&job(&config, "delayed"), Some(SECOND)).await.unwrap();
    assert_eq!(world.operator.held(&config.name).await, 1);
    for label in ["first", "second"] {
        publish(&world, &job(&config, label)).await;
    }
    let first = next(&mut stream).await;
    queuey_tests::eventually("the delay is over", || async { world.operator.ready(&config.name).await == 2 })
        .await;
    assert_on_time(&world, start, SECOND);
    settle(first, Settlement::Ack).await;
    assert_eq!(drain(&mut stream, 2).await, ["second", "delayed"]);
}

pub(crate) async fn a_deferred_job_comes_back_ahead_of_the_backlog(world: World) {
    let config = queue("deferred").prefetch(1);
    declared(&world, &config).await;
    let deferred = with_priority(job(&config, "deferred"), config.deferral_priority());
    world.backend.defer(&deferred, SECOND).await.unwrap();
    for label in ["first", "second", "third"] {
        publish(&world, &job(&config, label)).await;
    }
    let mut stream = consumer(&world, &config).await;
    let first = next(&mut stream).await;
    queuey_tests::eventually("the delay is over", || async { world.operator.held(&config.name).await == 0 })
        .await;
    settle(first, Settlement::Ack).await;
    assert_eq!(drain(&mut stream, 3).await, ["deferred", "second", "third"]);
}

pub(crate) async fn r01_a_long_delay_holds_up_no_shorter_one(world: World) {
    // R01: a long delay in front of short ones.
    let config = queue("r01");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    for kind in ["after", "defer", "retry"] {
        let start = Instant::now();
        let mut total = 0;
        for seconds in [6_u64, 1, 2, 3] {
            let (envelope, delay) = (job(&config, &seconds.to_string()), Duration::from_secs(seconds));
            match kind {
                "after" => world.backend.publish(&envelope, Some(delay)).await.unwrap(),
                "defer" => world.backend.defer(&envelope, delay).await.unwrap(),
                _ => {
                    publish(&world, &envelope).await;
                    let delivery = next(&mut stream).await;
                    let next = delivery.envelope().next_attempt();
                    delivery.retry(next, delay).await.unwrap();
                }
            }
            total += 1;
        }
        for expected in ["1", "2", "3", "6"] {
            let delivery = next(&mut stream).await;
            assert_eq!(label(&*delivery), expected, "{kind}");
            assert_on_time(&world, start, Duration::from_secs(expected.parse().unwrap()));
            delivery.ack().await.unwrap();
            total -= 1;
        }
        assert_eq!(total, 0);
    }
}

pub(crate) async fn a_deferral_of_zero_waits_and_a_delay_of_zero_does_not(world: World) {
    let config = queue("zero");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    let start = Instant::now();
    world.backend.defer(&job(&config, "deferred"), Duration::ZERO).await.unwrap();
    world.backend.publish(&job(&config, "at once"), Some(Duration::ZERO)).await.unwrap();
    assert_eq!(drain(&mut stream, 1).await, ["at once"]);
    assert_eq!(drain(&mut stream, 1).await, ["deferred"]);
    assert_on_time(&world, start, SECOND);
}

pub(crate) async fn a_delay_past_the_ceiling_is_refused(world: World) {
    let config = queue("ceiling");
    declared(&world, &config).await;
    let longest = Duration::from_millis(2_147_483_000);
    world.backend.publish(&job(&config, "longest"), Some(longest)).await.unwrap();
    for delay in [Duration::from_millis(2_147_483_648), Duration::MAX] {
        for error in [
            refused(world.backend.publish(&job(&config, "a"), Some(delay)).await),
            refused(world.backend.defer(&job(&config, "a"), delay).await),
        ] {
            assert!(matches!(error, Error::DelayTooLong { .. }), "{error}");
        }
    }
    assert_eq!(world.operator.held(&config.name).await, 1);
}

pub(crate) async fn a_wait_on_an_undeclared_queue_is_refused_first(world: World) {
    // R05 (c): nothing is parked for a queue that may not be there.
    let config = queue("nobody-declared-it");
    for delay in [SECOND, Duration::MAX] {
        for error in [
            refused(world.backend.publish(&job(&config, "a"), Some(delay)).await),
            refused(world.backend.defer(&job(&config, "a"), delay).await),
        ] {
            assert!(matches!(&error, Error::UnknownQueue(queue) if *queue == config.name), "{error}");
        }
    }
}
