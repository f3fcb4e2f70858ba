//! What is lost comes back: connections, subscriptions, queues; and what is held is held. Needs the broker that `AMQP_URL`
//! names.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod raw;
mod relay;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use queuey_core::{Backend, Delivery, DeliveryStream, Envelope, Error, QueueConfig, Settlement};
use queuey_rabbitmq::{ConnectionEvent, RabbitMqBackend, RabbitMqOptions};
use relay::Relay;
use serde_json::value::to_raw_value;

const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    relay: Relay,
    backend: RabbitMqBackend,
    events: Arc<Mutex<Vec<ConnectionEvent>>>,
    config: QueueConfig,
    /// Past the relay.
    operator: Channel,
    _operators: Connection,
}

impl Scene {
    /// A backend behind a relay, with one queue declared; `None` without a broker.
    async fn set(label: &str, options: RabbitMqOptions) -> Option<Self> {
        let Ok(url) = std::env::var("AMQP_URL") else {
            assert!(std::env::var_os("QUEUEY_BROKER_REQUIRED").is_none(), "AMQP_URL names no broker");
            println!("skipped: AMQP_URL names no broker");
            return None;
        };
        let (relay, through) = Relay::start(&url).await;
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = events.clone();
        let options = options.on_event(move |event| heard.lock().unwrap().push(event));
        let backend = RabbitMqBackend::with_options(&through, options).await.unwrap();
        let config = QueueConfig::new(format!("test.recovery.{label}.{}", uuid::Uuid::now_v7().simple()));
        backend.declare(std::slice::from_ref(&config)).await.unwrap();
        let operators = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let operator = operators.create_channel().await.unwrap();
        Some(Scene { relay, backend, events, config, operator, _operators: operators })
    }

    fn job(&self, label: &str) -> Envelope {
        Envelope::raw("job", &self.config.name, to_raw_value(label).unwrap())
    }

    async fn publish(&self, label: &str) {
        self.backend.publish(&self.job(label), None).await.unwrap();
    }

    async fn consume(&self) -> DeliveryStream {
        self.backend.consume(&self.config).await.unwrap()
    }

    async fn delete(&self, queue: &str) {
        self.operator.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    fn heard(&self, wanted: impl Fn(&ConnectionEvent) -> bool) -> usize {
        self.events.lock().unwrap().iter().filter(|event| wanted(event)).count()
    }

    async fn end(self) {
        self.backend.close().await.unwrap();
        let name = &self.config.name;
        for queue in [name.clone(), format!("{name}.dead"), format!("{name}.deferred.1000")] {
            let _ = self.operator.queue_delete(queue.into(), QueueDeleteOptions::default()).await;
        }
    }
}

fn label(delivery: &dyn Delivery) -> String {
    serde_json::from_str(delivery.envelope().payload.get()).unwrap()
}

async fn next(stream: &mut DeliveryStream) -> Box<dyn Delivery> {
    tokio::time::timeout(30 * SECOND, stream.next()).await.expect("nothing came").unwrap().unwrap()
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < 30 * SECOND, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c01_a_lost_connection_comes_back_with_its_consumers() {
    let Some(scene) = Scene::set("c01", RabbitMqOptions::default()).await else { return };
    let mut stream = scene.consume().await;
    scene.publish("first").await;
    let held = next(&mut stream).await;
    for round in 0..3 {
        scene.relay.cut();
        scene.publish(&format!("after cut {round}")).await;
    }
    held.lost().await;
    assert!(held.ack().await.expect_err("acked over a lost channel").delivery.is_none());
    let mut labels = Vec::new();
    while labels.len() < 4 {
        let delivery = next(&mut stream).await;
        labels.push(label(&*delivery));
        // A cut that comes late may still lose this one.
        if delivery.ack().await.is_err() {
            labels.pop();
        }
    }
    labels.sort();
    assert_eq!(labels, ["after cut 0", "after cut 1", "after cut 2", "first"]);
    assert!(scene.heard(|event| matches!(event, ConnectionEvent::Recovered { .. })) >= 2);
    let health = scene.backend.health().await;
    assert!(health.connected && health.consuming == [scene.config.name.clone()], "{health:?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c06_a_queue_that_is_deleted_is_made_again_and_consumed() {
    let Some(scene) = Scene::set("c06", RabbitMqOptions::default()).await else { return };
    let mut stream = scene.consume().await;
    for round in 0..3 {
        scene.delete(&scene.config.name).await;
        until("it is told", || {
            scene.heard(|event| matches!(event, ConnectionEvent::ConsumerResumed { .. })) == round + 1
        })
        .await;
        scene.publish("after").await;
        next(&mut stream).await.ack().await.unwrap();
    }
    assert_eq!(scene.heard(|event| matches!(event, ConnectionEvent::ConnectionLost)), 0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c09_a_hold_queue_somebody_else_made_fails_only_what_needs_it() {
    let Some(scene) = Scene::set("c09", RabbitMqOptions::default()).await else { return };
    let foreign = format!("{}.deferred.3000", scene.config.name);
    let mut arguments = FieldTable::default();
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(5));
    scene
        .operator
        .queue_declare(foreign.as_str().into(), QueueDeclareOptions::default(), arguments)
        .await
        .unwrap();
    let mut stream = scene.consume().await;
    scene.publish("needs it").await;
    let delivery = next(&mut stream).await;
    let successor = delivery.envelope().next_attempt();
    let settling = tokio::spawn(delivery.settle(Settlement::Retry { next: successor, delay: 3 * SECOND }));
    for round in 0..5 {
        let error = scene.backend.publish(&scene.job("x"), Some(3 * SECOND)).await.expect_err("held");
        assert!(matches!(&error, Error::QueueMismatch { queue, .. } if *queue == foreign), "{error}");
        scene.backend.publish(&scene.job("x"), Some(SECOND)).await.unwrap();
        scene.publish(&format!("bystander {round}")).await;
        next(&mut stream).await.ack().await.unwrap();
    }
    assert!(!settling.is_finished());
    scene.delete(&foreign).await;
    settling.await.unwrap().unwrap();
    let again = loop {
        let delivery = next(&mut stream).await;
        if label(&*delivery) == "needs it" {
            break delivery;
        }
        delivery.ack().await.unwrap();
    };
    assert_eq!(again.envelope().attempt, 2);
    again.ack().await.unwrap();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r02_a_hold_whose_confirm_comes_late_is_made_again() {
    let Some(scene) = Scene::set("r02", RabbitMqOptions::default()).await else { return };
    let mut stream = scene.consume().await;
    for stall in [0, 400, 700, 1_200, 1_700, 1_900, 2_300] {
        let start = Instant::now();
        let job = scene.job(&stall.to_string());
        let holding = scene.backend.publish(&job, Some(SECOND));
        let stalling = async {
            scene.relay.stall_after(if stall == 0 { 0 } else { 1 });
            tokio::time::sleep(Duration::from_millis(stall)).await;
            scene.relay.resume();
        };
        let (held, ()) = tokio::join!(holding, stalling);
        held.unwrap();
        // It may have come twice; never early, and never not at all.
        let delivery = loop {
            let delivery = next(&mut stream).await;
            if label(&*delivery) == stall.to_string() {
                break delivery;
            }
            delivery.ack().await.unwrap();
        };
        assert!(start.elapsed() >= SECOND);
        delivery.ack().await.unwrap();
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_an_enqueue_while_the_broker_is_away_is_bounded_and_certain() {
    let options = RabbitMqOptions::default().publish_timeout(2 * SECOND);
    let Some(scene) = Scene::set("c11", options).await else { return };
    scene.relay.refuse(true);
    scene.relay.cut();
    until("the loss is noticed", || {
        scene.heard(|event| matches!(event, ConnectionEvent::ConnectionLost)) > 0
    })
    .await;
    for _ in 0..2 {
        let start = Instant::now();
        let error = scene.backend.publish(&scene.job("x"), None).await.expect_err("published");
        assert!(matches!(error, Error::NotConnected), "{error}");
        assert!(start.elapsed() < 5 * SECOND);
    }
    let health = scene.backend.health().await;
    assert!(!health.connected && health.reconnecting.is_some_and(|r| r.attempts > 0 && !r.reason.is_empty()));
    scene.relay.refuse(false);
    until("it is back", || scene.heard(|event| matches!(event, ConnectionEvent::Recovered { .. })) > 0).await;
    scene.publish("third").await;
    let delivery = next(&mut scene.consume().await).await;
    assert_eq!(label(&*delivery), "third");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_not_be_read_suspends_its_queue_and_no_other() {
    let Some(scene) = Scene::set("unreadable", RabbitMqOptions::default()).await else { return };
    let poisoned = QueueConfig::new(format!("{}.poisoned", scene.config.name));
    scene.backend.declare(std::slice::from_ref(&poisoned)).await.unwrap();
    let _poisoned_stream = scene.backend.consume(&poisoned).await.unwrap();
    let mut stream = scene.consume().await;
    let url = std::env::var("AMQP_URL").unwrap();
    raw::publish_unreadable(&url, &poisoned.name);
    let start = Instant::now();
    let suspended = loop {
        let health = scene.backend.health().await;
        if !health.suspended.is_empty() && health.consuming == [scene.config.name.clone()] {
            break health.suspended;
        }
        assert!(start.elapsed() < 30 * SECOND, "{health:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(suspended[0].0, poisoned.name);
    scene.publish("healthy").await;
    next(&mut stream).await.ack().await.unwrap();
    for queue in [poisoned.name.clone(), format!("{}.dead", poisoned.name)] {
        scene.delete(&queue).await;
    }
    scene.end().await;
}
