//! What the programs on bare lapin publish: the message that queuey makes of a job, as one writes it by hand, or the payload
//! with hardly anything around it.

use std::time::SystemTime;

use anyhow::Result;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use queuey::prelude::*;
use uuid::Uuid;

use crate::work::Noop;

/// Which message a program on lapin publishes and reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// The same as queuey's.
    Same,
    /// The payload alone, with its content type and delivery mode.
    Bare,
}

/// A message that is to be published.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) body: Vec<u8>,
    pub(crate) properties: BasicProperties,
}

/// The body of the same message as queuey's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Envelope<'a> {
    job_id: Uuid,
    job_type: &'a str,
    queue: &'a str,
    pub(crate) attempt: u32,
    enqueued_at_ms: u64,
    deferrals: u32,
    priority: u8,
    pub(crate) payload: Noop,
}

impl Kind {
    /// The job of this number for its first attempt, under the name of `J`.
    pub(crate) fn message<J: Job>(self, queue: &str, number: u64) -> Result<Message> {
        let payload = Noop::from(number);
        match self {
            Kind::Same => Envelope::new(J::NAME, queue, payload)?.message(),
            Kind::Bare => Ok(Message { body: serde_json::to_vec(&payload)?, properties: persistent() }),
        }
    }

    /// The payload in a body.
    pub(crate) fn read(self, body: &[u8]) -> Result<Noop> {
        Ok(match self {
            Kind::Same => serde_json::from_slice::<Envelope<'_>>(body)?.payload,
            Kind::Bare => serde_json::from_slice(body)?,
        })
    }
}

impl<'a> Envelope<'a> {
    fn new(job_type: &'a str, queue: &'a str, payload: Noop) -> Result<Self> {
        Ok(Envelope {
            job_id: Uuid::now_v7(),
            job_type,
            queue,
            attempt: 1,
            enqueued_at_ms: now_ms()?,
            deferrals: 0,
            priority: 0,
            payload,
        })
    }

    pub(crate) fn message(&self) -> Result<Message> {
        let mut headers = FieldTable::default();
        headers.insert("x-attempt".into(), AMQPValue::LongUInt(self.attempt));
        headers.insert("x-deferrals".into(), AMQPValue::LongUInt(self.deferrals));
        let properties = persistent()
            .with_message_id(self.job_id.to_string().into())
            .with_type(self.job_type.into())
            .with_priority(self.priority)
            .with_timestamp(self.enqueued_at_ms / 1_000)
            .with_headers(headers);
        Ok(Message { body: serde_json::to_vec(self)?, properties })
    }
}

impl Message {
    /// The same for a hold queue, with the header that says when it is to come back.
    pub(crate) fn held(mut self, millis: u64) -> Result<Self> {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert("x-available-at-ms".into(), AMQPValue::LongLongInt((now_ms()? + millis) as i64));
        self.properties = self.properties.with_headers(headers);
        Ok(self)
    }
}

fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2).with_content_type("application/json".into())
}

fn now_ms() -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use queuey_tests::Admin;
    use serde_json::{Map, Value};

    use super::*;
    use crate::{bare, ours, work::BenchQueue};

    type Json = Map<String, Value>;

    #[test]
    fn the_body_is_the_one_that_queuey_writes() {
        let theirs = Kind::Same.message::<Noop>(BenchQueue::Plain.name(), 7).unwrap().body;
        let mut ours = queuey::Envelope::new(&Noop::from(7)).unwrap();
        let read = queuey::Envelope::from_bytes(&theirs).unwrap();
        (ours.job_id, ours.enqueued_at_ms) = (read.job_id, read.enqueued_at_ms);
        assert_eq!(String::from_utf8(theirs), String::from_utf8(ours.to_bytes()));
        assert_eq!(read.job_id.get_version_num(), 7);
    }

    #[test]
    fn each_kind_is_read_as_it_was_written() {
        for kind in [Kind::Same, Kind::Bare] {
            let body = kind.message::<Noop>("a queue", 7).unwrap().body;
            assert_eq!(kind.read(&body).unwrap().number, 7, "{kind:?}");
        }
        let bare = Kind::Bare.message::<Noop>("a queue", 7).unwrap();
        assert_eq!(bare.body, serde_json::to_vec(&Noop::from(7)).unwrap());
        assert_eq!(bare.properties, persistent());
    }

    #[tokio::test]
    async fn on_the_broker_both_sides_have_the_same_message() {
        let Some(url) = queuey_tests::shared_broker() else { return };
        let queue = format!("bench.{}", Uuid::now_v7().simple());
        let backend = ours::connect(&url).await.unwrap();
        backend.declare(&[QueueConfig::new(&queue).max_priority(0)]).await.unwrap();
        let mut envelope = queuey::Envelope::new(&Noop::from(7)).unwrap();
        envelope.queue = queue.clone();
        backend.publish(&envelope, None).await.unwrap();
        let connection = bare::connect(&url).await.unwrap();
        let channel = bare::confirming(&connection).await.unwrap();
        let message = Kind::Same.message::<Noop>(&queue, 7).unwrap();
        bare::publish(&channel, queue.as_str().into(), message).await.unwrap();
        let admin = Admin::new(&url);
        let messages = admin.take_all(&queue).await;
        admin.delete_all(&queue, &[]).await;
        bare::close(&connection).await.unwrap();
        backend.close().await.unwrap();
        let [ours, theirs] = messages.try_into().unwrap();
        assert_eq!(alike(ours), alike(theirs));
    }

    /// A message without what is another in each: its properties say it as its body does, and are the same then.
    fn alike(message: queuey_tests::Message) -> (Json, BasicProperties) {
        let mut body: Json = serde_json::from_slice(&message.body).unwrap();
        let (id, properties) = (body.remove("job_id").unwrap(), message.properties);
        assert_eq!(properties.message_id().as_ref().map(|id| id.as_str()), id.as_str());
        let enqueued = body.remove("enqueued_at_ms").unwrap().as_u64().unwrap();
        assert_eq!(*properties.timestamp(), Some(enqueued / 1_000));
        (body, properties.with_message_id("".into()).with_timestamp(0))
    }
}
