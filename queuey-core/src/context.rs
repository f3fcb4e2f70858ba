//! What a handler is told of the job it runs.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, LazyLock},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{BoxFuture, envelope::Envelope, job::Job, queue::QueueSet};

/// What a handler is told of the job it runs. Cheap to clone.
///
/// For a unit test it can be made by hand:
///
/// ```
/// # extern crate queuey_core as queuey;
/// # use queuey::{Job, QueueConfig, QueueSet};
/// # #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
/// # enum AppQueues { Emails }
/// # impl QueueSet for AppQueues {
/// #     fn all() -> &'static [Self] { &[Self::Emails] }
/// #     fn name(&self) -> &'static str { "emails" }
/// #     fn config(&self) -> QueueConfig { QueueConfig::new("emails") }
/// #     fn from_name(name: &str) -> Option<Self> { (name == "emails").then_some(Self::Emails) }
/// # }
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct SendEmail { to: String }
/// # impl Job for SendEmail {
/// #     type Queue = AppQueues;
/// #     const NAME: &'static str = "emails.send";
/// #     const QUEUE: AppQueues = AppQueues::Emails;
/// # }
/// use queuey::JobContext;
///
/// let last = JobContext::new::<SendEmail>(3, 3).with_metadata("tenant", "7");
/// assert!(last.is_last_attempt());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct JobContext {
    /// Unique per job, the same through all its attempts.
    pub job_id: Uuid,
    /// The job's name.
    pub job_type: &'static str,
    /// The queue it was consumed from.
    pub queue: &'static str,
    /// This run; the first is 1.
    pub attempt: u32,
    /// How many runs the policy allows in all.
    pub max_attempts: u32,
    /// How often the job has deferred itself.
    pub deferrals: u32,
    /// How often the job was handed out and never settled.
    pub redeliveries: u32,
    /// The priority it came with.
    pub priority: u8,
    /// How long ago it was to run first.
    pub age: Duration,
    /// What ties it to other work.
    pub correlation_id: Option<Arc<str>>,
    /// What travels beside the payload.
    pub metadata: Arc<BTreeMap<String, String>>,
    signals: Signals,
}

/// What tells a running job to come to an end.
#[derive(Clone, Default)]
pub(crate) struct Signals {
    /// Fires when the worker shuts down.
    pub(crate) shutdown: CancellationToken,
    /// When the run is about to be cut off.
    pub(crate) cut_off: Option<Instant>,
    /// Asked for the loss of the delivery, by those who listen.
    pub(crate) delivery: Option<Arc<dyn Losable>>,
}

/// Something a broker may take back and hand out again.
pub(crate) trait Losable: Send + Sync {
    fn lost(&self) -> BoxFuture<'static, ()>;
}

static NO_METADATA: LazyLock<Arc<BTreeMap<String, String>>> = LazyLock::new(Arc::default);

impl JobContext {
    /// A context for a unit test: of a job that was just enqueued, in its `attempt`-th run of `max_attempts`.
    pub fn new<J: Job>(attempt: u32, max_attempts: u32) -> Self {
        JobContext {
            job_id: Uuid::now_v7(),
            job_type: J::NAME,
            queue: J::QUEUE.name(),
            attempt,
            max_attempts,
            deferrals: 0,
            redeliveries: 0,
            priority: 0,
            age: Duration::ZERO,
            correlation_id: None,
            metadata: NO_METADATA.clone(),
            signals: Signals::default(),
        }
    }

    pub(crate) fn of(
        envelope: &Envelope,
        job_type: &'static str,
        queue: &'static str,
        max_attempts: u32,
        signals: Signals,
    ) -> Self {
        let metadata = match envelope.metadata.is_empty() {
            true => NO_METADATA.clone(),
            false => Arc::new(envelope.metadata.clone()),
        };
        JobContext {
            job_id: envelope.job_id,
            job_type,
            queue,
            attempt: envelope.attempt,
            max_attempts,
            deferrals: envelope.deferrals,
            redeliveries: envelope.redeliveries,
            priority: envelope.priority,
            age: envelope.age(),
            correlation_id: envelope.correlation_id.as_deref().map(Arc::from),
            metadata,
            signals,
        }
    }

    /// Sets the job's id.
    #[must_use]
    pub fn with_job_id(self, job_id: Uuid) -> Self {
        Self { job_id, ..self }
    }

    /// Sets how often the job has deferred itself.
    #[must_use]
    pub fn with_deferrals(self, deferrals: u32) -> Self {
        Self { deferrals, ..self }
    }

    /// Sets how often the job was handed out and never settled.
    #[must_use]
    pub fn with_redeliveries(self, redeliveries: u32) -> Self {
        Self { redeliveries, ..self }
    }

    /// Sets the priority the job came with.
    #[must_use]
    pub fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }

    /// Sets how long ago the job was to run first.
    #[must_use]
    pub fn with_age(self, age: Duration) -> Self {
        Self { age, ..self }
    }

    /// Sets what ties the job to other work.
    #[must_use]
    pub fn with_correlation_id(self, id: &str) -> Self {
        Self { correlation_id: Some(id.into()), ..self }
    }

    /// Adds a pair to what travels beside the payload.
    #[must_use]
    pub fn with_metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.metadata).insert(key.into(), value.into());
        self
    }

    /// Makes [`cancelled`](Self::cancelled) resolve at once.
    #[must_use]
    pub fn with_cancelled(self) -> Self {
        self.signals.shutdown.cancel();
        self
    }

    /// Sets when `cancelled()` tells that the run is about to be cut off.
    pub(crate) fn cut_off_at(mut self, time: Option<Instant>) -> Self {
        self.signals.cut_off = time;
        self
    }

    /// Whether a failure of this run is final, as far as the number of attempts goes.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt >= self.max_attempts
    }

    /// Resolves when the job should come to an end: when the worker shuts down, shortly before the run is cut off at
    /// its time limit (in its last tenth, at most a second before), and when the delivery is lost, for the broker will
    /// then hand the job out again.
    pub fn cancelled(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let Signals { shutdown, cut_off, delivery } = self.signals.clone();
        async move {
            let cut_off = async {
                match cut_off {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let lost = async {
                match delivery {
                    Some(delivery) => delivery.lost().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = cut_off => {}
                () = lost => {}
            }
        }
    }
}

impl fmt::Debug for JobContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext")
            .field("job_id", &self.job_id)
            .field("job_type", &self.job_type)
            .field("queue", &self.queue)
            .field("attempt", &self.attempt)
            .field("max_attempts", &self.max_attempts)
            .finish_non_exhaustive()
    }
}
