//! In which order jobs come, and how many at once.

use super::*;

pub(crate) async fn deliveries_come_in_the_order_of_publishing(world: World) {
    // O08: order among equals.
    let config = queue("order");
    declared(&world, &config).await;
    let labels: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    for label in &labels {
        publish(&world, &job(&config, label)).await;
    }
    assert_eq!(drain(&mut consumer(&world, &config).await, 200).await, labels);
}

pub(crate) async fn higher_priorities_come_first(world: World) {
    let config = queue("priorities");
    declared(&world, &config).await;
    for (label, priority) in [("a0", 0), ("b5", 5), ("c10", 10), ("d5", 5), ("e0", 0)] {
        publish(&world, &with_priority(job(&config, label), priority)).await;
    }
    assert_eq!(drain(&mut consumer(&world, &config).await, 5).await, ["c10", "b5", "d5", "a0", "e0"]);
}

pub(crate) async fn a_priority_above_the_maximum_counts_as_the_maximum(world: World) {
    let config = queue("clamped").max_priority(3);
    declared(&world, &config).await;
    for (label, priority) in [("a3", 3), ("b200", 200), ("c2", 2)] {
        publish(&world, &with_priority(job(&config, label), priority)).await;
    }
    let mut stream = consumer(&world, &config).await;
    let first = next(&mut stream).await;
    let second = next(&mut stream).await;
    assert_eq!((label(&*first), label(&*second)), ("a3".into(), "b200".into()));
    assert_eq!(second.envelope().priority, 200);
}

pub(crate) async fn a_queue_without_priorities_ignores_them(world: World) {
    let config = queue("plain").max_priority(0);
    declared(&world, &config).await;
    for (label, priority) in [("a", 0), ("b", 10)] {
        publish(&world, &with_priority(job(&config, label), priority)).await;
    }
    assert_eq!(drain(&mut consumer(&world, &config).await, 2).await, ["a", "b"]);
}

pub(crate) async fn no_more_than_the_prefetch_is_unsettled(world: World) {
    let config = queue("prefetch").prefetch(2);
    declared(&world, &config).await;
    for label in ["a", "b", "c"] {
        publish(&world, &job(&config, label)).await;
    }
    let mut stream = consumer(&world, &config).await;
    let (first, _second) = (next(&mut stream).await, next(&mut stream).await);
    assert!(is_quiet(&mut stream).await);
    settle(first, Settlement::Ack).await;
    assert_eq!(label(&*next(&mut stream).await), "c");
}

pub(crate) async fn two_consumers_share_a_queue(world: World) {
    let config = queue("shared").prefetch(1);
    declared(&world, &config).await;
    let (mut one, mut other) = (consumer(&world, &config).await, consumer(&world, &config).await);
    for label in ["a", "b"] {
        publish(&world, &job(&config, label)).await;
    }
    let (first, second) = (next(&mut one).await, next(&mut other).await);
    assert_ne!(label(&*first), label(&*second));
}
