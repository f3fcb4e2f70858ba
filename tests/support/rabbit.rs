//! A world on a real broker, and an operator with a connection of its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::AMQPValue,
};
use queuey::{
    Backend, BoxFuture, DeliveryStream, Envelope, Health, QueueConfig, RabbitMqBackend, Result, topology,
};

use crate::{DeadBody, Operator, World};

/// The hold queues that the suite can come to use, in milliseconds: AMQP has no list of queues.
const HOLDS: [u32; 11] =
    [1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 8_000, 10_000, 20_000, 30_000, 2_147_483_000];

impl World {
    /// A backend on a broker.
    pub async fn rabbit(url: &str) -> Self {
        let backend = RabbitMqBackend::connect(url).await.expect("the broker is there");
        let recorded = Arc::new(Recorded { backend, queues: Mutex::default() });
        let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connected");
        let operator = Arc::new(RabbitOperator { connection, queues: recorded.clone() });
        World { backend: recorded, operator, slack: Duration::from_secs(20) }
    }

    /// Deletes what was made.
    pub async fn clean_up(world: &World, url: &str) {
        let _ = world.backend.close().await;
        let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connected");
        for queue in world.operator.made() {
            let channel = connection.create_channel().await.expect("a channel");
            let holds = HOLDS.iter().map(|ms| topology::deferred_queue_name(&queue, ".deferred", *ms));
            let dead = topology::dead_queue_name(&queue, ".dead");
            for name in holds.chain([dead, queue.clone()]) {
                let _ = channel.queue_delete(name.into(), QueueDeleteOptions::default()).await;
            }
        }
        let _ = connection.close(200, "done".into()).await;
    }
}

/// A backend that remembers which queues were declared on it.
struct Recorded {
    backend: RabbitMqBackend,
    queues: Mutex<Vec<String>>,
}

impl Backend for Recorded {
    fn declare<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.backend.declare(queues).await?;
            let names = queues.iter().map(|config| config.name.clone());
            self.queues.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
            Ok(())
        })
    }

    fn prepare_holds<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        self.backend.prepare_holds(queues)
    }

    fn publish<'a>(
        &'a self,
        envelope: &'a Envelope,
        delay: Option<std::time::Duration>,
    ) -> BoxFuture<'a, Result<()>> {
        self.backend.publish(envelope, delay)
    }

    fn publish_many<'a>(&'a self, envelopes: &'a [Envelope]) -> BoxFuture<'a, Vec<Result<()>>> {
        self.backend.publish_many(envelopes)
    }

    fn defer<'a>(&'a self, envelope: &'a Envelope, delay: std::time::Duration) -> BoxFuture<'a, Result<()>> {
        self.backend.defer(envelope, delay)
    }

    fn consume<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<DeliveryStream>> {
        self.backend.consume(queue)
    }

    fn flush<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<()>> {
        self.backend.flush(queue)
    }

    fn health(&self) -> BoxFuture<'_, Health> {
        self.backend.health()
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.backend.close()
    }
}

struct RabbitOperator {
    connection: Connection,
    queues: Arc<Recorded>,
}

impl RabbitOperator {
    /// A channel of its own for each look: a queue that is missing closes it.
    async fn channel(&self) -> Channel {
        self.connection.create_channel().await.expect("the operator is connected")
    }

    async fn count(&self, queue: &str) -> usize {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let found = self.channel().await.queue_declare(queue.into(), passive, Default::default()).await;
        found.map_or(0, |queue| queue.message_count() as usize)
    }
}

impl Operator for RabbitOperator {
    fn publish_bytes<'a>(&'a self, queue: &'a str, body: &'a [u8]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let channel = self.channel().await;
            channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
            let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
            let sent = channel.basic_publish("".into(), queue.into(), options, body, properties).await;
            sent.expect("sent").await.expect("confirmed");
        })
    }

    fn ready<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, usize> {
        Box::pin(self.count(queue))
    }

    fn held<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, usize> {
        Box::pin(async move {
            let mut held = 0;
            for ms in HOLDS {
                held += self.count(&topology::deferred_queue_name(queue, ".deferred", ms)).await;
            }
            held
        })
    }

    fn dead<'a>(&'a self, queue: &'a str) -> BoxFuture<'a, Vec<DeadBody>> {
        Box::pin(async move {
            let (channel, name) = (self.channel().await, topology::dead_queue_name(queue, ".dead"));
            let mut dead = Vec::new();
            // What is got and not acknowledged goes back when the channel is closed.
            while let Ok(Some(got)) =
                channel.basic_get(name.as_str().into(), BasicGetOptions::default()).await
            {
                let headers = got.properties.headers().clone().unwrap_or_default();
                let reason = match headers.inner().get(topology::HEADER_DEATH_REASON) {
                    Some(AMQPValue::LongString(text)) => text.to_string(),
                    _ => String::new(),
                };
                dead.push(DeadBody { body: got.data.clone(), reason });
            }
            let _ = channel.close(200, "seen".into()).await;
            dead
        })
    }

    fn made(&self) -> Vec<String> {
        self.queues.queues.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
