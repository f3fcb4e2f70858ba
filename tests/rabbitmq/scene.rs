//! What the cases share: a backend whose events are kept, jobs that are only a label, and the tidying up.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use lapin::types::{AMQPValue, FieldTable};
use queuey::{
    Backend, ConnectionEvent, Delivery, DeliveryStream, Envelope, QueueConfig, RabbitMqBackend,
    RabbitMqOptions, topology,
};
use queuey_tests::Admin;
use serde_json::value::to_raw_value;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// How late anything may be on a busy machine.
pub(crate) const SLACK: Duration = Duration::from_secs(20);

/// Whether the long forms of the cases are to be run.
pub(crate) fn is_long() -> bool {
    std::env::var_os("QUEUEY_TEST_LONG").is_some()
}

/// What a backend told of its connections, and when.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<(Instant, ConnectionEvent)>>>);

impl Events {
    pub(crate) fn all(&self) -> Vec<(Instant, ConnectionEvent)> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, wanted: impl Fn(&ConnectionEvent) -> bool) -> usize {
        self.all().iter().filter(|(_, event)| wanted(event)).count()
    }

    /// How often a connection was lost.
    pub(crate) fn lost(&self) -> usize {
        self.count(|event| matches!(event, ConnectionEvent::ConnectionLost))
    }
}

/// A backend whose events are kept.
pub(crate) async fn connect(url: &str, options: RabbitMqOptions) -> (Arc<RabbitMqBackend>, Events) {
    let events = Events::default();
    let heard = events.clone();
    let options = options.on_event(move |event| heard.0.lock().unwrap().push((Instant::now(), event)));
    (Arc::new(RabbitMqBackend::with_options(url, options).await.unwrap()), events)
}

/// A job whose payload is a label.
pub(crate) fn job(config: &QueueConfig, label: &str) -> Envelope {
    Envelope::raw("job", &config.name, to_raw_value(label).unwrap())
}

pub(crate) fn label(delivery: &dyn Delivery) -> String {
    serde_json::from_str(delivery.envelope().payload.get()).unwrap()
}

pub(crate) async fn next(stream: &mut DeliveryStream) -> Box<dyn Delivery> {
    tokio::time::timeout(3 * SLACK, stream.next()).await.expect("nothing came").unwrap().unwrap()
}

/// Takes and acknowledges the next jobs; gives their labels.
pub(crate) async fn drain(stream: &mut DeliveryStream, count: usize) -> Vec<String> {
    let mut labels = Vec::new();
    for _ in 0..count {
        let delivery = next(stream).await;
        labels.push(label(&*delivery));
        delivery.ack().await.unwrap();
    }
    labels
}

pub(crate) fn table(arguments: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert((*name).into(), value.clone());
    }
    table
}

pub(crate) fn dead(queue: &str) -> String {
    topology::dead_queue_name(queue, ".dead")
}

pub(crate) fn hold(queue: &str, wait: Duration) -> String {
    topology::deferred_queue_name(queue, ".deferred", u32::try_from(wait.as_millis()).unwrap())
}

/// Closes a backend and deletes queues with what belongs to them: dead letters, and holds of these times.
pub(crate) async fn clear(backend: &RabbitMqBackend, admin: &Admin, queues: &[&str], holds: &[Duration]) {
    backend.close().await.unwrap();
    for queue in queues {
        for name in holds.iter().map(|wait| hold(queue, *wait)).chain([dead(queue), (*queue).to_owned()]) {
            admin.delete(&name).await;
        }
    }
}
