//! What is owed to those who call a backend directly.

pub(crate) mod delays;
pub(crate) mod errors;
pub(crate) mod order;
pub(crate) mod settling;

use std::time::Duration;

use futures_util::StreamExt;
use queuey::{Delivery, DeliveryStream, Envelope, Error, QueueConfig, Result, SettleError, Settlement};
use queuey_tests::{World, unique};
use serde_json::value::to_raw_value;

/// A queue of this case alone.
fn queue(case: &str) -> QueueConfig {
    QueueConfig::new(unique("backend", case)).prefetch(100)
}

async fn declared(world: &World, config: &QueueConfig) {
    world.backend.declare(std::slice::from_ref(config)).await.expect("declared");
}

/// A job for a queue; its payload tells it from others.
fn job(config: &QueueConfig, label: &str) -> Envelope {
    Envelope::raw("job", &config.name, to_raw_value(label).expect("text is JSON"))
}

fn with_priority(mut envelope: Envelope, priority: u8) -> Envelope {
    envelope.priority = priority;
    envelope
}

async fn publish(world: &World, envelope: &Envelope) {
    world.backend.publish(envelope, None).await.expect("published");
}

async fn consumer(world: &World, config: &QueueConfig) -> DeliveryStream {
    world.backend.consume(config).await.expect("consumed")
}

/// The next item, however long it takes.
async fn next_item(stream: &mut DeliveryStream) -> Option<Result<Box<dyn Delivery>>> {
    tokio::time::timeout(Duration::from_secs(60), stream.next()).await.expect("nothing came")
}

async fn next(stream: &mut DeliveryStream) -> Box<dyn Delivery> {
    next_item(stream).await.expect("the stream ended").expect("an error came")
}

/// Whether nothing comes for a second.
async fn is_quiet(stream: &mut DeliveryStream) -> bool {
    tokio::time::timeout(Duration::from_secs(1), stream.next()).await.is_err()
}

fn label(delivery: &dyn Delivery) -> String {
    serde_json::from_str(delivery.envelope().payload.get()).expect("payloads here are text")
}

async fn settle(delivery: Box<dyn Delivery>, settlement: Settlement) {
    delivery.settle(settlement).await.expect("settled");
}

/// Takes and acknowledges the next `count` jobs; gives their labels.
async fn drain(stream: &mut DeliveryStream, count: usize) -> Vec<String> {
    let mut labels = Vec::new();
    for _ in 0..count {
        let delivery = next(stream).await;
        labels.push(label(&*delivery));
        delivery.ack().await.expect("acked");
    }
    labels
}

fn refused(result: Result<()>) -> Error {
    result.expect_err("not refused")
}

fn given_back(result: Result<(), SettleError>) -> (Error, Box<dyn Delivery>) {
    let SettleError { error, delivery } = result.expect_err("settled");
    (error, delivery.expect("given back"))
}
