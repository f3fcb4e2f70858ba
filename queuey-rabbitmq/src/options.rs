//! How the backend talks to its broker, and what it says while doing so.

use std::{fmt, sync::Arc, time::Duration};

use queuey_core::{__private::Names, Error, Result};

use crate::{
    address::Address,
    reconnect::{BackoffPolicy, ReconnectPolicy},
};

/// How queues come to be on the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TopologyMode {
    /// The backend declares them.
    #[default]
    Declare,
    /// Somebody else makes them; the backend looks whether they are there, and names all that are missing.
    Verify,
    /// Somebody else makes them, and the backend takes that for granted.
    Assume,
}

/// Where dead letters go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DeadLetters {
    /// To the queue `{name}.dead`, which the backend declares.
    #[default]
    Declare,
    /// To the queue `{name}.dead`, which is somebody else's to make.
    Publish,
    /// Nowhere by this backend: a delivery is rejected, and a dead-letter policy of the operator takes it. **Without
    /// such a policy the broker drops it.** Malformed messages are rejected too.
    Reject,
}

/// What happens to the connections, for [`RabbitMqOptions::on_event`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// A connection was lost.
    ConnectionLost,
    /// A lost connection is dialled again.
    Reconnecting {
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// A lost connection is back, with all that was on it.
    Recovered {
        /// How long it was gone.
        downtime: Duration,
    },
    /// The policy has given a connection up; what needs it fails from now on.
    GaveUp,
    /// The broker takes no messages.
    Blocked {
        /// What it gave as the reason.
        reason: String,
    },
    /// The broker takes messages again.
    Unblocked,
    /// A subscription has ended: its queue was deleted, or an acknowledgement took too long.
    ConsumerCancelled {
        /// Its queue.
        queue: String,
    },
    /// A subscription that had ended is back.
    ConsumerResumed {
        /// Its queue.
        queue: String,
    },
}

type OnEvent = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;

/// Settings of a [`RabbitMqBackend`](crate::RabbitMqBackend); the defaults suit most.
///
/// ```
/// use std::time::Duration;
/// use queuey_rabbitmq::RabbitMqOptions;
///
/// let options = RabbitMqOptions::default()
///     .connection_name("mailer")
///     .publish_timeout(Duration::from_secs(5))
///     .on_event(|event| println!("{event:?}"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RabbitMqOptions {
    pub(crate) connection_name: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) dead_suffix: String,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) deferred_suffix: String,
    pub(crate) retry_granularity: Duration,
    pub(crate) deferred_granularity: Duration,
    pub(crate) publish_channels: u16,
    pub(crate) connect_timeout: Duration,
    pub(crate) publish_timeout: Duration,
    pub(crate) blocked_timeout: Option<Duration>,
    pub(crate) reconnect: Option<Arc<dyn ReconnectPolicy>>,
    pub(crate) topology: TopologyMode,
    pub(crate) heartbeat: Duration,
    pub(crate) on_event: Option<OnEvent>,
}

impl Default for RabbitMqOptions {
    fn default() -> Self {
        RabbitMqOptions {
            connection_name: program(),
            addresses: Vec::new(),
            dead_suffix: Names::DEFAULT.dead.to_owned(),
            dead_letters: DeadLetters::Declare,
            deferred_suffix: Names::DEFAULT.hold.to_owned(),
            retry_granularity: Duration::from_secs(1),
            deferred_granularity: Duration::from_secs(1),
            publish_channels: 2,
            connect_timeout: Duration::from_secs(10),
            publish_timeout: Duration::from_secs(30),
            blocked_timeout: Some(Duration::from_secs(30)),
            reconnect: Some(Arc::new(BackoffPolicy::default())),
            topology: TopologyMode::Declare,
            heartbeat: Duration::from_secs(30),
            on_event: None,
        }
    }
}

/// The name of the program and its process id.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("{} {}", if name.is_empty() { "queuey" } else { &name }, std::process::id())
}

impl RabbitMqOptions {
    /// What the broker shows as the name of the connections. Default: the program's name and its process id.
    #[must_use]
    pub fn connection_name(self, name: impl Into<String>) -> Self {
        Self { connection_name: name.into(), ..self }
    }

    /// More addresses of the same broker, tried in turn after the one that was given to connect to. Default: none.
    #[must_use]
    pub fn with_addresses<A: Into<String>>(self, addresses: impl IntoIterator<Item = A>) -> Self {
        Self { addresses: addresses.into_iter().map(Into::into).collect(), ..self }
    }

    /// What is appended to a queue's name for its dead letters. Default: `.dead`.
    #[must_use]
    pub fn dead_suffix(self, suffix: impl Into<String>) -> Self {
        Self { dead_suffix: suffix.into(), ..self }
    }

    /// Where dead letters go. Default: to a queue that the backend declares.
    #[must_use]
    pub fn dead_letters(self, dead_letters: DeadLetters) -> Self {
        Self { dead_letters, ..self }
    }

    /// Whether the backend declares the dead-letter queues: [`DeadLetters::Declare`] or [`DeadLetters::Publish`].
    #[must_use]
    pub fn declare_dead_letter_queues(self, declare: bool) -> Self {
        self.dead_letters(if declare { DeadLetters::Declare } else { DeadLetters::Publish })
    }

    /// What is appended to a queue's name, before a dot and the milliseconds, for its hold queues. Default: `.deferred`.
    #[must_use]
    pub fn deferred_suffix(self, suffix: impl Into<String>) -> Self {
        Self { deferred_suffix: suffix.into(), ..self }
    }

    /// What retries and delayed jobs are rounded up to; zero is a millisecond. Default: 1 s.
    #[must_use]
    pub fn retry_granularity(self, granularity: Duration) -> Self {
        Self { retry_granularity: granularity, ..self }
    }

    /// What deferrals are rounded up to; zero is a millisecond. Default: 1 s.
    #[must_use]
    pub fn deferred_granularity(self, granularity: Duration) -> Self {
        Self { deferred_granularity: granularity, ..self }
    }

    /// Over how many channels messages are published, at least one. Default: 2.
    #[must_use]
    pub fn publish_channels(self, channels: u16) -> Self {
        Self { publish_channels: channels.max(1), ..self }
    }

    /// How long a connection may take to be made, its handshake included. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: timeout, ..self }
    }

    /// How long a publish or a declare may take, reconnects included. Default: 30 s.
    #[must_use]
    pub fn publish_timeout(self, timeout: Duration) -> Self {
        Self { publish_timeout: timeout, ..self }
    }

    /// How long a publish waits while the broker takes no messages; zero fails at once, `None` waits as long as it
    /// takes. Default: 30 s.
    #[must_use]
    pub fn blocked_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { blocked_timeout: timeout.into(), ..self }
    }

    /// How a lost connection is rebuilt; `None` gives it up at once. Default: at once, then after 500 ms doubling to
    /// 30 s, for ever.
    #[must_use]
    pub fn reconnect(self, policy: impl Into<Option<BackoffPolicy>>) -> Self {
        let policy = policy.into().map(|policy| Arc::new(policy) as Arc<dyn ReconnectPolicy>);
        Self { reconnect: policy, ..self }
    }

    /// Like [`reconnect`](Self::reconnect), with a policy of your own.
    #[must_use]
    pub fn reconnect_with(self, policy: impl ReconnectPolicy) -> Self {
        Self { reconnect: Some(Arc::new(policy)), ..self }
    }

    /// How queues come to be on the broker. Default: the backend declares them.
    #[must_use]
    pub fn topology(self, mode: TopologyMode) -> Self {
        Self { topology: mode, ..self }
    }

    /// How often a silent connection is asked for life, in whole seconds, at least one. Default: 30 s.
    #[must_use]
    pub fn heartbeat(self, interval: Duration) -> Self {
        Self { heartbeat: interval, ..self }
    }

    /// Hears of what happens to the connections. It must not block; what it panics with is logged.
    #[must_use]
    pub fn on_event(self, hear: impl Fn(ConnectionEvent) + Send + Sync + 'static) -> Self {
        Self { on_event: Some(Arc::new(hear)), ..self }
    }

    pub(crate) fn names(&self) -> Names<'_> {
        Names { dead: &self.dead_suffix, hold: &self.deferred_suffix }
    }

    pub(crate) fn heartbeat_seconds(&self) -> u16 {
        u16::try_from(self.heartbeat.as_secs()).unwrap_or(u16::MAX).max(1)
    }

    /// All addresses, the given one first.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidAddress`], also for suffixes that would make names collide.
    pub(crate) fn all_addresses(&self, url: &str) -> Result<Vec<Address>> {
        let suffixes = [&self.dead_suffix, &self.deferred_suffix];
        if suffixes.iter().any(|suffix| suffix.is_empty()) || self.dead_suffix == self.deferred_suffix {
            let name = self.dead_suffix.clone();
            let why = "the suffixes of dead-letter and hold queues must be there, and differ".to_owned();
            return Err(Error::InvalidQueue { name, why });
        }
        std::iter::once(url).chain(self.addresses.iter().map(String::as_str)).map(Address::parse).collect()
    }
}

impl fmt::Debug for RabbitMqOptions {
    /// Leaves out the addresses, for they may hold passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqOptions")
            .field("connection_name", &self.connection_name)
            .field("addresses", &format_args!("{} more", self.addresses.len()))
            .field("dead_suffix", &self.dead_suffix)
            .field("dead_letters", &self.dead_letters)
            .field("deferred_suffix", &self.deferred_suffix)
            .field("retry_granularity", &self.retry_granularity)
            .field("deferred_granularity", &self.deferred_granularity)
            .field("publish_channels", &self.publish_channels)
            .field("connect_timeout", &self.connect_timeout)
            .field("publish_timeout", &self.publish_timeout)
            .field("blocked_timeout", &self.blocked_timeout)
            .field("reconnect", &self.reconnect)
            .field("topology", &self.topology)
            .field("heartbeat", &self.heartbeat)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let options = RabbitMqOptions::default().with_addresses(["amqp://user:secret@other"]);
        let shown = format!("{options:?}");
        assert!(!shown.contains("secret") && shown.contains("1 more"), "{shown}");
        assert_eq!(options.all_addresses("amqp://h").expect("two").len(), 2);
        assert!(options.all_addresses("amqp://u:secret#@h").is_err());
    }

    #[test]
    fn numbers_that_make_no_sense_are_made_to() {
        let options = RabbitMqOptions::default().publish_channels(0).heartbeat(Duration::from_millis(5));
        assert_eq!((options.publish_channels, options.heartbeat_seconds()), (1, 1));
        assert_eq!(RabbitMqOptions::default().heartbeat(Duration::MAX).heartbeat_seconds(), u16::MAX);
    }

    #[test]
    fn suffixes_that_make_names_collide_are_refused() {
        for options in
            [RabbitMqOptions::default().dead_suffix(""), RabbitMqOptions::default().deferred_suffix(".dead")]
        {
            assert!(options.all_addresses("amqp://h").is_err());
        }
    }
}
