//! Settings that change what is on the broker. Needs the broker that `AMQP_URL` names.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

use std::time::Duration;

use futures_util::StreamExt;
use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{BasicGetOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use queuey_core::{Backend, DeadLetterCause, Delivery, Envelope, Error, QueueConfig, Settlement};
use queuey_rabbitmq::{DeadLetters, RabbitMqBackend, RabbitMqOptions, TopologyMode};

struct Scene {
    backend: RabbitMqBackend,
    config: QueueConfig,
    operator: Channel,
    _operators: Connection,
}

impl Scene {
    /// A backend and a queue that is not declared yet; `None` without a broker.
    async fn set(label: &str, options: RabbitMqOptions) -> Option<Self> {
        let Ok(url) = std::env::var("AMQP_URL") else {
            assert!(std::env::var_os("QUEUEY_BROKER_REQUIRED").is_none(), "AMQP_URL names no broker");
            println!("skipped: AMQP_URL names no broker");
            return None;
        };
        let backend = RabbitMqBackend::with_options(&url, options).await.unwrap();
        let config = QueueConfig::new(format!("test.modes.{label}.{}", uuid::Uuid::now_v7().simple()));
        let operators = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let operator = operators.create_channel().await.unwrap();
        Some(Scene { backend, config, operator, _operators: operators })
    }

    /// Makes a queue as an operator does.
    async fn make(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        for (argument, value) in arguments {
            table.insert((*argument).into(), value.clone());
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.operator.queue_declare(name.into(), durable, table).await.unwrap();
    }

    async fn declare(&self) -> queuey_core::Result<()> {
        self.backend.declare(std::slice::from_ref(&self.config)).await
    }

    fn job(&self) -> Envelope {
        Envelope::raw("job", &self.config.name, Default::default())
    }

    async fn delivery(&self) -> Box<dyn Delivery> {
        self.backend.publish(&self.job(), None).await.unwrap();
        let mut stream = self.backend.consume(&self.config).await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), stream.next()).await.unwrap().unwrap().unwrap()
    }

    /// Whether something comes to be on a queue; it is taken off.
    async fn has(&self, queue: &str) -> bool {
        for _ in 0..200 {
            let got = self.operator.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await;
            if got.unwrap().is_some() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        false
    }

    async fn end(self) {
        self.backend.close().await.unwrap();
        let name = &self.config.name;
        for queue in [name.clone(), format!("{name}.dead"), format!("{name}.elsewhere")] {
            let _ = self.operator.queue_delete(queue.into(), QueueDeleteOptions::default()).await;
        }
    }
}

fn fatal() -> Settlement {
    Settlement::DeadLetter { cause: DeadLetterCause::Fatal, reason: "broken".into() }
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_names_every_queue_that_is_missing_and_makes_none() {
    let options = RabbitMqOptions::default().topology(TopologyMode::Verify);
    let Some(scene) = Scene::set("verify", options).await else { return };
    let name = scene.config.name.clone();
    let error = queuey_error(&scene.declare().await.expect_err("found"));
    assert!(error.contains(&format!("{name}.dead, {name}")), "{error}");
    scene.make(&name, &[]).await;
    let error = queuey_error(&scene.declare().await.expect_err("found"));
    assert!(error.contains(&format!("{name}.dead")) && !error.contains(&format!(" {name}\n")), "{error}");
    scene.make(&format!("{name}.dead"), &[]).await;
    scene.declare().await.unwrap();
    scene.delivery().await.settle(fatal()).await.unwrap();
    assert!(scene.has(&format!("{name}.dead")).await);
    scene.end().await;
}

/// An error with its source.
fn queuey_error(error: &Error) -> String {
    format!("{error}: {}", std::error::Error::source(error).map(ToString::to_string).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn assume_asks_nothing() {
    let options = RabbitMqOptions::default().topology(TopologyMode::Assume);
    let Some(scene) = Scene::set("assume", options).await else { return };
    scene.declare().await.unwrap();
    let error = scene.backend.publish(&scene.job(), None).await.expect_err("published");
    assert!(matches!(error, Error::Unroutable { .. }), "{error}");
    scene.make(&scene.config.name, &[]).await;
    scene.delivery().await.ack().await.unwrap();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_dead_letters_take_the_route_of_the_operator() {
    let options = RabbitMqOptions::default().topology(TopologyMode::Assume).dead_letters(DeadLetters::Reject);
    let Some(scene) = Scene::set("reject", options).await else { return };
    let elsewhere = format!("{}.elsewhere", scene.config.name);
    scene.make(&elsewhere, &[]).await;
    let route = [
        ("x-dead-letter-exchange", AMQPValue::LongString("".into())),
        ("x-dead-letter-routing-key", AMQPValue::LongString(elsewhere.as_str().into())),
    ];
    scene.make(&scene.config.name, &route).await;
    scene.declare().await.unwrap();
    scene.delivery().await.settle(fatal()).await.unwrap();
    scene.backend.flush(&scene.config).await.unwrap();
    assert!(scene.has(&elsewhere).await);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_queue_that_was_deleted_is_made_again() {
    let Some(scene) = Scene::set("dead", RabbitMqOptions::default()).await else { return };
    scene.declare().await.unwrap();
    let (delivery, dead) = (scene.delivery().await, format!("{}.dead", scene.config.name));
    scene.operator.queue_delete(dead.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    delivery.settle(fatal()).await.unwrap();
    assert!(scene.has(&dead).await);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o02_a_full_queue_refuses_an_enqueue_and_keeps_a_retry_waiting() {
    let options = RabbitMqOptions::default().topology(TopologyMode::Assume);
    let Some(scene) = Scene::set("full", options).await else { return };
    let full = [
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    scene.make(&scene.config.name, &full).await;
    scene.declare().await.unwrap();
    let delivery = scene.delivery().await;
    scene.backend.flush(&scene.config).await.unwrap();
    scene.backend.publish(&scene.job(), None).await.unwrap();
    let error = scene.backend.publish(&scene.job(), None).await.expect_err("published");
    assert!(matches!(&error, Error::Refused { queue } if *queue == scene.config.name), "{error}");
    let next = delivery.envelope().next_attempt();
    let mut settling = delivery.settle(Settlement::Retry { next, delay: Duration::ZERO });
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut settling).await.is_err());
    assert!(scene.has(&scene.config.name).await, "room for the retry");
    settling.await.unwrap();
    scene.end().await;
}
