//! What becomes of a delivery.

use super::*;
use queuey::{DeadLetterCause, QueueKind};

pub(crate) async fn ack_and_discard_end_a_job(world: World) {
    let config = queue("ack");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    for settlement in [Settlement::Ack, Settlement::Discard] {
        publish(&world, &job(&config, "a")).await;
        settle(next(&mut stream).await, settlement).await;
    }
    world.backend.flush(&config).await.unwrap();
    drop(stream);
    assert!(is_quiet(&mut consumer(&world, &config).await).await);
    assert!(world.operator.dead(&config.name).await.is_empty());
}

pub(crate) async fn a_retry_comes_back_as_the_next_attempt(world: World) {
    let config = queue("retry");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    publish(&world, &with_priority(job(&config, "a"), 7)).await;
    for delay in [Duration::ZERO, Duration::from_secs(1)] {
        let delivery = next(&mut stream).await;
        let successor = delivery.envelope().next_attempt();
        settle(delivery, Settlement::Retry { next: successor, delay }).await;
    }
    let third = next(&mut stream).await;
    assert_eq!((third.envelope().attempt, third.envelope().priority, third.redelivered()), (3, 0, false));
}

pub(crate) async fn a_deferral_keeps_the_attempt(world: World) {
    let config = queue("defer");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    publish(&world, &job(&config, "a")).await;
    let delivery = next(&mut stream).await;
    let successor = delivery.envelope().deferred(config.deferral_priority());
    settle(delivery, Settlement::Defer { next: successor, delay: Duration::from_secs(1) }).await;
    let again = next(&mut stream).await;
    let envelope = again.envelope();
    assert_eq!((envelope.attempt, envelope.deferrals, envelope.priority), (1, 1, 10));
}

pub(crate) async fn a_dead_letter_is_kept_with_its_reason(world: World) {
    let config = queue("dead");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    let envelope = job(&config, "a");
    publish(&world, &envelope).await;
    let settlement = Settlement::DeadLetter { cause: DeadLetterCause::Fatal, reason: "it is broken".into() };
    settle(next(&mut stream).await, settlement).await;
    let dead = world.operator.dead(&config.name).await;
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].body.clone(), dead[0].reason.as_str()), (envelope.to_bytes(), "it is broken"));
    assert_eq!(world.operator.ready(&config.name).await, 0);
}

pub(crate) async fn redeliver_comes_next_whatever_its_priority(world: World) {
    let config = queue("redeliver").prefetch(1);
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    for (label, priority) in [("a", 10), ("b", 9), ("c", 8)] {
        publish(&world, &with_priority(job(&config, label), priority)).await;
    }
    let delivery = next(&mut stream).await;
    let mut copy = delivery.envelope().redelivered();
    copy.priority = 2;
    settle(delivery, Settlement::Redeliver { next: copy }).await;
    let copy = next(&mut stream).await;
    assert_eq!((label(&*copy), copy.redelivered()), ("a".into(), false));
    assert_eq!((copy.envelope().redeliveries, copy.envelope().priority), (1, 2));
    settle(copy, Settlement::Ack).await;
    assert_eq!(drain(&mut stream, 2).await, ["b", "c"]);
}

pub(crate) async fn requeue_gives_the_job_back_in_its_place_and_flags_it(world: World) {
    let config = queue("requeue").prefetch(1);
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    for label in ["a", "b"] {
        publish(&world, &job(&config, label)).await;
    }
    let first = next(&mut stream).await;
    assert!(!first.redelivered());
    settle(first, Settlement::Requeue).await;
    let again = next(&mut stream).await;
    assert_eq!((label(&*again), again.redelivered(), again.delivery_count()), ("a".into(), true, None));
    assert_eq!(again.envelope().redeliveries, 0);
    settle(again, Settlement::Ack).await;
    assert_eq!(drain(&mut stream, 1).await, ["b"]);
}

pub(crate) async fn a_delivery_that_is_dropped_goes_back(world: World) {
    let config = queue("dropped").prefetch(1);
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    publish(&world, &job(&config, "a")).await;
    drop(next(&mut stream).await);
    assert!(next(&mut stream).await.redelivered());
}

pub(crate) async fn a_stream_that_is_dropped_leaves_its_deliveries_alive(world: World) {
    let config = queue("stream").prefetch(2);
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    for label in ["a", "b", "c"] {
        publish(&world, &job(&config, label)).await;
    }
    let (first, second) = (next(&mut stream).await, next(&mut stream).await);
    drop(stream);
    settle(first, Settlement::Ack).await;
    settle(second, Settlement::Requeue).await;
    world.backend.flush(&config).await.unwrap();
    let mut labels = drain(&mut consumer(&world, &config).await, 2).await;
    labels.sort_unstable();
    assert_eq!(labels, ["b", "c"]);
}

pub(crate) async fn a_settlement_that_can_never_succeed_gives_the_delivery_back(world: World) {
    let config = queue("impossible");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    publish(&world, &job(&config, "a")).await;
    let delivery = next(&mut stream).await;
    let successor = delivery.envelope().next_attempt();
    let (error, delivery) = given_back(delivery.retry(successor.clone(), Duration::MAX).await);
    assert!(matches!(error, Error::DelayTooLong { .. }), "{error}");
    let (error, delivery) = given_back(delivery.defer(successor, Duration::MAX).await);
    assert!(matches!(error, Error::DelayTooLong { .. }), "{error}");
    settle(delivery, Settlement::Ack).await;
    assert_eq!((world.operator.held(&config.name).await, world.operator.ready(&config.name).await), (0, 0));
}

pub(crate) async fn successors_stay_on_the_queue_they_were_consumed_from(world: World) {
    let (config, elsewhere) = (queue("here"), queue("elsewhere"));
    world.backend.declare(&[config.clone(), elsewhere.clone()]).await.unwrap();
    let foreign = job(&elsewhere, "a").to_bytes();
    world.operator.publish_bytes(&config.name, &foreign).await;
    let mut stream = consumer(&world, &config).await;
    let delivery = next(&mut stream).await;
    assert_eq!(delivery.envelope().queue, elsewhere.name);
    let successor = delivery.envelope().next_attempt();
    settle(delivery, Settlement::Retry { next: successor, delay: Duration::ZERO }).await;
    let delivery = next(&mut stream).await;
    assert_eq!(delivery.envelope().attempt, 2);
    settle(delivery, Settlement::DeadLetter { cause: DeadLetterCause::Fatal, reason: "x".into() }).await;
    assert_eq!(world.operator.dead(&config.name).await.len(), 1);
    assert_eq!(world.operator.ready(&elsewhere.name).await, 0);
}

pub(crate) async fn unknown_fields_and_every_digit_survive_all_hops(world: World) {
    // P10: the envelope tolerates fields of later versions.
    let config = queue("fields");
    declared(&world, &config).await;
    let tail = r#""payload":{"n":340282366920938463463374607431768211455,"f":1.10},"shard":{"n":1.000000000000000000001}}"#;
    let body = format!(
        r#"{{"job_id":"0190b2c0-0000-7000-8000-000000000000","job_type":"job","queue":"{}","attempt":1,"enqueued_at_ms":1,{tail}"#,
        config.name
    );
    world.operator.publish_bytes(&config.name, body.as_bytes()).await;
    let mut stream = consumer(&world, &config).await;
    for hop in 0..3 {
        let delivery = next(&mut stream).await;
        let text = String::from_utf8(delivery.envelope().to_bytes()).unwrap();
        assert!(text.ends_with(tail), "hop {hop}: {text}");
        let (retry, deferral) = (delivery.envelope().next_attempt(), delivery.envelope().deferred(10));
        settle(
            delivery,
            match hop {
                0 => Settlement::Retry { next: retry, delay: Duration::from_secs(1) },
                1 => Settlement::Defer { next: deferral, delay: Duration::from_secs(1) },
                _ => Settlement::DeadLetter { cause: DeadLetterCause::Fatal, reason: "x".into() },
            },
        )
        .await;
    }
    let dead = String::from_utf8(world.operator.dead(&config.name).await.remove(0).body).unwrap();
    assert!(dead.ends_with(tail), "{dead}");
}

pub(crate) async fn a_quorum_queue_counts_its_deliveries(world: World) {
    let config = queue("quorum").kind(QueueKind::Quorum).prefetch(1);
    declared(&world, &config).await;
    publish(&world, &job(&config, "a")).await;
    for count in 0..3 {
        // A consumer that is gone counts on every version; a requeue does not on the latest.
        let mut stream = consumer(&world, &config).await;
        let delivery = next(&mut stream).await;
        assert_eq!(delivery.delivery_count(), Some(count));
        drop(delivery);
        drop(stream);
        world.backend.flush(&config).await.unwrap();
    }
}

pub(crate) async fn expired_jobs_are_dropped_or_kept(world: World) {
    let ttl = Duration::from_secs(1);
    let dropping = queue("dropping").message_ttl(ttl);
    let keeping = queue("keeping").message_ttl(ttl).dead_letter_expired(true);
    world.backend.declare(&[dropping.clone(), keeping.clone()]).await.unwrap();
    for config in [&dropping, &keeping] {
        publish(&world, &job(config, "a")).await;
        queuey_tests::eventually("expired", || async { world.operator.ready(&config.name).await == 0 }).await;
    }
    assert!(is_quiet(&mut consumer(&world, &dropping).await).await);
    assert!(world.operator.dead(&dropping.name).await.is_empty());
    assert_eq!(world.operator.dead(&keeping.name).await.len(), 1);
}
