//! What the programs on bare lapin have in common, written as one writes them by hand.

use std::{future::Future, sync::Arc};

use anyhow::{Result, bail, ensure};
use futures_util::StreamExt;
use lapin::{
    Channel, Confirmation, Connection, ConnectionProperties,
    message::Delivery,
    options::{
        BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable, ShortString},
};
use queuey::prelude::*;

use crate::{
    measure::Tally,
    message::{Kind, Message},
    work::PREFETCH,
};

/// How many confirms are in flight where a queue is only filled.
const FILLING: usize = 1_000;

pub(crate) async fn connect(url: &str) -> Result<Connection> {
    let properties = ConnectionProperties::default().with_connection_name("bench (lapin)".into());
    Ok(Connection::connect(url, properties).await?)
}

/// Closes a connection with its channels. A channel that was dropped before is closing by itself, which this does not wait for.
pub(crate) async fn close(connection: &Connection) -> Result<()> {
    Ok(connection.close(200, "done".into()).await?)
}

/// A channel that confirms.
pub(crate) async fn confirming(connection: &Connection) -> Result<Channel> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok(channel)
}

/// Declares a durable classic queue, with priorities where there are any.
pub(crate) async fn declare(channel: &Channel, queue: &str, priorities: u8) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
    if priorities > 0 {
        arguments.insert("x-max-priority".into(), AMQPValue::LongInt(priorities.into()));
    }
    channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), arguments).await?;
    Ok(())
}

/// Publishes a persistent, mandatory message and waits for its confirm.
pub(crate) async fn publish(channel: &Channel, queue: ShortString, message: Message) -> Result<()> {
    let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let Message { body, properties } = message;
    let confirmed = channel.basic_publish("".into(), queue, mandatory, &body, properties).await?.await?;
    ensure!(confirmed == Confirmation::Ack(None), "not confirmed: {confirmed:?}");
    Ok(())
}

/// Publishes with a window of confirms, which slides: as soon as one has come, the next message is published.
pub(crate) async fn publish_all(
    channel: &Channel,
    queue: &ShortString,
    messages: impl Iterator<Item = Result<Message>>,
    window: usize,
) -> Result<()> {
    let publishes = messages.map(|message| async move { publish(channel, queue.clone(), message?).await });
    let mut confirmed = futures_util::stream::iter(publishes).buffer_unordered(window);
    while let Some(outcome) = confirmed.next().await {
        outcome?;
    }
    Ok(())
}

/// Declares the queue of a job with this many of them on it.
pub(crate) async fn fill<J: Job>(url: &str, kind: Kind, priorities: u8, jobs: u64) -> Result<()> {
    let queue = J::QUEUE.name();
    let connection = connect(url).await?;
    let channel = confirming(&connection).await?;
    declare(&channel, queue, priorities).await?;
    publish_all(&channel, &queue.into(), (0..jobs).map(|number| kind.message::<J>(queue, number)), FILLING)
        .await?;
    close(&connection).await
}

/// Consumes until `jobs` deliveries have come to their end.
pub(crate) async fn consume<F>(
    channel: &Channel,
    queue: &str,
    jobs: u64,
    handle: impl Fn(Delivery) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let tally = Arc::new(Tally::of(jobs));
    tokio::select! {
        ended = receive(channel, queue, tally.clone(), handle) => ended,
        done = tally.done() => done,
    }
}

/// Receives with a task per delivery, as many at once as the prefetch allows, for as long as it is polled.
pub(crate) async fn receive<F>(
    channel: &Channel,
    queue: &str,
    tally: Arc<Tally>,
    handle: impl Fn(Delivery) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (tag, options) = ("bench".into(), BasicConsumeOptions::default());
    let mut consumer = channel.basic_consume(queue.into(), tag, options, FieldTable::default()).await?;
    while let Some(delivery) = consumer.next().await {
        let (job, tally) = (handle(delivery?), tally.clone());
        tokio::spawn(async move { tally.outcome(job.await) });
    }
    bail!("the consumer has ended")
}

/// How many messages are ready on a queue.
pub(crate) async fn ready(url: &str, queue: &str) -> Result<u64> {
    let connection = connect(url).await?;
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let channel = connection.create_channel().await?;
    let ready = channel.queue_declare(queue.into(), passive, FieldTable::default()).await?.message_count();
    close(&connection).await?;
    Ok(ready.into())
}

/// Deletes queues with all that is on them. Where there is none, nothing happens.
pub(crate) async fn delete(url: &str, queues: &[String]) -> Result<()> {
    let connection = connect(url).await?;
    let channel = connection.create_channel().await?;
    for queue in queues {
        channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
    }
    close(&connection).await
}
