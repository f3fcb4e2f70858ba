//! Jobs: typed values with a name and a queue.

use std::{
    any::{TypeId, type_name},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{error::Place, queue::QueueSet, retry::RetryPolicy};

/// A value to be worked on, usually a struct with `#[derive(Job)]`.
///
/// It can be implemented by hand:
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
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct SendEmail { to: String }
///
/// impl Job for SendEmail {
///     type Queue = AppQueues;
///     const NAME: &'static str = "emails.send";
///     const QUEUE: AppQueues = AppQueues::Emails;
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no job",
    label = "expected a job",
    note = "put `#[derive(Job)]` on it, and name its queue with `#[job(queue = ...)]`"
)]
pub trait Job: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The queue set the job belongs to.
    type Queue: QueueSet;

    /// The name that travels in the envelope. Jobs in flight keep it, so it must not change with the code.
    const NAME: &'static str;

    /// The queue the job is enqueued to.
    const QUEUE: Self::Queue;

    /// The job's own retry policy; `None` leaves it to the queue.
    fn retry_policy() -> Option<RetryPolicy> {
        None
    }

    /// The longest a single run may take; `None` leaves it to the worker.
    fn timeout() -> Option<Duration> {
        None
    }

    /// How often the job may defer itself; `None` leaves it to the queue.
    fn max_deferrals() -> Option<u32> {
        None
    }
}

/// Holds for a queue set and itself. As a bound it makes a job of a foreign set a type error that names both.
#[diagnostic::on_unimplemented(
    message = "this job belongs to the queue set `{Self}`, not to `{Q}`",
    label = "a job of `{Self}`, where one of `{Q}` is expected"
)]
pub trait SameSet<Q>: QueueSet {}

impl<Q: QueueSet> SameSet<Q> for Q {}

/// What `#[derive(Job)]` leaves behind for workers to find: that the job exists, and where.
#[derive(Debug)]
pub struct JobRegistration {
    set: fn() -> TypeId,
    pub(crate) name: &'static str,
    queue: fn() -> &'static str,
    pub(crate) job_type: JobType,
    pub(crate) place: Place,
}

/// What a payload is read as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobType {
    id: fn() -> TypeId,
    name: fn() -> &'static str,
}

impl JobType {
    pub(crate) const fn of<J: Job>() -> Self {
        JobType { id: TypeId::of::<J>, name: type_name::<J> }
    }

    /// The path of the type, for people.
    pub(crate) fn path(self) -> &'static str {
        (self.name)()
    }
}

impl PartialEq for JobType {
    fn eq(&self, other: &Self) -> bool {
        (self.id)() == (other.id)()
    }
}

impl JobRegistration {
    /// Describes the job `J`, declared at this place.
    pub const fn of<J: Job>(file: &'static str, line: u32) -> Self {
        JobRegistration {
            set: TypeId::of::<J::Queue>,
            name: J::NAME,
            queue: queue_of::<J>,
            job_type: JobType::of::<J>(),
            place: Place { file, line },
        }
    }

    pub(crate) fn queue(&self) -> &'static str {
        (self.queue)()
    }

    /// Every derived job of a queue set that is linked into this program.
    pub(crate) fn all<Q: QueueSet>() -> impl Iterator<Item = &'static JobRegistration> {
        inventory::iter::<JobRegistration>().filter(|job| job.is_of::<Q>())
    }

    /// Every derived job of other queue sets.
    pub(crate) fn all_others<Q: QueueSet>() -> impl Iterator<Item = &'static JobRegistration> {
        inventory::iter::<JobRegistration>().filter(|job| !job.is_of::<Q>())
    }

    fn is_of<Q: QueueSet>(&self) -> bool {
        (self.set)() == TypeId::of::<Q>()
    }
}

fn queue_of<J: Job>() -> &'static str {
    J::QUEUE.name()
}

inventory::collect!(JobRegistration);
