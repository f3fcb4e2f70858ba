//! What is refused, and what that leaves untouched.

use super::*;

pub(crate) async fn a_missing_queue_is_unroutable(world: World) {
    let config = queue("missing");
    let envelope = job(&config, "a");
    let error = refused(world.backend.publish(&envelope, None).await);
    assert!(
        matches!(&error, Error::Unroutable { job_id, queue } if *job_id == envelope.job_id && *queue == config.name),
        "{error}"
    );
}

pub(crate) async fn an_undeclared_queue_cannot_be_consumed(world: World) {
    let config = queue("undeclared");
    let error = world.backend.consume(&config).await.err().expect("consumed");
    assert!(matches!(&error, Error::UnknownQueue(queue) if *queue == config.name), "{error}");
}

pub(crate) async fn bad_queues_are_refused_before_anything_is_made(world: World) {
    let good = queue("good");
    let dead = QueueConfig::new(format!("{}.dead", good.name));
    let hold = QueueConfig::new(format!("{}.deferred.1000", good.name));
    let long = QueueConfig::new("q".repeat(236));
    for bad in
        [dead, hold, long, QueueConfig::new("amq.q"), QueueConfig::new("a\nb"), queue("none").prefetch(0)]
    {
        let error = refused(world.backend.declare(&[good.clone(), bad]).await);
        assert!(matches!(error, Error::InvalidQueue { .. }), "{error}");
    }
    let error = refused(world.backend.publish(&job(&good, "a"), None).await);
    assert!(matches!(error, Error::Unroutable { .. }), "{error}");
}

pub(crate) async fn o01_a_queue_with_other_arguments_is_a_mismatch(world: World) {
    // O01: an existing queue with other arguments.
    let config = queue("mismatch");
    declared(&world, &config).await;
    let others = [
        (config.clone().max_priority(5), "x-max-priority"),
        (config.clone().message_ttl(Duration::from_secs(1)), "x-message-ttl"),
        (config.clone().durable(false), "durable"),
    ];
    for (other, differs) in others {
        match refused(world.backend.declare(&[other]).await) {
            Error::QueueMismatch { queue, argument, .. } => {
                assert_eq!((&*queue, &*argument), (&*config.name, differs));
            }
            error => panic!("{error}"),
        }
    }
    publish(&world, &job(&config, "a")).await;
}

pub(crate) async fn declaring_again_changes_nothing(world: World) {
    let config = queue("again");
    declared(&world, &config).await;
    publish(&world, &job(&config, "a")).await;
    // What only workers read may differ.
    declared(&world, &config.clone().prefetch(3).max_deferrals(1)).await;
    assert_eq!(drain(&mut consumer(&world, &config).await, 1).await, ["a"]);
}

pub(crate) async fn p04_a_message_too_large_is_refused_and_its_neighbours_are_not(world: World) {
    // P04: too large. 129 MiB is past the limit of every version.
    let config = queue("large");
    declared(&world, &config).await;
    let envelopes =
        ["a".to_owned(), "x".repeat(129 * 1024 * 1024), "b".to_owned()].map(|label| job(&config, &label));
    let results = world.backend.publish_many(&envelopes).await;
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    match &results[1] {
        Err(Error::TooLarge { size, limit }) => assert!(size > limit),
        other => panic!("{other:?}"),
    }
    assert_eq!(drain(&mut consumer(&world, &config).await, 2).await, ["a", "b"]);
}

pub(crate) async fn a_long_correlation_id_is_refused(world: World) {
    let config = queue("correlation");
    declared(&world, &config).await;
    let long = job(&config, "a").with_correlation_id("x".repeat(256));
    for result in
        [world.backend.publish(&long, None).await, world.backend.defer(&long, Duration::from_secs(1)).await]
    {
        assert!(matches!(refused(result), Error::InvalidOption { .. }));
    }
    publish(&world, &job(&config, "a").with_correlation_id("x".repeat(255))).await;
}

pub(crate) async fn each_of_many_has_its_own_result(world: World) {
    let (config, missing) = (queue("many"), queue("many-missing"));
    declared(&world, &config).await;
    let envelopes: Vec<Envelope> = (0..100)
        .map(|number| job(if number % 10 == 3 { &missing } else { &config }, &number.to_string()))
        .collect();
    let results = world.backend.publish_many(&envelopes).await;
    assert_eq!(results.len(), 100);
    for (number, result) in results.iter().enumerate() {
        match result {
            Ok(()) => assert_ne!(number % 10, 3),
            Err(Error::Unroutable { job_id, .. }) => assert_eq!(*job_id, envelopes[number].job_id),
            Err(error) => panic!("{error}"),
        }
    }
    let delivered = drain(&mut consumer(&world, &config).await, 90).await;
    let numbers: Vec<usize> = delivered.iter().map(|label| label.parse().unwrap()).collect();
    assert!(numbers.is_sorted());
}

pub(crate) async fn p01_bodies_that_are_no_job_are_put_aside(world: World) {
    // P01: bodies that are not a job.
    let config = queue("p01");
    declared(&world, &config).await;
    let good = String::from_utf8(job(&config, "good").to_bytes()).unwrap();
    let bad: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"{".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"x\"".to_vec(),
        b"\xff\xfe\xfd".to_vec(),
        ["\u{feff}", &good].concat().into_bytes(),
        b"\x1f\x8b\x08\x00\x00".to_vec(),
        "[".repeat(10_000).into_bytes(),
        good.replace(r#""attempt":1"#, r#""attempt":"1""#).into_bytes(),
        good.replace(r#","payload":"good""#, "").into_bytes(),
        good.replace(r#""attempt":1"#, r#""attempt":1,"attempt":1"#).into_bytes(),
        good.replace(r#""attempt":1"#, r#""attempt":-1"#).into_bytes(),
        good.replace(r#""attempt":1"#, r#""attempt":1099511627776"#).into_bytes(),
        format!("\"{}\"", "x".repeat(4 * 1024 * 1024)).into_bytes(),
    ];
    for body in &bad {
        world.operator.publish_bytes(&config.name, body).await;
        publish(&world, &job(&config, "good")).await;
    }
    let mut stream = consumer(&world, &config).await;
    let (mut malformed, mut delivered) = (0, 0);
    while malformed + delivered < 2 * bad.len() {
        match next_item(&mut stream).await.expect("the stream goes on") {
            Ok(delivery) => {
                delivered += 1;
                delivery.ack().await.unwrap();
            }
            Err(Error::Malformed { queue, body, .. }) => {
                malformed += 1;
                assert_eq!(queue, config.name);
                assert!(body.0.len() <= 64 * 1024);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((malformed, delivered), (bad.len(), bad.len()));
    let mut dead: Vec<Vec<u8>> =
        world.operator.dead(&config.name).await.into_iter().map(|dead| dead.body).collect();
    let mut expected = bad;
    dead.sort();
    expected.sort();
    assert!(dead == expected, "each is there once, byte for byte");
}

pub(crate) async fn a_closed_backend_refuses_everything_and_ends_its_streams(world: World) {
    let config = queue("closed");
    declared(&world, &config).await;
    let mut stream = consumer(&world, &config).await;
    publish(&world, &job(&config, "a")).await;
    let delivery = next(&mut stream).await;
    world.backend.close().await.unwrap();
    world.backend.close().await.unwrap();
    delivery.lost().await;
    let settled = delivery.ack().await.expect_err("settled after the close");
    assert!(settled.delivery.is_none());
    assert!(next_item(&mut stream).await.is_none());
    for error in [
        refused(world.backend.publish(&job(&config, "b"), None).await),
        refused(world.backend.publish(&job(&config, "b"), Some(Duration::from_secs(1))).await),
        refused(world.backend.defer(&job(&config, "b"), Duration::from_secs(1)).await),
        refused(world.backend.declare(std::slice::from_ref(&config)).await),
        refused(world.backend.consume(&config).await.map(drop)),
    ] {
        assert!(matches!(error, Error::ShutDown), "{error}");
    }
    let health = world.backend.health().await;
    assert!(!health.connected && health.consuming.is_empty());
}

pub(crate) async fn health_tells_what_is_consumed(world: World) {
    // O12: being able to tell what it is doing.
    let config = queue("health");
    declared(&world, &config).await;
    let health = world.backend.health().await;
    assert!(health.connected && health.blocked.is_none() && health.reconnecting.is_none());
    assert!(health.consuming.is_empty());
    let stream = consumer(&world, &config).await;
    assert_eq!(world.backend.health().await.consuming, std::slice::from_ref(&config.name));
    drop(stream);
    queuey_tests::eventually("the consumer is gone", || async {
        world.backend.health().await.consuming.is_empty()
    })
    .await;
}
