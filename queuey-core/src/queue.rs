//! Queues: their names, their configuration and the rules both must keep.

use std::{collections::HashMap, fmt::Debug, hash::Hash, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    duration::Spelled,
    error::{Error, Result},
    retry::RetryPolicy,
};

/// The priorities of a queue that names no other number of them.
pub const DEFAULT_MAX_PRIORITY: u8 = 10;

/// The longest delay a job can be held for: half of what 32 bits of milliseconds hold (24d 20h 31m 23.647s).
pub const MAX_DELAY: Duration = Duration::from_millis((u32::MAX / 2) as u64);

/// What `x-message-ttl` may be, in this project, at most: 32 bits of milliseconds.
const MAX_MESSAGE_TTL: Duration = Duration::from_millis(u32::MAX as u64);

/// AMQP 0-9-1 short strings, and so queue names, hold 255 bytes.
const MAX_NAME: usize = 255;

/// A fixed set of queues, usually an enum with `#[derive(Queues)]`.
///
/// It can be implemented by hand; then `name()` must be what `config().name` is, and different for each queue.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no queue set",
    label = "expected an enum of queues",
    note = "put `#[derive(Queues)]` on a fieldless enum"
)]
pub trait QueueSet: Copy + Eq + Hash + Debug + Send + Sync + 'static {
    /// Every queue of the set, in the order of their declaration.
    fn all() -> &'static [Self];

    /// The queue's name on the broker.
    fn name(&self) -> &'static str;

    /// How the queue is declared, and the defaults of its jobs.
    fn config(&self) -> QueueConfig;

    /// The queue with this name on the broker.
    fn from_name(name: &str) -> Option<Self>;
}

/// How the broker keeps a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum QueueKind {
    /// On one node, with as many priorities as asked for.
    #[default]
    Classic,
    /// Replicated, always durable, with the priorities the broker gives it.
    Quorum,
}

/// How a queue is declared, and the defaults of its jobs.
///
/// ```
/// # extern crate queuey_core as queuey;
/// use std::time::Duration;
/// use queuey::{QueueConfig, RetryPolicy};
///
/// let emails = QueueConfig::new("myapp.emails")
///     .prefetch(50)
///     .retry(RetryPolicy::fixed(5, Duration::from_secs(30)));
/// assert_eq!(emails.max_priority, Some(10));
/// ```
///
/// In serde form durations are strings (`"30s"`), missing keys have their defaults, and unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Keys", into = "Keys")]
#[non_exhaustive]
pub struct QueueConfig {
    /// The name on the broker.
    pub name: String,
    /// Unsettled deliveries per consumer, 1 to 65535. Default: 16.
    pub prefetch: u16,
    /// Whether queue and messages outlive the broker's restart. Default: true.
    pub durable: bool,
    /// How long a job may wait before the broker drops it, at most 2^32 - 1 ms. Default: none.
    pub message_ttl: Option<Duration>,
    /// The highest priority; `None` is a queue without priorities. Default: 10, and none on a quorum queue.
    pub max_priority: Option<u8>,
    /// How the broker keeps the queue. Default: classic.
    pub kind: QueueKind,
    /// How often a delivery may come back unsettled before its job is dead-lettered; `None` is no limit.
    /// Default: 20.
    pub redelivery_limit: Option<u32>,
    /// Whether what the broker drops (TTL, rejects) is kept as a dead letter. Default: false.
    pub dead_letter_expired: bool,
    /// How long a delivery may stay unsettled, on a quorum queue. Default: the broker's own, 30 min.
    pub ack_timeout: Option<Duration>,
    /// How often a job may defer itself before it is dead-lettered. Default: no limit.
    pub max_deferrals: Option<u32>,
    /// The retry policy of jobs that name none. Default: no retry.
    pub retry: RetryPolicy,
}

impl QueueConfig {
    /// A durable classic queue with all defaults.
    pub fn new(name: impl Into<String>) -> Self {
        QueueConfig {
            name: name.into(),
            prefetch: 16,
            durable: true,
            message_ttl: None,
            max_priority: Some(DEFAULT_MAX_PRIORITY),
            kind: QueueKind::Classic,
            redelivery_limit: Some(20),
            dead_letter_expired: false,
            ack_timeout: None,
            max_deferrals: None,
            retry: RetryPolicy::none(),
        }
    }

    /// Sets how many unsettled deliveries a consumer may hold, 1 to 65535.
    #[must_use]
    pub fn prefetch(self, prefetch: u16) -> Self {
        Self { prefetch, ..self }
    }

    /// Sets whether queue and messages outlive the broker's restart.
    #[must_use]
    pub fn durable(self, durable: bool) -> Self {
        Self { durable, ..self }
    }

    /// Sets how long a job may wait before the broker drops it.
    #[must_use]
    pub fn message_ttl(self, ttl: Duration) -> Self {
        Self { message_ttl: Some(ttl), ..self }
    }

    /// Sets the highest priority; 0 makes a queue without priorities.
    #[must_use]
    pub fn max_priority(self, max: u8) -> Self {
        Self { max_priority: (max > 0).then_some(max), ..self }
    }

    /// Sets how the broker keeps the queue; [`QueueKind::Quorum`] clears the priority.
    #[must_use]
    pub fn kind(self, kind: QueueKind) -> Self {
        let max_priority = if kind == QueueKind::Quorum { None } else { self.max_priority };
        Self { kind, max_priority, ..self }
    }

    /// Sets how often a delivery may come back unsettled; 0 is no limit, for classic queues only.
    #[must_use]
    pub fn redelivery_limit(self, limit: u32) -> Self {
        Self { redelivery_limit: (limit > 0).then_some(limit), ..self }
    }

    /// Sets whether what the broker drops is kept as a dead letter.
    #[must_use]
    pub fn dead_letter_expired(self, keep: bool) -> Self {
        Self { dead_letter_expired: keep, ..self }
    }

    /// Sets how long a delivery may stay unsettled, on a quorum queue.
    #[must_use]
    pub fn ack_timeout(self, timeout: Duration) -> Self {
        Self { ack_timeout: Some(timeout), ..self }
    }

    /// Sets how often a job may defer itself.
    #[must_use]
    pub fn max_deferrals(self, max: u32) -> Self {
        Self { max_deferrals: Some(max), ..self }
    }

    /// Sets the retry policy of jobs that name none.
    #[must_use]
    pub fn retry(self, policy: RetryPolicy) -> Self {
        Self { retry: policy, ..self }
    }

    /// The priority a deferral comes back with: the highest there is, 10 on a quorum queue, 0 on a queue
    /// without priorities.
    pub fn deferral_priority(&self) -> u8 {
        match self.kind {
            QueueKind::Quorum => DEFAULT_MAX_PRIORITY,
            QueueKind::Classic => self.max_priority.unwrap_or(0),
        }
    }

    /// Checks what can be said of this queue alone.
    fn check(&self, names: Names<'_>) -> Result<(), String> {
        check_name(&self.name, names)?;
        if self.prefetch == 0 {
            return Err("a prefetch of 0 would mean no limit; use 1 to 65535".to_owned());
        }
        if self.message_ttl.is_some_and(|ttl| ttl.is_zero() || ttl > MAX_MESSAGE_TTL) {
            return Err("`message_ttl` must be above zero and at most 4294967295 ms (49d 17h 2m)".to_owned());
        }
        if self.kind == QueueKind::Quorum {
            if self.max_priority.is_some() {
                return Err("a quorum queue takes no `max_priority`; leave it out".to_owned());
            }
            if !self.durable {
                return Err("a quorum queue is always durable; leave out `durable = false`".to_owned());
            }
            if self.redelivery_limit.is_none() {
                return Err("a quorum queue needs a `redelivery_limit` above zero".to_owned());
            }
            if self.ack_timeout.is_some_and(|timeout| timeout.is_zero()) {
                return Err("an `ack_timeout` of zero would let nothing run".to_owned());
            }
        } else if self.ack_timeout.is_some() {
            return Err("`ack_timeout` is for quorum queues only".to_owned());
        }
        Ok(())
    }
}

fn check_name(name: &str, names: Names<'_>) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("a queue needs a name".to_owned());
    }
    if name.chars().any(char::is_control) {
        return Err("control characters are not allowed in a name (the broker would drop some)".to_owned());
    }
    if name.starts_with("amq.") {
        return Err("names that begin with `amq.` are the broker's own".to_owned());
    }
    let longest_suffix = (names.hold.len() + ".4294967295".len()).max(names.dead.len());
    match MAX_NAME.checked_sub(longest_suffix) {
        Some(room) if name.len() <= room => Ok(()),
        room => Err(format!(
            "the name has {} bytes; {} are the most, so that the names of its hold queues fit into 255",
            name.len(),
            room.unwrap_or(0)
        )),
    }
}

/// What a backend appends to a queue's name for its dead letters and its hold queues.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// `.dead` by default.
    pub dead: &'a str,
    /// `.deferred` by default; a hold queue's name goes on with a dot and its milliseconds.
    pub hold: &'a str,
}

impl Names<'static> {
    /// The suffixes of a backend that configures no others.
    pub const DEFAULT: Names<'static> = Names { dead: ".dead", hold: ".deferred" };
}

impl Names<'_> {
    /// Whether `name` is the dead-letter queue or a hold queue of the queue `owner`.
    fn derives(self, owner: &str, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(owner) else { return false };
        let digits = rest.strip_prefix(self.hold).and_then(|rest| rest.strip_prefix('.'));
        rest == self.dead || digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    }
}

/// Checks queues that are to be declared together: each by itself, and no two in each other's way.
///
/// # Errors
///
/// [`Error::InvalidQueue`] for the first that can't be declared.
pub fn check_queues(configs: &[QueueConfig], names: Names<'_>) -> Result<()> {
    let invalid = |config: &QueueConfig, why| Error::InvalidQueue { name: config.name.clone(), why };
    let mut seen: HashMap<&str, &QueueConfig> = HashMap::new();
    for config in configs {
        config.check(names).map_err(|why| invalid(config, why))?;
        if seen.insert(&config.name, config).is_some_and(|other| other != config) {
            return Err(invalid(config, "it is declared twice, with different settings".to_owned()));
        }
    }
    for config in configs {
        if let Some(owner) =
            owners(&config.name).find(|o| seen.contains_key(o) && names.derives(o, &config.name))
        {
            let why =
                format!("the name is taken by what belongs to queue `{owner}` (its dead letters or a hold)");
            return Err(invalid(config, why));
        }
    }
    Ok(())
}

/// Every proper prefix of a name that a suffix could have been appended to.
fn owners(name: &str) -> impl Iterator<Item = &str> {
    name.char_indices().skip(1).map(|(end, _)| &name[..end])
}

/// The serde form of a [`QueueConfig`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    name: String,
    prefetch: Option<u16>,
    durable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_ttl: Option<Spelled>,
    max_priority: Option<u8>,
    kind: Option<QueueKind>,
    redelivery_limit: Option<u32>,
    dead_letter_expired: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_timeout: Option<Spelled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_deferrals: Option<u32>,
    retry: Option<RetryPolicy>,
}

impl From<Keys> for QueueConfig {
    fn from(keys: Keys) -> Self {
        let config = QueueConfig::new(keys.name).kind(keys.kind.unwrap_or_default());
        QueueConfig {
            prefetch: keys.prefetch.unwrap_or(config.prefetch),
            durable: keys.durable.unwrap_or(config.durable),
            message_ttl: keys.message_ttl.map(|key| key.0),
            max_priority: keys.max_priority.map_or(config.max_priority, |max| (max > 0).then_some(max)),
            redelivery_limit: keys.redelivery_limit.map_or(config.redelivery_limit, |n| (n > 0).then_some(n)),
            dead_letter_expired: keys.dead_letter_expired.unwrap_or(config.dead_letter_expired),
            ack_timeout: keys.ack_timeout.map(|key| key.0),
            max_deferrals: keys.max_deferrals,
            retry: keys.retry.unwrap_or_default(),
            ..config
        }
    }
}

impl From<QueueConfig> for Keys {
    fn from(config: QueueConfig) -> Self {
        Keys {
            name: config.name,
            prefetch: Some(config.prefetch),
            durable: Some(config.durable),
            message_ttl: config.message_ttl.map(Spelled),
            max_priority: Some(config.max_priority.unwrap_or(0)),
            kind: Some(config.kind),
            redelivery_limit: Some(config.redelivery_limit.unwrap_or(0)),
            dead_letter_expired: Some(config.dead_letter_expired),
            ack_timeout: config.ack_timeout.map(Spelled),
            max_deferrals: config.max_deferrals,
            retry: Some(config.retry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(configs: &[QueueConfig]) -> String {
        check_queues(configs, Names::DEFAULT).expect_err("accepted").to_string()
    }

    #[test]
    fn zero_means_none_where_the_attribute_says_so() {
        let config = QueueConfig::new("q").max_priority(0).redelivery_limit(0);
        assert_eq!((config.max_priority, config.redelivery_limit), (None, None));
        assert_eq!(QueueConfig::new("q").kind(QueueKind::Quorum).max_priority, None);
    }

    #[test]
    fn a_deferral_has_the_highest_priority_there_is() {
        assert_eq!(QueueConfig::new("q").deferral_priority(), 10);
        assert_eq!(QueueConfig::new("q").max_priority(3).deferral_priority(), 3);
        assert_eq!(QueueConfig::new("q").max_priority(0).deferral_priority(), 0);
        assert_eq!(QueueConfig::new("q").kind(QueueKind::Quorum).deferral_priority(), 10);
    }

    #[test]
    fn what_the_broker_would_refuse_or_garble_is_refused_up_front() {
        let quorum = || QueueConfig::new("q").kind(QueueKind::Quorum);
        let hour = Duration::from_secs(3600);
        for (config, word) in [
            (QueueConfig::new(" "), "name"),
            (QueueConfig::new("a\nb"), "control"),
            (QueueConfig::new("amq.q"), "amq."),
            (QueueConfig::new("q".repeat(236)), "235 are the most"),
            (QueueConfig::new("q").prefetch(0), "prefetch"),
            (QueueConfig::new("q").message_ttl(Duration::ZERO), "message_ttl"),
            (QueueConfig::new("q").message_ttl(hour * 24 * 50), "message_ttl"),
            (QueueConfig::new("q").ack_timeout(hour), "ack_timeout"),
            (quorum().max_priority(5), "max_priority"),
            (quorum().durable(false), "durable"),
            (quorum().ack_timeout(Duration::ZERO), "ack_timeout"),
            (quorum().redelivery_limit(0), "redelivery_limit"),
        ] {
            let why = refusal(std::slice::from_ref(&config));
            assert!(why.contains(word), "{why}");
        }
        let fine = [QueueConfig::new("q".repeat(235)), quorum().ack_timeout(hour), QueueConfig::new("amq")];
        assert!(check_queues(&fine, Names::DEFAULT).is_ok());
    }

    #[test]
    fn a_name_that_belongs_to_another_queue_is_refused() {
        let named = |name: &str| QueueConfig::new(name);
        for name in ["q.dead", "q.deferred.1000"] {
            assert!(refusal(&[named(name), named("q")]).contains("belongs to queue `q`"), "{name}");
        }
        for name in ["q.deads", "q.deferred.", "q.deferred.1s", "p.dead", "dead"] {
            assert!(check_queues(&[named("q"), named(name)], Names::DEFAULT).is_ok(), "{name}");
        }
        assert!(refusal(&[named("q"), named("q").prefetch(1)]).contains("twice"));
        assert!(check_queues(&[named("q"), named("q")], Names::DEFAULT).is_ok());
    }

    #[test]
    fn the_serde_form_keeps_every_key() {
        let config = QueueConfig::new("q")
            .prefetch(3)
            .durable(false)
            .message_ttl(Duration::from_millis(1500))
            .max_priority(0)
            .redelivery_limit(0)
            .dead_letter_expired(true)
            .max_deferrals(7)
            .retry(RetryPolicy::exponential(4));
        let text = serde_json::to_string(&config).unwrap();
        assert!(text.contains(r#""message_ttl":"1s 500ms""#), "{text}");
        assert_eq!(serde_json::from_str::<QueueConfig>(&text).unwrap(), config);
        assert_eq!(serde_json::from_str::<QueueConfig>(r#"{"name":"q"}"#).unwrap(), QueueConfig::new("q"));
        let quorum = r#"{"name":"q","kind":"quorum"}"#;
        assert_eq!(
            serde_json::from_str::<QueueConfig>(quorum).unwrap(),
            QueueConfig::new("q").kind(QueueKind::Quorum)
        );
        assert!(serde_json::from_str::<QueueConfig>(r#"{"name":"q","prefech":1}"#).is_err());
    }
}
