//! O02: policies of an operator that catch our queues. What they destroy is in docs/rabbitmq.md, and shown here to be so.

use std::time::{Duration, Instant};

use queuey::{
    Backend, DeadLetterCause, DeliveryStream, Error, QueueConfig, RabbitMqBackend, RabbitMqOptions,
    Settlement,
};
use queuey_tests::{Admin, Node, eventually, unique};

use crate::scene::{SECOND, clear, connect, dead, drain, hold, job, label, next};

/// A queue whose every object is caught by one policy.
struct Scene<'a> {
    node: &'a Node,
    backend: &'a RabbitMqBackend,
    admin: &'a Admin,
    config: QueueConfig,
}

impl<'a> Scene<'a> {
    async fn set(
        node: &'a Node,
        backend: &'a RabbitMqBackend,
        admin: &'a Admin,
        policy: (&str, &str),
    ) -> Self {
        let (name, definition) = policy;
        let config = QueueConfig::new(unique("policies", name)).prefetch(100);
        let pattern = format!("^{}", config.name.replace('.', r"\."));
        node.ctl(&["set_policy", name, &pattern, definition, "--apply-to", "queues"]).await;
        let scene = Scene { node, backend, admin, config };
        scene.declare().await;
        scene
    }

    async fn declare(&self) {
        self.backend.declare(std::slice::from_ref(&self.config)).await.unwrap();
    }

    async fn consume(&self) -> DeliveryStream {
        self.backend.consume(&self.config).await.unwrap()
    }

    async fn publish(&self, label: &str) -> queuey::Result<()> {
        self.backend.publish(&job(&self.config, label), None).await
    }

    async fn hold(&self, label: &str, delay: Duration) {
        self.backend.publish(&job(&self.config, label), Some(delay)).await.unwrap();
    }

    async fn ready(&self) -> u32 {
        self.admin.ready(&self.config.name).await
    }

    /// An enqueue, a delay, a deferral, a retry and a dead letter, of which nothing is lost and nothing early.
    async fn all_features_work(&self) {
        let mut stream = self.consume().await;
        let start = Instant::now();
        self.hold("delayed", SECOND).await;
        self.backend.defer(&job(&self.config, "deferred"), SECOND).await.unwrap();
        for label in ["retried", "dead", "done"] {
            self.publish(label).await.unwrap();
        }
        let mut ended = Vec::new();
        while ended.len() < 5 {
            let delivery = next(&mut stream).await;
            let label = label(&*delivery);
            let attempt = delivery.envelope().attempt;
            let settlement = match label.as_str() {
                "retried" if attempt == 1 => {
                    let next = delivery.envelope().next_attempt();
                    Settlement::Retry { next, delay: SECOND }
                }
                "dead" => dead_letter(),
                _ => Settlement::Ack,
            };
            let waits = matches!(&*label, "delayed" | "deferred") || attempt == 2;
            assert!(!waits || start.elapsed() >= SECOND, "{label} was early");
            let is_end = !matches!(settlement, Settlement::Retry { .. });
            delivery.settle(settlement).await.unwrap();
            if is_end {
                ended.push(label);
            }
        }
        ended.sort();
        assert_eq!(ended, ["dead", "deferred", "delayed", "done", "retried"]);
        drop(stream);
        self.backend.flush(&self.config).await.unwrap();
    }

    async fn has_dead_letters(&self, count: u32) {
        let dead = dead(&self.config.name);
        eventually("the dead letter is there", || async { self.admin.ready(&dead).await == count }).await;
    }

    async fn end(self, holds: &[Duration]) {
        let holds = [&[SECOND], holds].concat();
        for queue in holds.iter().map(|wait| hold(&self.config.name, *wait)).chain([dead(&self.config.name)])
        {
            self.admin.delete(&queue).await;
        }
        self.admin.delete(&self.config.name).await;
    }
}

fn dead_letter() -> Settlement {
    Settlement::DeadLetter { cause: DeadLetterCause::Fatal, reason: "broken".into() }
}

/// The oldest are dropped, confirmed or not, and nobody is told.
async fn drop_head(scene: Scene<'_>) {
    scene.all_features_work().await;
    scene.has_dead_letters(1).await;
    for number in 0..12 {
        scene.publish(&number.to_string()).await.unwrap();
    }
    let kept: Vec<_> = (2..12).map(|number| number.to_string()).collect();
    assert_eq!(drain(&mut scene.consume().await, 10).await, kept);
    scene.end(&[]).await;
}

/// What is refused is told, and a retry keeps its delivery until there is room. A hold that ends into the full queue is lost.
async fn reject_publish(scene: Scene<'_>) {
    scene.all_features_work().await;
    scene.has_dead_letters(1).await;
    let mut stream = scene.consume().await;
    scene.publish("retried").await.unwrap();
    let delivery = next(&mut stream).await;
    drop(stream);
    for number in 0..10 {
        scene.publish(&number.to_string()).await.unwrap();
    }
    let error = scene.publish("one too many").await.expect_err("published");
    assert!(matches!(&error, Error::Refused { queue } if *queue == scene.config.name), "{error}");
    let retry = Settlement::Retry { next: delivery.envelope().next_attempt(), delay: Duration::ZERO };
    let mut settling = delivery.settle(retry);
    assert!(tokio::time::timeout(SECOND, &mut settling).await.is_err(), "settled without room");
    // The hold itself takes it.
    scene.hold("held", SECOND).await;
    let held = hold(&scene.config.name, SECOND);
    eventually("the hold is over", || async { scene.admin.ready(&held).await == 0 }).await;
    assert_eq!(scene.ready().await, 10);
    let mut stream = scene.consume().await;
    settling.await.unwrap();
    let mut left = drain(&mut stream, 11).await;
    assert_eq!(left.pop().as_deref(), Some("retried"));
    assert_eq!(left, (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    drop(stream);
    scene.end(&[]).await;
}

/// What waits for longer is gone, and a hold that is longer ends early. Shorter ones keep their time.
async fn message_ttl(scene: Scene<'_>) {
    scene.all_features_work().await;
    eventually("the dead letter is gone", || async {
        scene.admin.ready(&dead(&scene.config.name)).await == 0
    })
    .await;
    scene.publish("unread").await.unwrap();
    eventually("it is gone", || async { scene.ready().await == 0 }).await;
    let mut stream = scene.consume().await;
    scene.hold("held", 600 * SECOND).await;
    assert_eq!(drain(&mut stream, 1).await, ["held"], "ten minutes were over in a second");
    drop(stream);
    scene.end(&[600 * SECOND]).await;
}

/// A hold that is longer goes with all that is in it, and so do queues nobody reads; they are made again when they are needed.
async fn expires(scene: Scene<'_>) {
    scene.all_features_work().await;
    scene.hold("held", 30 * SECOND).await;
    // To look at queues one by one would keep them alive.
    eventually("all is gone", || async {
        !scene.node.ctl(&["-q", "list_queues", "name"]).await.contains(&scene.config.name)
    })
    .await;
    let error = scene.publish("late").await.expect_err("published");
    assert!(matches!(error, Error::Unroutable { .. }), "{error}");
    scene.declare().await;
    let mut stream = scene.consume().await;
    scene.publish("dead").await.unwrap();
    let delivery = next(&mut stream).await;
    assert_eq!(label(&*delivery), "dead");
    scene.admin.delete(&dead(&scene.config.name)).await;
    delivery.settle(dead_letter()).await.unwrap();
    scene.has_dead_letters(1).await;
    drop(stream);
    scene.end(&[30 * SECOND]).await;
}

/// The route of a hold is its own, and nothing of ours takes the other.
async fn dead_letter_exchange(scene: Scene<'_>) {
    scene.all_features_work().await;
    scene.has_dead_letters(1).await;
    assert_eq!(scene.ready().await, 0);
    scene.end(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o02_policies_do_what_is_documented_and_no_more() {
    let Some(node) = Node::start().await else { return };
    let ((backend, events), admin) =
        (connect(node.url(), RabbitMqOptions::default()).await, Admin::new(node.url()));
    let set = async |name, definition| Scene::set(&node, &backend, &admin, (name, definition)).await;
    let scenes = (
        set("drop-head", r#"{"max-length": 10, "overflow": "drop-head"}"#).await,
        set("reject-publish", r#"{"max-length": 10, "overflow": "reject-publish"}"#).await,
        set("message-ttl", r#"{"message-ttl": 1000}"#).await,
        set("dead-letter-exchange", r#"{"dead-letter-exchange": "amq.fanout"}"#).await,
        // Last, for it must be used within its time.
        set("expires", r#"{"expires": 10000}"#).await,
    );
    tokio::join!(
        drop_head(scenes.0),
        reject_publish(scenes.1),
        message_ttl(scenes.2),
        dead_letter_exchange(scenes.3),
        expires(scenes.4),
    );
    assert_eq!(events.lost(), 0);
    clear(&backend, &admin, &[], &[]).await;
}
