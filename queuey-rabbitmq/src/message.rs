//! Envelope and AMQP message, each from the other. Everything written here has a bound: a content header can't be split
//! into frames, and one that is too large costs the whole connection.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use lapin::{
    BasicProperties,
    message::BasicReturnMessage,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};
use queuey_core::{Envelope, Error, Result};
use uuid::Uuid;

use crate::topology::short;

/// The attempt that comes next.
pub const HEADER_ATTEMPT: &str = "x-attempt";
/// How often the job has deferred itself.
pub const HEADER_DEFERRALS: &str = "x-deferrals";
/// When a held job is to come back, in milliseconds since the Unix epoch.
pub const HEADER_AVAILABLE_AT_MS: &str = "x-available-at-ms";
/// Why a job became a dead letter, for people.
pub const HEADER_DEATH_REASON: &str = "x-death-reason";
/// Why a job became a dead letter, for programs: `fatal`, `exhausted`, `malformed`…
pub const HEADER_DEATH_CAUSE: &str = "x-death-cause";
/// What was wrong with a message that is no envelope.
pub const HEADER_DEATH_DETAIL: &str = "x-death-detail";
/// The queue a dead letter was consumed from.
pub const HEADER_ORIGINAL_QUEUE: &str = "x-original-queue";
/// The attempt a dead letter had come to.
pub const HEADER_ATTEMPTS: &str = "x-attempts";
/// When a job became a dead letter.
pub const HEADER_DEAD_AT: &str = "x-dead-at";
/// How often a quorum queue has handed a message out before; the broker writes it.
pub const HEADER_DELIVERY_COUNT: &str = "x-delivery-count";

/// The longest header that is written.
const MAX_HEADER: usize = 8 * 1024;

/// What is kept of foreign headers, in bytes.
const MAX_FOREIGN_HEADERS: usize = 32 * 1024;

/// How deep foreign headers may be nested to be kept.
const MAX_NESTING: usize = 8;

const MAX_SHORT: usize = 255;

const PERSISTENT: u8 = 2;
const TRANSIENT: u8 = 1;

/// A message that is to be published over the default exchange.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The queue it goes to.
    pub(crate) queue: ShortString,
    /// What its return is known by, together with the queue.
    pub(crate) id: ShortString,
    /// The job it carries, for errors; nil for a message that is none.
    pub(crate) job_id: Uuid,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Arc<[u8]>,
}

impl Message {
    /// A job for a queue.
    ///
    /// # Errors
    ///
    /// What an envelope can't carry over AMQP: a long correlation id, a long queue name.
    pub(crate) fn job(envelope: &Envelope, queue: &str, durable: bool) -> Result<Self> {
        envelope.check()?;
        let id = ShortString::from(envelope.job_id.to_string());
        let mut headers = FieldTable::default();
        headers.insert(HEADER_ATTEMPT.into(), AMQPValue::LongUInt(envelope.attempt));
        headers.insert(HEADER_DEFERRALS.into(), AMQPValue::LongUInt(envelope.deferrals));
        let mut properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(if durable { PERSISTENT } else { TRANSIENT })
            .with_message_id(id.clone())
            .with_type(cut_short(&envelope.job_type))
            .with_priority(envelope.priority)
            .with_timestamp(envelope.enqueued_at_ms / 1_000)
            .with_headers(headers);
        if let Some(correlation_id) = &envelope.correlation_id {
            properties = properties.with_correlation_id(cut_short(correlation_id));
        }
        let body = envelope.to_bytes().into();
        Ok(Message { queue: short(queue)?, id, job_id: envelope.job_id, properties, body })
    }

    /// The same at another place in its queue than its envelope says.
    pub(crate) fn at_priority(mut self, priority: u8) -> Self {
        self.properties = self.properties.with_priority(priority);
        self
    }

    /// The same, held: it goes to a hold queue, and says when it is to come back.
    pub(crate) fn held(&self, hold_queue: &ShortString, available_at_ms: u64) -> Self {
        let header = AMQPValue::LongLongInt(i64::try_from(available_at_ms).unwrap_or(i64::MAX));
        self.clone().to(hold_queue).with_header(HEADER_AVAILABLE_AT_MS, header)
    }

    /// A dead letter: the job as its last attempt saw it, and why it is one.
    pub(crate) fn dead(envelope: &Envelope, death: &Death<'_>) -> Result<Self> {
        let message = Message::job(envelope, death.queue, true)?;
        let attempts = AMQPValue::LongUInt(envelope.attempt);
        Ok(message.to(&short(death.dead_queue)?).with_death(death).with_header(HEADER_ATTEMPTS, attempts))
    }

    /// A message that is no envelope, byte for byte, and why it was put aside.
    pub(crate) fn malformed(foreign: Foreign, death: &Death<'_>) -> Result<Self> {
        let (id, dead_queue) = (ShortString::from(Uuid::now_v7().to_string()), short(death.dead_queue)?);
        let properties = kept(&foreign.properties).with_message_id(id.clone()).with_delivery_mode(PERSISTENT);
        let message =
            Message { queue: dead_queue, id, job_id: Uuid::nil(), properties, body: foreign.body.into() };
        Ok(message.with_death(death))
    }

    /// Whether this is what the broker returned.
    pub(crate) fn is(&self, returned: &BasicReturnMessage) -> bool {
        returned.properties.message_id().as_ref() == Some(&self.id) && returned.routing_key == self.queue
    }

    /// Whether it is no job, so that all of it but the id may be anybody's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.job_id.is_nil()
    }

    fn to(mut self, queue: &ShortString) -> Self {
        self.queue = queue.clone();
        self
    }

    fn with_death(self, death: &Death<'_>) -> Self {
        let message = self
            .with_header(HEADER_DEATH_REASON, text(death.reason))
            .with_header(HEADER_DEATH_CAUSE, text(death.cause))
            .with_header(HEADER_ORIGINAL_QUEUE, text(death.queue))
            .with_header(HEADER_DEAD_AT, AMQPValue::Timestamp(now_ms() / 1_000));
        match death.detail {
            Some(detail) => message.with_header(HEADER_DEATH_DETAIL, text(detail)),
            None => message,
        }
    }

    fn with_header(mut self, name: &str, value: AMQPValue) -> Self {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name.into(), value);
        self.properties = self.properties.with_headers(headers);
        self
    }

    /// The error for a queue that is not there.
    pub(crate) fn unroutable(&self) -> Error {
        Error::Unroutable { job_id: self.job_id, queue: self.queue.to_string() }
    }
}

/// Why a message goes to a dead-letter queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Death<'a> {
    /// The queue it was consumed from.
    pub(crate) queue: &'a str,
    pub(crate) dead_queue: &'a str,
    pub(crate) cause: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) detail: Option<&'a str>,
}

/// A message as it was received.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
}

/// How often the broker has handed a message out before, where it counts.
pub(crate) fn delivery_count(properties: &BasicProperties) -> Option<u32> {
    let value = properties.headers().as_ref()?.inner().get(HEADER_DELIVERY_COUNT)?;
    let count = match value {
        AMQPValue::ShortShortInt(n) => i64::from(*n),
        AMQPValue::ShortShortUInt(n) => i64::from(*n),
        AMQPValue::ShortInt(n) => i64::from(*n),
        AMQPValue::ShortUInt(n) => i64::from(*n),
        AMQPValue::LongInt(n) => i64::from(*n),
        AMQPValue::LongUInt(n) => i64::from(*n),
        AMQPValue::LongLongInt(n) => *n,
        _ => return None,
    };
    Some(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

/// What is kept of the properties of a foreign message.
fn kept(foreign: &BasicProperties) -> BasicProperties {
    let mut properties = BasicProperties::default().with_headers(kept_headers(foreign.headers().as_ref()));
    macro_rules! keep {
        ($($property:ident: $with:ident),+) => {
            $(if let Some(value) = foreign.$property() {
                properties = properties.$with(value.clone());
            })+
        };
    }
    keep!(
        content_type: with_content_type,
        content_encoding: with_content_encoding,
        kind: with_type,
        correlation_id: with_correlation_id,
        reply_to: with_reply_to,
        app_id: with_app_id,
        timestamp: with_timestamp
    );
    properties
}

/// The foreign headers that fit, but for the broker's own bookkeeping and for names we write ourselves.
fn kept_headers(foreign: Option<&FieldTable>) -> FieldTable {
    let mut headers = FieldTable::default();
    let mut room = MAX_FOREIGN_HEADERS;
    for (name, value) in foreign.into_iter().flat_map(|table| table.inner()) {
        if is_reserved(name.as_str()) {
            continue;
        }
        let Some(size) = size(value, MAX_NESTING).map(|size| size + name.as_str().len() + 1) else {
            continue;
        };
        if let Some(left) = room.checked_sub(size) {
            room = left;
            headers.insert(name.clone(), value.clone());
        }
    }
    headers
}

/// Names that mean something to the broker or to us: copied, they would route, loop or lie.
fn is_reserved(name: &str) -> bool {
    const OURS: [&str; 8] = [
        HEADER_ATTEMPT,
        HEADER_DEFERRALS,
        HEADER_AVAILABLE_AT_MS,
        HEADER_ORIGINAL_QUEUE,
        HEADER_ATTEMPTS,
        HEADER_DEAD_AT,
        HEADER_DELIVERY_COUNT,
        "x-acquired-count",
    ];
    name == "CC"
        || name == "BCC"
        || name.starts_with("x-death")
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
        || OURS.contains(&name)
}

/// The bytes a value takes on the wire; `None` for what is nested too deep or can't be written.
fn size(value: &AMQPValue, nesting: usize) -> Option<usize> {
    let payload = match value {
        AMQPValue::LongString(text) => 4 + text.len(),
        AMQPValue::ByteArray(bytes) => 4 + bytes.as_slice().len(),
        AMQPValue::ShortString(_) => return None,
        AMQPValue::FieldArray(array) => {
            let nesting = nesting.checked_sub(1)?;
            array.as_slice().iter().map(|value| size(value, nesting)).sum::<Option<usize>>()? + 4
        }
        AMQPValue::FieldTable(table) => {
            let nesting = nesting.checked_sub(1)?;
            let entry = |(name, value): (&ShortString, &AMQPValue)| {
                Some(name.as_str().len() + 1 + size(value, nesting)?)
            };
            table.inner().iter().map(entry).sum::<Option<usize>>()? + 4
        }
        _ => 8,
    };
    Some(payload + 1)
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(cut(value, MAX_HEADER)))
}

fn cut_short(value: &str) -> ShortString {
    ShortString::from(cut(value, MAX_SHORT))
}

/// The longest beginning of a text that fits and ends with a whole character.
fn cut(value: &str, most: usize) -> &str {
    if value.len() <= most {
        return value;
    }
    let end = (0..=most).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    &value[..end]
}

/// The wall clock, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
