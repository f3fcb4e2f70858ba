//! From a job value to an envelope to the backend.

use std::{
    fmt,
    marker::PhantomData,
    sync::Arc,
    time::{Duration, SystemTime},
};

use uuid::Uuid;

use crate::{
    BoxFuture,
    backend::Backend,
    clock,
    envelope::Envelope,
    error::{Error, Result},
    job::{Job, SameSet},
    queue::{QueueConfig, QueueSet},
};

/// Enqueues the jobs of a queue set. Cheap to clone.
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queuey::Result<()> {
/// use std::{sync::Arc, time::Duration};
/// use queuey::{EnqueueOptions, MemoryBackend, Producer};
///
/// let backend = Arc::new(MemoryBackend::new());
/// let producer = Producer::<AppQueues>::new(backend.clone()).await?;
/// producer.enqueue(&SendEmail { to: "ada".into() }).await?;
/// let later = EnqueueOptions::after(Duration::from_secs(60)).priority(3).correlation_id("order 7");
/// producer.enqueue_with(&SendEmail { to: "bob".into() }, later).await?;
/// assert_eq!((backend.pending("emails").len(), backend.deferred("emails").len()), (1, 1));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Every call gives [`Error::Serde`] for a job that does not survive JSON, [`Error::InvalidOption`] for an option
/// that can't be kept, and what [`Backend::publish`] gives.
///
/// # Cancel safety
///
/// A call does nothing until it is polled; one that is dropped after that may or may not have enqueued its job. Jobs are
/// read when the call is made, so the future borrows nothing and can be spawned.
pub struct Producer<Q, B: Backend + ?Sized = dyn Backend> {
    backend: Arc<B>,
    set: PhantomData<fn() -> Q>,
}

impl<Q: QueueSet, B: Backend + ?Sized> Producer<Q, B> {
    /// Declares every queue of the set, then is ready.
    ///
    /// # Errors
    ///
    /// What [`Backend::declare`] gives.
    pub async fn new(backend: Arc<B>) -> Result<Self> {
        let configs: Vec<QueueConfig> = Q::all().iter().map(QueueSet::config).collect();
        backend.declare(&configs).await?;
        Ok(Self::new_undeclared(backend))
    }

    /// Declares nothing: jobs for a missing queue fail with [`Error::Unroutable`], delayed ones for a queue that
    /// nobody declared on this backend with [`Error::UnknownQueue`].
    pub fn new_undeclared(backend: Arc<B>) -> Self {
        Producer { backend, set: PhantomData }
    }

    /// Enqueues a job now, and resolves when the broker has confirmed it.
    ///
    /// # Errors
    ///
    /// See [`Producer`].
    pub fn enqueue<J>(&self, job: &J) -> BoxFuture<'static, Result<Uuid>>
    where
        J: Job,
        J::Queue: SameSet<Q>,
    {
        self.publish(Envelope::new(job), Resolved::Now)
    }

    /// Holds a job for `delay`; it then joins the back of its queue. Zero is now.
    ///
    /// # Errors
    ///
    /// See [`Producer`]; also [`Error::DelayTooLong`] past [`MAX_DELAY`](crate::MAX_DELAY).
    pub fn enqueue_after<J>(&self, job: &J, delay: Duration) -> BoxFuture<'static, Result<Uuid>>
    where
        J: Job,
        J::Queue: SameSet<Q>,
    {
        self.enqueue_with(job, EnqueueOptions::after(delay))
    }

    /// Holds a job for `delay`; it then comes back at the top priority of its queue, ahead of the backlog.
    ///
    /// # Errors
    ///
    /// See [`Producer`]; also [`Error::DelayTooLong`] past [`MAX_DELAY`](crate::MAX_DELAY).
    pub fn defer<J>(&self, job: &J, delay: Duration) -> BoxFuture<'static, Result<Uuid>>
    where
        J: Job,
        J::Queue: SameSet<Q>,
    {
        self.enqueue_with(job, EnqueueOptions::deferred(delay))
    }

    /// Enqueues a job as the options say.
    ///
    /// # Errors
    ///
    /// See [`Producer`]; also [`Error::DelayTooLong`] past [`MAX_DELAY`](crate::MAX_DELAY).
    pub fn enqueue_with<J>(&self, job: &J, options: EnqueueOptions) -> BoxFuture<'static, Result<Uuid>>
    where
        J: Job,
        J::Queue: SameSet<Q>,
    {
        let when = options.when.resolve();
        self.publish(options.envelope(job, when), when)
    }

    /// Enqueues several jobs with one wait for their confirmation. Each has its own result, in their order; one that
    /// fails does not hold up the others.
    pub fn enqueue_many<J>(&self, jobs: &[J]) -> BoxFuture<'static, Vec<Result<Uuid>>>
    where
        J: Job,
        J::Queue: SameSet<Q>,
    {
        let mut envelopes = Vec::with_capacity(jobs.len());
        let mut results: Vec<Result<Uuid>> = Vec::with_capacity(jobs.len());
        for job in jobs {
            results.push(Envelope::new(job).map(|envelope| {
                envelopes.push(envelope);
                envelopes[envelopes.len() - 1].job_id
            }));
        }
        let backend = self.backend.clone();
        Box::pin(async move {
            let mut published = backend.publish_many(&envelopes).await.into_iter();
            for result in &mut results {
                if let Ok(job_id) = *result {
                    // A backend that is short of an answer has confirmed nothing.
                    let outcome = published.next().unwrap_or(Err(Error::Unconfirmed { job_id }));
                    *result = outcome.map(|()| job_id);
                }
            }
            results
        })
    }

    /// Publishes what was made of a job. A named future, and not an `async fn` of the calls above: the compiler would
    /// repeat a mistake in their bounds at every `.await`.
    fn publish(&self, envelope: Result<Envelope>, when: Resolved) -> BoxFuture<'static, Result<Uuid>> {
        let backend = self.backend.clone();
        Box::pin(async move {
            let envelope = envelope?;
            match when {
                Resolved::Now => backend.publish(&envelope, None).await?,
                Resolved::After(delay) => backend.publish(&envelope, Some(delay)).await?,
                Resolved::Deferred(delay) => backend.defer(&envelope, delay).await?,
            }
            Ok(envelope.job_id)
        })
    }

    /// The backend it enqueues to.
    pub fn backend(&self) -> &Arc<B> {
        &self.backend
    }
}

impl<Q: QueueSet, B: Backend> Producer<Q, B> {
    /// Forgets the type of the backend.
    pub fn into_dyn(self) -> Producer<Q> {
        Producer { backend: self.backend, set: PhantomData }
    }
}

impl<Q, B: Backend + ?Sized> Clone for Producer<Q, B> {
    fn clone(&self) -> Self {
        Producer { backend: self.backend.clone(), set: PhantomData }
    }
}

impl<Q, B: Backend + ?Sized> fmt::Debug for Producer<Q, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").finish_non_exhaustive()
    }
}

/// When a job is to run, and what travels with it.
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until they are given to `enqueue_with`"]
pub struct EnqueueOptions {
    when: When,
    priority: Option<u8>,
    correlation_id: Option<String>,
    metadata: Vec<(String, String)>,
    job_id: Option<Uuid>,
}

#[derive(Debug, Clone, Copy, Default)]
enum When {
    #[default]
    Now,
    After(Duration),
    Deferred(Duration),
    At(SystemTime),
}

/// [`When`], once the clock was asked.
#[derive(Debug, Clone, Copy)]
enum Resolved {
    Now,
    After(Duration),
    Deferred(Duration),
}

impl EnqueueOptions {
    /// Runs as soon as it is its turn.
    pub fn now() -> Self {
        Self::default()
    }

    /// Held for `delay`, then at the back of the queue. Zero is now.
    pub fn after(delay: Duration) -> Self {
        EnqueueOptions { when: When::After(delay), ..Self::default() }
    }

    /// Held for `delay`, then ahead of the backlog.
    pub fn deferred(delay: Duration) -> Self {
        EnqueueOptions { when: When::Deferred(delay), ..Self::default() }
    }

    /// Held until `time`, then at the back of the queue. A time that has passed is now.
    pub fn at(time: SystemTime) -> Self {
        EnqueueOptions { when: When::At(time), ..Self::default() }
    }

    /// Sets the priority of the first run, at most the queue's `max_priority`; retries go back to 0. A queue without
    /// priorities ignores it. A deferred job comes at the top priority anyway, and refuses another.
    pub fn priority(self, priority: u8) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Ties the job to other work; at most 255 bytes.
    pub fn correlation_id(self, id: impl Into<String>) -> Self {
        Self { correlation_id: Some(id.into()), ..self }
    }

    /// Adds a pair to what travels beside the payload; the same key again replaces it.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.push((key.into(), value.into()));
        self
    }

    /// Sets the job's id, to repeat an enqueue whose outcome is unknown. A new UUIDv7 by default.
    pub fn job_id(self, id: Uuid) -> Self {
        Self { job_id: Some(id), ..self }
    }

    /// The envelope of a job that is to run then.
    fn envelope<J: Job>(self, job: &J, when: Resolved) -> Result<Envelope> {
        let mut envelope = Envelope::new(job)?;
        envelope.priority = self.priority_for::<J>(when)?;
        envelope.due_at_ms = when.due_at_ms();
        envelope.job_id = self.job_id.unwrap_or(envelope.job_id);
        envelope.correlation_id = self.correlation_id;
        envelope.metadata.extend(self.metadata);
        Ok(envelope)
    }

    fn priority_for<J: Job>(&self, when: Resolved) -> Result<u8> {
        let refused = |why| Err(Error::InvalidOption { job_type: J::NAME.to_owned(), why });
        match (self.priority, when) {
            (None, Resolved::Deferred(_)) => Ok(J::QUEUE.config().deferral_priority()),
            (Some(_), Resolved::Deferred(_)) => {
                refused("a deferral comes back at the queue's top priority and takes no other".to_owned())
            }
            (None, _) => Ok(0),
            (Some(priority), _) => match J::QUEUE.config().max_priority {
                Some(max) if priority > max => refused(format!(
                    "priority {priority} is above {max}, the maximum of queue `{}`",
                    J::QUEUE.name()
                )),
                Some(_) => Ok(priority),
                None => {
                    tracing::debug!(
                        job_type = J::NAME,
                        priority,
                        "queue has no priorities: priority ignored"
                    );
                    Ok(0)
                }
            },
        }
    }
}

impl When {
    /// The wait from now on.
    fn resolve(self) -> Resolved {
        match self {
            When::Deferred(delay) => Resolved::Deferred(delay),
            When::Now => Resolved::Now,
            When::After(delay) => Resolved::after(delay),
            When::At(time) => Resolved::after(time.duration_since(clock::now()).unwrap_or(Duration::ZERO)),
        }
    }
}

impl Resolved {
    fn after(delay: Duration) -> Self {
        if delay.is_zero() { Resolved::Now } else { Resolved::After(delay) }
    }

    fn due_at_ms(self) -> Option<u64> {
        match self {
            Resolved::Now => None,
            Resolved::After(delay) | Resolved::Deferred(delay) => {
                clock::now().checked_add(delay).map(clock::millis_since_epoch)
            }
        }
    }
}
