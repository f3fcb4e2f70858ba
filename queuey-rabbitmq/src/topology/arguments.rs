//! What every kind of queue is declared with.

use std::time::Duration;

use lapin::{
    options::QueueDeclareOptions,
    types::{AMQPValue, FieldTable, ShortString},
};
use queuey_core::{Error, QueueConfig, QueueKind, Result};

use super::names::{dead_queue_name, deferred_queue_name};
use crate::options::RabbitMqOptions;

/// The argument that says how the broker keeps a queue: `classic` or `quorum`.
pub const ARG_QUEUE_TYPE: &str = "x-queue-type";
/// The argument that says how long a message may wait, in milliseconds.
pub const ARG_MESSAGE_TTL: &str = "x-message-ttl";
/// The argument that says after how long a queue that is not used deletes itself, in milliseconds.
pub const ARG_EXPIRES: &str = "x-expires";
/// The argument that says how many priorities a queue has.
pub const ARG_MAX_PRIORITY: &str = "x-max-priority";
/// The argument that names the exchange of what the broker drops; always the default exchange here.
pub const ARG_DEAD_LETTER_EXCHANGE: &str = "x-dead-letter-exchange";
/// The argument that names the queue of what the broker drops.
pub const ARG_DEAD_LETTER_ROUTING_KEY: &str = "x-dead-letter-routing-key";
/// The argument that says how often a quorum queue hands a message out.
pub const ARG_DELIVERY_LIMIT: &str = "x-delivery-limit";
/// The argument that says how long a delivery of a quorum queue may stay unsettled, in milliseconds.
pub const ARG_CONSUMER_TIMEOUT: &str = "x-consumer-timeout";

/// The broker's own limit is this many times the worker's: a backstop for what no worker sees.
const BACKSTOP: u32 = 2;

/// A queue as it is declared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueueShape {
    pub(crate) name: ShortString,
    pub(crate) durable: bool,
    pub(crate) arguments: FieldTable,
}

impl QueueShape {
    fn new(name: &str, durable: bool, kind: QueueKind) -> Result<Self> {
        let name = short(name)?;
        let kind = if kind == QueueKind::Quorum { "quorum" } else { "classic" };
        Ok(QueueShape { name, durable, arguments: FieldTable::default() }.with(ARG_QUEUE_TYPE, text(kind)))
    }

    fn with(mut self, argument: &str, value: AMQPValue) -> Self {
        self.arguments.insert(argument.into(), value);
        self
    }

    /// Leads what the broker drops to the queue `to`.
    fn dead_lettering_to(self, to: &str) -> Self {
        self.with(ARG_DEAD_LETTER_EXCHANGE, text("")).with(ARG_DEAD_LETTER_ROUTING_KEY, text(to))
    }

    /// What an argument, or `durable`, is here, as the broker writes it.
    pub(crate) fn value_of(&self, argument: &str) -> String {
        match (argument, self.arguments.inner().get(argument)) {
            ("durable", _) => self.durable.to_string(),
            (_, None) => "none".to_owned(),
            (_, Some(AMQPValue::LongString(text))) => text.to_string(),
            (_, Some(AMQPValue::LongInt(number))) => number.to_string(),
            (_, Some(AMQPValue::LongLongInt(number))) => number.to_string(),
            (_, Some(other)) => format!("{other:?}"),
        }
    }

    /// Never passive, exclusive, deleted with its last consumer, or unanswered.
    pub(crate) fn options(&self) -> QueueDeclareOptions {
        QueueDeclareOptions { durable: self.durable, ..QueueDeclareOptions::default() }
    }
}

/// A name as it goes over the wire.
///
/// # Errors
///
/// [`Error::InvalidQueue`] for more than 255 bytes.
pub(crate) fn short(name: &str) -> Result<ShortString> {
    ShortString::try_new(name).map_err(|_| Error::InvalidQueue {
        name: name.to_owned(),
        why: "a name has at most 255 bytes".to_owned(),
    })
}

/// The queue that workers consume.
pub(crate) fn work_shape(config: &QueueConfig, options: &RabbitMqOptions) -> Result<QueueShape> {
    let mut shape = QueueShape::new(&config.name, config.durable, config.kind)?;
    if let Some(ttl) = config.message_ttl {
        shape = shape.with(ARG_MESSAGE_TTL, millis(ttl));
    }
    if let Some(max) = config.max_priority {
        shape = shape.with(ARG_MAX_PRIORITY, AMQPValue::LongInt(max.into()));
    }
    let quorum = config.kind == QueueKind::Quorum;
    if let (true, Some(timeout)) = (quorum, config.ack_timeout) {
        shape = shape.with(ARG_CONSUMER_TIMEOUT, millis(timeout));
    }
    if let (true, Some(limit)) = (quorum, config.redelivery_limit) {
        let limit = i64::from(limit) * i64::from(BACKSTOP);
        shape = shape.with(ARG_DELIVERY_LIMIT, AMQPValue::LongLongInt(limit));
    }
    if quorum || config.dead_letter_expired {
        shape = shape.dead_lettering_to(&dead_queue_name(&config.name, &options.dead_suffix));
    }
    Ok(shape)
}

/// The queue of dead letters.
pub(crate) fn dead_shape(queue: &str, options: &RabbitMqOptions) -> Result<QueueShape> {
    QueueShape::new(&dead_queue_name(queue, &options.dead_suffix), true, QueueKind::Classic)
}

/// The queue that holds jobs for `ttl_ms`. Its arguments follow from its name, so that no two programs can disagree.
/// It is classic: a quorum queue would not be kept alive by another declare.
pub(crate) fn hold_shape(config: &QueueConfig, ttl_ms: u32, options: &RabbitMqOptions) -> Result<QueueShape> {
    let name = deferred_queue_name(&config.name, &options.deferred_suffix, ttl_ms);
    let shape = QueueShape::new(&name, config.durable, QueueKind::Classic)?
        .with(ARG_MESSAGE_TTL, AMQPValue::LongLongInt(ttl_ms.into()))
        .with(ARG_EXPIRES, AMQPValue::LongLongInt(i64::from(ttl_ms) * 2));
    Ok(shape.dead_lettering_to(&config.name))
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn millis(duration: Duration) -> AMQPValue {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    AMQPValue::LongLongInt(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(shape: Result<QueueShape>) -> String {
        let shape = shape.expect("a shape");
        let names = shape.arguments.inner().keys();
        let arguments: Vec<String> =
            names.map(|name| format!("{name}={}", shape.value_of(name.as_str()))).collect();
        let durable = if shape.durable { "durable" } else { "transient" };
        format!("{} {durable} {}", shape.name, arguments.join(" "))
    }

    #[test]
    fn the_arguments_are_these_and_no_others() {
        let options = RabbitMqOptions::default();
        let plain = QueueConfig::new("q");
        let work = |config: &QueueConfig| shown(work_shape(config, &options));
        assert_eq!(work(&plain), "q durable x-max-priority=10 x-queue-type=classic");
        assert_eq!(work(&plain.clone().max_priority(0).durable(false)), "q transient x-queue-type=classic");
        assert_eq!(
            work(&plain.clone().message_ttl(Duration::from_micros(1_500)).dead_letter_expired(true)),
            "q durable x-dead-letter-exchange= x-dead-letter-routing-key=q.dead x-max-priority=10 x-message-ttl=2 x-queue-type=classic"
        );
        assert_eq!(
            work(&plain.clone().kind(QueueKind::Quorum).ack_timeout(Duration::from_secs(60))),
            "q durable x-consumer-timeout=60000 x-dead-letter-exchange= x-dead-letter-routing-key=q.dead x-delivery-limit=40 x-queue-type=quorum"
        );
        assert_eq!(shown(dead_shape("q", &options)), "q.dead durable x-queue-type=classic");
        assert_eq!(
            shown(hold_shape(&plain.clone().durable(false), 2_147_483_647, &options)),
            "q.deferred.2147483647 transient x-dead-letter-exchange= x-dead-letter-routing-key=q x-expires=4294967294 x-message-ttl=2147483647 x-queue-type=classic"
        );
        assert_eq!(
            shown(hold_shape(&plain.kind(QueueKind::Quorum), 1_000, &options)),
            "q.deferred.1000 durable x-dead-letter-exchange= x-dead-letter-routing-key=q x-expires=2000 x-message-ttl=1000 x-queue-type=classic"
        );
    }

    #[test]
    fn a_value_is_written_as_the_broker_does() {
        let shape = work_shape(&QueueConfig::new("q"), &RabbitMqOptions::default()).expect("a shape");
        for (argument, value) in [
            ("durable", "true"),
            (ARG_MAX_PRIORITY, "10"),
            (ARG_QUEUE_TYPE, "classic"),
            (ARG_EXPIRES, "none"),
        ] {
            assert_eq!(shape.value_of(argument), value);
        }
    }

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        let long = QueueConfig::new("q".repeat(256));
        assert!(matches!(work_shape(&long, &RabbitMqOptions::default()), Err(Error::InvalidQueue { .. })));
    }
}
