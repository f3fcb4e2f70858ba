//! That the support of these tests does what they rely on.

mod admin;
mod node;
mod proxy;

use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};
use queuey_tests::Admin;

/// A queue that goes by itself, should its test fail before it deletes it.
async fn declare(admin: &Admin, queue: &str) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-expires".into(), AMQPValue::LongInt(600_000));
    admin.declare(queue, arguments).await.unwrap();
}

/// A client as the one that is tested would be: with confirms, and no patience with errors.
struct Client {
    connection: Connection,
    channel: Channel,
}

impl Client {
    async fn connect(url: &str) -> lapin::Result<Self> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Client { connection, channel })
    }

    /// Publishes and waits for the confirm.
    async fn publish(&self, queue: &str, body: &[u8]) -> lapin::Result<bool> {
        let properties = lapin::BasicProperties::default().with_delivery_mode(2);
        let options = BasicPublishOptions::default();
        let confirm = self.channel.basic_publish("".into(), queue.into(), options, body, properties).await?;
        Ok(confirm.await?.is_ack())
    }
}
