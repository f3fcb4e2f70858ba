//! What a user of the broker may not do, and when that is said.

use std::collections::BTreeSet;

use queuey::{DeliveryStream, Error, Result, TopologyMode, prelude::*};
use queuey_tests::{Admin, Node, Running, eventually, queue_set, unique};

use crate::scene::{SECOND, connect, hold, job};

queue_set!(Set { Handled, Bare });

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Handled, name = "task")]
struct Task;

/// Makes a user who may configure, write and read what matches. Gives his URL.
async fn user(node: &Node, name: &str, [configure, write, read]: [&str; 3]) -> String {
    node.ctl(&["add_user", name, "secret"]).await;
    node.ctl(&["set_permissions", name, configure, write, read]).await;
    node.url().replace("guest:guest", &format!("{name}:secret"))
}

async fn build(backend: &Arc<RabbitMqBackend>) -> Result<Worker<Set, RabbitMqBackend>> {
    let handler = FnHandler::<Task, _>::new(async |_, ctx: JobContext| match ctx.deferrals {
        0 => Err(JobError::deferred(SECOND)),
        _ => Ok(()),
    });
    Worker::<Set, _>::builder(backend.clone()).handler(handler).build().await
}

async fn holds(node: &Node) -> BTreeSet<String> {
    let names = node.ctl(&["-q", "list_queues", "--no-table-headers", "name"]).await;
    names.lines().filter(|name| name.contains(".deferred.")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_make_holds_is_told_when_the_worker_is_built() {
    let Some(node) = Node::start().await else { return };
    // Work and dead-letter queues he may make.
    let limited = user(&node, "limited", [r"(Handled|Bare)(\.dead)?$", ".*", ".*"]).await;
    for mode in [TopologyMode::Declare, TopologyMode::Verify, TopologyMode::Assume] {
        let (backend, events) = connect(&limited, RabbitMqOptions::default().topology(mode)).await;
        let error = build(&backend).await.expect_err("built");
        let Error::AccessRefused { what } = &error else { panic!("{mode:?}: {error}") };
        for word in [Set::Handled.name(), ".deferred.*", "configure", "can't wait", "limited"] {
            assert!(what.contains(word), "{mode:?}: {what}");
        }
        // He may enqueue all the same, and is told at the call when that has to wait.
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        producer.enqueue(&Task).await.unwrap();
        let error = producer.enqueue_after(&Task, SECOND).await.expect_err("held");
        assert!(matches!(error, Error::AccessRefused { .. }), "{mode:?}: {error}");
        assert_eq!(events.lost(), 0);
        backend.close().await.unwrap();
    }
    assert_eq!(holds(&node).await, BTreeSet::new());

    let free = user(&node, "free", [".*", ".*", ".*"]).await;
    let (backend, _) = connect(&free, RabbitMqOptions::default().topology(TopologyMode::Assume)).await;
    let worker = build(&backend).await.unwrap();
    assert!(holds(&node).await.is_subset(&BTreeSet::from([hold(Set::Handled.name(), SECOND)])));
    eventually("it is gone by itself", || async { holds(&node).await.is_empty() }).await;
    let worker = Running::start_built(worker);
    worker.until_ended(3).await;
    assert_eq!(worker.stats().deferred, 3);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_may_not_do_is_an_error_that_says_so() {
    let Some(node) = Node::start().await else { return };
    let (work, other) =
        (QueueConfig::new(unique("permissions", "work")), QueueConfig::new(unique("permissions", "x")));
    let (backend, _) = connect(node.url(), RabbitMqOptions::default()).await;
    backend.declare(&[work.clone(), other.clone()]).await.unwrap();
    let may = |queue: &QueueConfig| format!("^({}|amq.default)", queue.name);
    let refused =
        |error: &Error| matches!(error, Error::AccessRefused { what } if what.contains("refused for user"));

    let mute = user(&node, "mute", [".*", "^$", ".*"]).await;
    let (backend, _) = connect(&mute, RabbitMqOptions::default()).await;
    backend.declare(std::slice::from_ref(&work)).await.unwrap();
    let error = backend.publish(&job(&work, "a"), None).await.expect_err("published");
    assert!(refused(&error), "{error}");

    let deaf = user(&node, "deaf", [".*", ".*", &may(&other)]).await;
    let (backend, events) = connect(&deaf, RabbitMqOptions::default()).await;
    backend.declare(&[work.clone(), other.clone()]).await.unwrap();
    let consumed: Result<DeliveryStream> = backend.consume(&work).await;
    let error = consumed.err().expect("consumed");
    assert!(refused(&error), "{error}");
    drop(backend.consume(&other).await.unwrap());

    let idle = user(&node, "idle", ["^$", ".*", ".*"]).await;
    let (backend, _) = connect(&idle, RabbitMqOptions::default()).await;
    let error = backend.declare(std::slice::from_ref(&work)).await.expect_err("declared");
    assert!(refused(&error), "{error}");
    assert_eq!(events.lost(), 0);
    assert_eq!(Admin::new(node.url()).ready(&work.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_was_taken_and_given_back_is_asked_for_on_the_next_connection() {
    let Some(node) = Node::start().await else { return };
    let work = QueueConfig::new(unique("permissions", "again"));
    let url = user(&node, "mailer", [".*", ".*", ".*"]).await;
    let (backend, _) = connect(&url, RabbitMqOptions::default()).await;
    backend.declare(std::slice::from_ref(&work)).await.unwrap();
    let mut stream = backend.consume(&work).await.unwrap();
    node.ctl(&["set_permissions", "mailer", ".*", ".*", "^$"]).await;
    node.ctl(&["close_all_connections", "permission taken"]).await;
    eventually("it is suspended", || async {
        let health = backend.health().await;
        health.connected
            && health.consuming.is_empty()
            && health.suspended.iter().any(|queue| queue.0 == work.name)
    })
    .await;
    node.ctl(&["set_permissions", "mailer", ".*", ".*", ".*"]).await;
    node.ctl(&["close_all_connections", "permission given"]).await;
    eventually("it is consumed", || async {
        let health = backend.health().await;
        health.suspended.is_empty() && health.consuming == [work.name.clone()]
    })
    .await;
    backend.publish(&job(&work, "a"), None).await.unwrap();
    assert_eq!(crate::scene::drain(&mut stream, 1).await, ["a"]);
}
