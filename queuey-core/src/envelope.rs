//! The wire form of a job with its counters, and the rules by which it changes from attempt to attempt.

use std::{collections::BTreeMap, time::Duration};

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    clock,
    error::{Error, Result},
    job::Job,
    queue::QueueSet,
};

mod wire;

/// The most bytes a correlation id may have: it travels as an AMQP 0-9-1 short string.
const MAX_CORRELATION_ID: usize = 255;

/// A job as it travels: its payload, untouched, and the counters around it.
///
/// The payload is raw JSON text and is never re-parsed into a tree, so that every digit and the order of keys come
/// back as they were sent. Fields this version does not know are carried along.
///
/// ```
/// # extern crate queuey_core as queuey;
/// use queuey::Envelope;
///
/// let body = br#"{"job_id":"0190b2c0-0000-7000-8000-000000000000","job_type":"emails.send",
///     "queue":"myapp.emails","attempt":1,"enqueued_at_ms":1700000000000,"payload":{"to":"ada"},"shard":7}"#;
/// let envelope = Envelope::from_bytes(body)?;
/// assert_eq!(envelope.next_attempt().attempt, 2);
/// assert!(envelope.to_bytes().ends_with(br#""payload":{"to":"ada"},"shard":7}"#));
/// # Ok::<(), queuey::EnvelopeError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Envelope {
    /// Unique per job, the same through all its attempts. UUIDv7 unless the producer gave another.
    pub job_id: Uuid,
    /// The job's name: [`Job::NAME`].
    pub job_type: String,
    /// The queue the job was enqueued to.
    pub queue: String,
    /// The run that comes next, or is under way; the first is 1.
    pub attempt: u32,
    /// When the job was enqueued, in milliseconds since the Unix epoch.
    pub enqueued_at_ms: u64,
    /// How often the job has deferred itself.
    pub deferrals: u32,
    /// The priority in its queue.
    pub priority: u8,
    /// What ties the job to other work, at most 255 bytes.
    pub correlation_id: Option<String>,
    /// How often the job was handed out and never settled, since its last attempt or deferral.
    pub redeliveries: u32,
    /// When a job that was enqueued with a delay was to run first, in milliseconds since the Unix epoch.
    pub due_at_ms: Option<u64>,
    /// Whatever the application wants to travel beside the payload.
    pub metadata: BTreeMap<String, String>,
    /// The job itself, as JSON.
    pub payload: Box<RawValue>,
    /// Fields of later versions, in the order they came.
    unknown: Vec<(String, Box<RawValue>)>,
}

/// Why a message body is no envelope.
#[derive(Debug, thiserror::Error)]
#[error("malformed envelope")]
pub struct EnvelopeError(#[from] serde_json::Error);

impl Envelope {
    /// Wraps a job for its first attempt.
    ///
    /// # Errors
    ///
    /// [`Error::Serde`] when the job can't be written as JSON, or its own type can't read back what was written.
    pub fn new<J: Job>(job: &J) -> Result<Self> {
        let serde = |source| Error::Serde { job_type: J::NAME.to_owned(), source };
        let payload = serde_json::value::to_raw_value(job).map_err(serde)?;
        if wire::may_not_read_back(payload.get()) {
            serde_json::from_str::<J>(payload.get()).map_err(serde)?;
        }
        Ok(Self::raw(J::NAME, J::QUEUE.name(), payload))
    }

    /// Wraps a payload that is JSON already, for its first attempt.
    pub fn raw(job_type: impl Into<String>, queue: impl Into<String>, payload: Box<RawValue>) -> Self {
        Envelope {
            job_id: Uuid::now_v7(),
            job_type: job_type.into(),
            queue: queue.into(),
            attempt: 1,
            enqueued_at_ms: clock::now_ms(),
            deferrals: 0,
            priority: 0,
            correlation_id: None,
            redeliveries: 0,
            due_at_ms: None,
            metadata: BTreeMap::new(),
            payload,
            unknown: Vec::new(),
        }
    }

    /// The payload as a job.
    ///
    /// # Errors
    ///
    /// When the payload does not have the job's shape.
    pub fn decode<J: Job>(&self) -> Result<J, serde_json::Error> {
        serde_json::from_str(self.payload.get())
    }

    /// The envelope of the attempt after this one: at the back of the queue, with no redeliveries.
    #[must_use]
    pub fn next_attempt(&self) -> Self {
        Envelope { attempt: self.attempt.saturating_add(1), priority: 0, redeliveries: 0, ..self.clone() }
    }

    /// The envelope of the same attempt, deferred, with the priority it comes back with.
    #[must_use]
    pub fn deferred(&self, priority: u8) -> Self {
        Envelope { deferrals: self.deferrals.saturating_add(1), priority, redeliveries: 0, ..self.clone() }
    }

    /// The envelope of the same delivery, counted once more as handed out and never settled.
    #[must_use]
    pub fn redelivered(&self) -> Self {
        Envelope { redeliveries: self.redeliveries.saturating_add(1), ..self.clone() }
    }

    /// Sets what ties the job to other work, at most 255 bytes.
    #[must_use]
    pub fn with_correlation_id(self, id: impl Into<String>) -> Self {
        Envelope { correlation_id: Some(id.into()), ..self }
    }

    /// How long ago the job was to run first: since `due_at_ms` where set, else since it was enqueued.
    pub fn age(&self) -> Duration {
        let since = self.due_at_ms.unwrap_or(self.enqueued_at_ms);
        Duration::from_millis(clock::now_ms().saturating_sub(since))
    }

    /// The message body: JSON with the keys in their fixed order.
    pub fn to_bytes(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Reads a message body.
    ///
    /// # Errors
    ///
    /// When a field is missing, has the wrong type or is there twice, or when anything else is not an envelope.
    pub fn from_bytes(body: &[u8]) -> Result<Self, EnvelopeError> {
        Ok(serde_json::from_slice(body)?)
    }

    /// About how many bytes it has as a message, without writing it out.
    pub(crate) fn rough_size(&self) -> usize {
        let metadata: usize = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        let unknown: usize = self.unknown.iter().map(|(key, value)| key.len() + value.get().len()).sum();
        self.payload.get().len() + metadata + unknown
    }

    /// Checks what a message has no room for. Every backend does, before it takes the envelope.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a correlation id of more than 255 bytes.
    pub fn check(&self) -> Result<()> {
        match &self.correlation_id {
            Some(id) if id.len() > MAX_CORRELATION_ID => Err(Error::InvalidOption {
                job_type: self.job_type.clone(),
                why: format!("the correlation id has {} bytes; {MAX_CORRELATION_ID} are the most", id.len()),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
