//! An operator with a client of his own: looks at queues, and puts anything on them.

use std::{fmt, time::Duration};

use futures_util::future::join_all;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Error, ErrorKind,
    options::{
        BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::FieldTable,
};
use queuey::topology;
use tokio::sync::Mutex;

/// A client of a broker that shares nothing with what is tested. It connects when it is used, and again after the broker was
/// away.
pub struct Admin {
    url: String,
    connection: Mutex<Option<Connection>>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admin")
    }
}

/// A message that was got from a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its body.
    pub body: Vec<u8>,
    /// Its properties, the headers among them.
    pub properties: BasicProperties,
    /// Whether the broker flags it as redelivered.
    pub redelivered: bool,
}

/// What a queue has, as a passive declare tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// How many messages are ready.
    pub ready: u32,
    /// How many consumers there are.
    pub consumers: u32,
}

impl Admin {
    /// A client of the broker at an AMQP URL.
    pub fn new(url: &str) -> Self {
        Admin { url: url.to_owned(), connection: Mutex::new(None) }
    }

    /// What a queue has; `None` where it does not exist.
    pub async fn queue(&self, queue: &str) -> Option<QueueState> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let channel = self.channel().await;
        match channel.queue_declare(queue.into(), passive, FieldTable::default()).await {
            Ok(queue) => {
                close(&channel).await;
                Some(QueueState { ready: queue.message_count(), consumers: queue.consumer_count() })
            }
            Err(error) if is_missing(&error) => None,
            Err(error) => panic!("{queue}: {error}"),
        }
    }

    /// Whether a queue exists.
    pub async fn exists(&self, queue: &str) -> bool {
        self.queue(queue).await.is_some()
    }

    /// How many messages are ready on a queue; none where it does not exist.
    pub async fn ready(&self, queue: &str) -> u32 {
        self.queue(queue).await.map_or(0, |state| state.ready)
    }

    /// Declares a durable queue.
    ///
    /// # Errors
    ///
    /// What the broker says against it.
    pub async fn declare(&self, queue: &str, arguments: FieldTable) -> Result<(), Error> {
        self.make(queue, QueueDeclareOptions::durable(), arguments).await
    }

    /// Declares a queue that ends with its broker.
    ///
    /// # Errors
    ///
    /// What the broker says against it.
    pub async fn declare_transient(&self, queue: &str, arguments: FieldTable) -> Result<(), Error> {
        self.make(queue, QueueDeclareOptions::default(), arguments).await
    }

    async fn make(
        &self,
        queue: &str,
        options: QueueDeclareOptions,
        arguments: FieldTable,
    ) -> Result<(), Error> {
        let channel = self.channel().await;
        channel.queue_declare(queue.into(), options, arguments).await?;
        close(&channel).await;
        Ok(())
    }

    /// Publishes a message straight to a queue, and waits for the confirm.
    ///
    /// # Panics
    ///
    /// When the queue does not exist, or the broker does not take it.
    pub async fn publish(&self, queue: &str, body: &[u8], properties: BasicProperties) {
        let channel = self.channel().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms can be had");
        let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirm = channel.basic_publish("".into(), queue.into(), mandatory, body, properties).await;
        let confirm = confirm.expect("it is sent").await.expect("it is answered");
        assert!(matches!(confirm, Confirmation::Ack(None)), "{queue}: {confirm:?}");
        close(&channel).await;
    }

    /// Takes all ready messages off a queue, in their order; none where it does not exist.
    pub async fn take_all(&self, queue: &str) -> Vec<Message> {
        self.get_all(queue, true).await
    }

    /// Looks at all ready messages of a queue and gives them back, in their order. They are flagged as redelivered then, and
    /// a quorum queue counts it.
    pub async fn look_at_all(&self, queue: &str) -> Vec<Message> {
        self.get_all(queue, false).await
    }

    /// Deletes a queue with all that is in it. Where there is none, nothing happens.
    pub async fn delete(&self, queue: &str) {
        let channel = self.channel().await;
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.expect("it is deleted");
        close(&channel).await;
    }

    /// Deletes a queue that queuey has made, with its dead letters and its holds of these times.
    pub async fn delete_all(&self, queue: &str, holds: &[Duration]) {
        self.delete(queue).await;
        self.delete(&topology::dead_queue_name(queue, ".dead")).await;
        for hold in holds {
            let ms = u32::try_from(hold.as_millis()).expect("a hold queue has such a time");
            self.delete(&topology::deferred_queue_name(queue, ".deferred", ms)).await;
        }
    }

    async fn get_all(&self, queue: &str, no_ack: bool) -> Vec<Message> {
        /// How many are asked for at a time.
        const AT_ONCE: usize = 64;
        let channel = self.channel().await;
        let mut messages = Vec::new();
        let mut empty = false;
        while !empty {
            let get = |_| channel.basic_get(queue.into(), BasicGetOptions { no_ack });
            for got in join_all((0..AT_ONCE).map(get)).await {
                match got {
                    Ok(Some(got)) => messages.push(Message {
                        body: got.delivery.data,
                        properties: got.delivery.properties,
                        redelivered: got.delivery.redelivered,
                    }),
                    Ok(None) => empty = true,
                    Err(error) if is_missing(&error) => return messages,
                    Err(error) => panic!("{queue}: {error}"),
                }
            }
        }
        // Whatever is not acknowledged goes back.
        close(&channel).await;
        messages
    }

    /// A channel for one step. A refusal closes the channel, so none is kept.
    async fn channel(&self) -> Channel {
        let mut connection = self.connection.lock().await;
        if let Some(live) = &*connection
            && let Ok(channel) = live.create_channel().await
        {
            return channel;
        }
        let properties = ConnectionProperties::default().with_connection_name("admin".into());
        let new = Connection::connect(&self.url, properties).await.expect("the broker is there");
        connection.insert(new).create_channel().await.expect("a channel is opened")
    }
}

async fn close(channel: &Channel) {
    channel.close(200, "done".into()).await.expect("the channel is closed");
}

fn is_missing(error: &Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else { return false };
    matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
}
