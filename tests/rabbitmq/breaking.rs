//! What callers are told when things go wrong in the middle of their batch, and what that does to the others.

use std::{sync::Arc, time::Instant};

use lapin::types::{AMQPValue, FieldTable};
use queuey::{Backend, Envelope, Error, QueueConfig, RabbitMqBackend, RabbitMqOptions};
use queuey_tests::{Admin, Fault, Node, Proxy, shared_broker, unique};
use serde_json::value::to_raw_value;

use crate::scene::{SECOND, clear, connect, table};

fn job(queue: &str, payload: &str) -> Envelope {
    Envelope::raw("job", queue, to_raw_value(payload).unwrap())
}

/// Lets the process of a queue do nothing, or go on.
async fn queue_process(node: &Node, act: &str, queue: &str) {
    let lookup = format!("rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"{queue}\">>))");
    node.ctl(&["eval", &format!("{{ok, Q}} = {lookup}, sys:{act}(amqqueue:get_pid(Q)).")]).await;
}

/// A backend whose first message reaches its queue, whereupon the connection is cut.
async fn cut_after_the_first(url: &str, options: RabbitMqOptions) -> (Proxy, Arc<RabbitMqBackend>) {
    let proxy = Proxy::start(url).await;
    let (backend, _) = connect(proxy.url(), options).await;
    proxy.plan("1>content.body#1".parse().unwrap(), Fault::CutAfter);
    (proxy, backend)
}

async fn declare(admin: &Admin, queue: &str, arguments: &[(&str, AMQPValue)]) {
    let mut all: FieldTable = table(arguments);
    all.insert("x-expires".into(), AMQPValue::LongInt(600_000));
    admin.declare(queue, all).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_is_in_doubt_when_there_will_be_no_other_connection() {
    let Some(url) = shared_broker() else { return };
    let (admin, queue) = (Admin::new(&url), unique("breaking", "no_reconnect"));
    declare(&admin, &queue, &[]).await;
    let (_proxy, backend) = cut_after_the_first(&url, RabbitMqOptions::default().reconnect(None)).await;
    let result = backend.publish(&job(&queue, "there"), None).await;
    assert_eq!(admin.ready(&queue).await, 1);
    assert!(matches!(result, Err(Error::Unconfirmed { .. })), "{result:?}");
    // What comes now was never sent.
    let result = backend.publish(&job(&queue, "later"), None).await;
    assert!(matches!(result, Err(Error::NotConnected)), "{result:?}");
    assert_eq!(admin.ready(&queue).await, 1);
    clear(&backend, &admin, &[&queue], &[]).await;
}

/// The queue has room for the message once, and refuses it when it is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_what_was_sent_before_leaves_it_in_doubt() {
    let Some(url) = shared_broker() else { return };
    let (admin, queue) = (Admin::new(&url), unique("breaking", "refused"));
    let full = [
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    declare(&admin, &queue, &full).await;
    let (_proxy, backend) = cut_after_the_first(&url, RabbitMqOptions::default()).await;
    let result = backend.publish(&job(&queue, "there"), None).await;
    assert_eq!(admin.ready(&queue).await, 1);
    assert!(matches!(result, Err(Error::Unconfirmed { .. })), "{result:?}");
    let result = backend.publish(&job(&queue, "too many"), None).await;
    assert!(matches!(result, Err(Error::Refused { .. })), "{result:?}");
    clear(&backend, &admin, &[&queue], &[]).await;
}

/// A message beside one that killed its channel is sent alone. Where its queue does not confirm it, the next such message
/// is not held up.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_alone_to_a_queue_that_never_confirms_holds_no_other() {
    let Some(node) = Node::options().conf("max_message_size = 20000").start().await else { return };
    let (backend, _) = connect(node.url(), RabbitMqOptions::default()).await;
    let (admin, healthy) = (Admin::new(node.url()), unique("breaking", "alone"));
    let stuck = format!("{healthy}.stuck");
    backend.declare(&[QueueConfig::new(&healthy), QueueConfig::new(&stuck)]).await.unwrap();
    queue_process(&node, "suspend", &stuck).await;
    let large = "x".repeat(30_000);
    let waiting = tokio::spawn({
        let backend = backend.clone();
        let jobs = [job(&stuck, "1"), job(&stuck, "2"), job(&stuck, "3"), job(&healthy, &large)];
        async move { backend.publish_many(&jobs).await }
    });
    // It takes a second until the queue is known to be late.
    let start = Instant::now();
    while start.elapsed() < 4 * SECOND {
        let jobs = [job(&healthy, "1"), job(&healthy, &large), job(&healthy, "2")];
        let results = backend.publish_many(&jobs).await;
        assert!(matches!(results[..], [Ok(()), Err(Error::TooLarge { .. }), Ok(())]), "{results:?}");
    }
    assert!(!waiting.is_finished(), "the others had to wait for the queue");
    queue_process(&node, "resume", &stuck).await;
    let results = waiting.await.unwrap();
    assert!(matches!(results[..], [Ok(()), Ok(()), Ok(()), Err(Error::TooLarge { .. })]), "{results:?}");
    clear(&backend, &admin, &[&healthy, &stuck], &[]).await;
}

/// The jobs of one call go in rows of a thousand. A queue that is late would cost it a wait in each.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_row_that_is_not_confirmed_no_other_is_tried() {
    let Some(node) = Node::start().await else { return };
    let (backend, _) = connect(node.url(), RabbitMqOptions::default().publish_timeout(4 * SECOND)).await;
    let (admin, healthy) = (Admin::new(node.url()), unique("breaking", "rows"));
    let stuck = format!("{healthy}.stuck");
    backend.declare(&[QueueConfig::new(&healthy), QueueConfig::new(&stuck)]).await.unwrap();
    queue_process(&node, "suspend", &stuck).await;
    let to = |nr: usize| if nr % 100 == 50 { &stuck } else { &healthy };
    let jobs: Vec<_> = (0..4_000).map(|nr| job(to(nr), &nr.to_string())).collect();
    let results = backend.publish_many(&jobs).await;
    assert!(matches!(results[50], Err(Error::Unconfirmed { .. })), "{:?}", results[50]);
    let tried = results[1_000..].iter().filter(|result| !matches!(result, Err(Error::NotConnected))).count();
    assert_eq!(tried, 0);
    queue_process(&node, "resume", &stuck).await;
    backend.publish(&job(&stuck, "at last"), None).await.unwrap();
    let arrived = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(admin.take_all(&healthy).await.len(), arrived, "what was not sent is not there");
    clear(&backend, &admin, &[&healthy, &stuck], &[]).await;
}

/// The broker stops reading from a whole connection when a channel has too many messages for a queue that takes none.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_messages_for_a_queue_that_never_confirms_hold_no_other() {
    let Some(node) = Node::start().await else { return };
    let (backend, _) = connect(node.url(), RabbitMqOptions::default()).await;
    let (admin, healthy) = (Admin::new(node.url()), unique("breaking", "thousand"));
    let stuck = format!("{healthy}.stuck");
    backend.declare(&[QueueConfig::new(&healthy), QueueConfig::new(&stuck)]).await.unwrap();
    queue_process(&node, "suspend", &stuck).await;
    let waiting = tokio::spawn({
        let (backend, stuck) = (backend.clone(), stuck.clone());
        async move {
            let jobs: Vec<_> = (0..1_000).map(|nr| job(&stuck, &nr.to_string())).collect();
            backend.publish_many(&jobs).await
        }
    });
    // It takes a second until the queue is known to be late.
    let start = Instant::now();
    while start.elapsed() < 4 * SECOND {
        backend.publish(&job(&healthy, "goes on"), None).await.unwrap();
    }
    assert!(!waiting.is_finished(), "the others had to wait for the queue");
    queue_process(&node, "resume", &stuck).await;
    assert!(waiting.await.unwrap().iter().all(Result::is_ok));
    assert_eq!(admin.take_all(&stuck).await.len(), 1_000);
    clear(&backend, &admin, &[&healthy, &stuck], &[]).await;
}
