//! Declares queues, remembers them, and declares them again on a new connection.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lapin::{Channel, Connection, options::QueueDeclareOptions};
use queuey_core::{__private::check_queues, Error, QueueConfig, QueueKind, Result};
use tracing::{error, info, warn};

use super::{
    arguments::{QueueShape, dead_shape, hold_shape, work_shape},
    names::{MIN_HOLD_MS, dead_queue_name, deferred_ttl_ms},
};
use crate::{
    error::{Failure, Lasting, NOT_FOUND, Refusal, with_sources},
    options::{DeadLetters, RabbitMqOptions, TopologyMode},
};

/// Why a declare was not answered with yes.
#[derive(Debug)]
pub(crate) enum DeclareError {
    /// The connection broke or the broker did not answer; asking again may help.
    Lost(lapin::Error),
    /// The broker said no.
    Refused { error: Error, lasts: Lasting, missing: bool },
}

impl DeclareError {
    pub(crate) fn of(error: lapin::Error, queue: &str) -> Self {
        // A broker that shuts down says so with a code as well.
        let counts = |refusal: &Refusal| error.is_amqp_soft_error() || refusal.lasts() == Lasting::ForEver;
        match Refusal::of(&error).filter(counts) {
            Some(refusal) => DeclareError::Refused {
                error: refusal.of_declare(queue),
                lasts: refusal.lasts(),
                missing: refusal.code == NOT_FOUND,
            },
            None => DeclareError::Lost(error),
        }
    }

    /// The same with the value that was asked for: the broker leaves it out where the name of the queue is long.
    fn of_shape(error: lapin::Error, shape: &QueueShape) -> Self {
        let mut error = DeclareError::of(error, shape.name.as_str());
        if let DeclareError::Refused { error: Error::QueueMismatch { argument, wanted, .. }, .. } = &mut error
        {
            *wanted = shape.value_of(argument);
        }
        error
    }
}

/// The queues this backend knows, and what they are declared with.
#[derive(Debug)]
pub(crate) struct Topology {
    options: Arc<RabbitMqOptions>,
    known: Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    config: Arc<QueueConfig>,
    forbidden: Option<Forbidden>,
}

/// Why a queue is not declared any more, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Forbidden {
    pub(crate) why: String,
    pub(crate) lasts: Lasting,
}

impl Topology {
    pub(crate) fn new(options: Arc<RabbitMqOptions>) -> Self {
        Topology { options, known: Mutex::default() }
    }

    /// Checks queues before anything is made of them.
    pub(crate) fn check(&self, configs: &[QueueConfig]) -> Result<()> {
        check_queues(configs, self.options.names())?;
        // What was declared earlier belongs to the same backend: no name may be taken by it either.
        let mut all: Vec<QueueConfig> = configs.to_vec();
        let others = self.lock();
        all.extend(
            others
                .values()
                .map(|k| &*k.config)
                .filter(|o| !configs.iter().any(|c| c.name == o.name))
                .cloned(),
        );
        check_queues(&all, self.options.names())
    }

    /// How a queue was declared here; `None` for one that was not.
    pub(crate) fn known(&self, queue: &str) -> Option<Arc<QueueConfig>> {
        self.lock().get(queue).map(|known| known.config.clone())
    }

    /// Why a queue was given up on.
    pub(crate) fn forbidden(&self, queue: &str) -> Option<Forbidden> {
        self.lock().get(queue).and_then(|known| known.forbidden.clone())
    }

    /// The queues that were given up on, and why.
    pub(crate) fn all_forbidden(&self) -> Vec<(String, String)> {
        let known = self.lock();
        known.iter().filter_map(|(name, known)| Some((name.clone(), known.forbidden.clone()?.why))).collect()
    }

    /// Remembers a queue that is there, so that it is declared again when it may not be.
    pub(crate) fn remember(&self, config: &QueueConfig) {
        match self.lock().entry(config.name.clone()) {
            Entry::Occupied(mut known) => known.get_mut().forbidden = None,
            Entry::Vacant(place) => {
                warn_of_surprises(config, &self.options);
                place.insert(Known { config: Arc::new(config.clone()), forbidden: None });
            }
        }
    }

    /// Gives a queue up. Whether that is news.
    fn forbid(&self, queue: &str, forbidden: Forbidden) -> bool {
        let mut known = self.lock();
        let Some(known) = known.get_mut(queue) else { return true };
        let is_news = known.forbidden.as_ref().is_none_or(|before| before.why != forbidden.why);
        known.forbidden = Some(forbidden);
        is_news
    }

    /// A queue that was given up on is served again.
    pub(crate) fn allow(&self, queue: &str) {
        if let Some(known) = self.lock().get_mut(queue) {
            known.forbidden = None;
        }
    }

    /// Makes queues and their dead-letter queues, or looks for them, as the mode says.
    pub(crate) async fn declare<'a>(
        &self,
        connection: &Connection,
        configs: impl IntoIterator<Item = &'a QueueConfig>,
    ) -> Result<(), DeclareError> {
        let mut channel = None;
        let mut missing = Vec::new();
        for config in configs {
            for shape in self.shapes(config).map_err(refused)? {
                match self.declare_one(open(&mut channel, connection).await?, &shape).await {
                    Err(DeclareError::Refused { missing: true, .. }) => missing.push(shape.name.to_string()),
                    other => other?,
                }
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let what = format!(
            "queues are missing on the broker, which this backend was told not to make: {}",
            missing.join(", ")
        );
        Err(DeclareError::Refused { error: Failure::plain(what), lasts: Lasting::ForNow, missing: true })
    }

    /// What there must be for a queue, in the order in which it is made: what leads somewhere comes after that.
    fn shapes(&self, config: &QueueConfig) -> Result<Vec<QueueShape>> {
        let (dead, work) = (dead_shape(&config.name, &self.options)?, work_shape(config, &self.options)?);
        Ok(match (self.options.topology, self.options.dead_letters) {
            (TopologyMode::Assume, _) => vec![],
            (TopologyMode::Declare, DeadLetters::Declare) => vec![dead, work],
            (TopologyMode::Declare, _) | (TopologyMode::Verify, DeadLetters::Reject) => vec![work],
            (TopologyMode::Verify, _) => vec![dead, work],
        })
    }

    async fn declare_one(&self, channel: &Channel, shape: &QueueShape) -> Result<(), DeclareError> {
        match self.options.topology {
            TopologyMode::Verify => look_for(channel, shape).await,
            _ => make(channel, shape).await,
        }
    }

    /// Declares the dead-letter queue of a queue alone, where that is ours to make; it was found missing.
    pub(crate) async fn declare_dead(
        &self,
        connection: &Connection,
        queue: &str,
    ) -> Result<(), DeclareError> {
        if self.options.dead_letters != DeadLetters::Declare || self.options.topology != TopologyMode::Declare
        {
            return Ok(());
        }
        let shape = dead_shape(queue, &self.options).map_err(refused)?;
        make(open(&mut None, connection).await?, &shape).await
    }

    /// Declares one hold queue of each queue, the shortest there is, to see whether the user may. It deletes itself.
    ///
    /// # Errors
    ///
    /// Where a permission is missing, or the connection breaks. Anything else is told by what comes to need that hold.
    pub(crate) async fn try_holds(
        &self,
        connection: &Connection,
        configs: &[QueueConfig],
    ) -> Result<(), DeclareError> {
        let shortest = deferred_ttl_ms(Duration::ZERO, self.options.deferred_granularity);
        let mut channel = None;
        for config in configs {
            let shape =
                hold_shape(config, shortest.unwrap_or(MIN_HOLD_MS), &self.options).map_err(refused)?;
            match make(open(&mut channel, connection).await?, &shape).await {
                Err(DeclareError::Refused { error: Error::AccessRefused { what }, lasts, missing }) => {
                    let error = Error::AccessRefused { what: self.needed_to_wait(&config.name, &what) };
                    return Err(DeclareError::Refused { error, lasts, missing });
                }
                Err(DeclareError::Refused { error, .. }) => {
                    let error = with_sources(&error);
                    warn!(
                        queue = config.name,
                        error, "a hold queue can't be declared: jobs can't wait in it"
                    );
                }
                other => other?,
            }
        }
        if let Some(channel) = channel {
            // What is left open costs little.
            let _ = channel.close(200, "done".into()).await;
        }
        Ok(())
    }

    fn needed_to_wait(&self, queue: &str, said: &str) -> String {
        let holds = format!("{queue}{}.*", self.options.deferred_suffix);
        format!(
            "jobs of queue `{queue}` can't wait ({said}): their hold queues `{holds}` need the permissions to configure, read and write them, and to write to the default exchange"
        )
    }

    /// Declares again all that was declared. What is refused is told and left out, so that it costs the others nothing.
    ///
    /// # Errors
    ///
    /// When the connection breaks.
    pub(crate) async fn replay(&self, connection: &Connection) -> Result<(), lapin::Error> {
        if self.options.topology != TopologyMode::Declare {
            return Ok(());
        }
        let asked = |known: &&Known| !known.forbidden.as_ref().is_some_and(|f| f.lasts == Lasting::ForEver);
        let wanted: Vec<_> = self.lock().values().filter(asked).map(|known| known.config.clone()).collect();
        for config in wanted {
            match self.declare(connection, [&*config]).await {
                Ok(()) => self.allow(&config.name),
                Err(DeclareError::Lost(error)) => return Err(error),
                Err(refused) => self.note_refusal(&config.name, &refused),
            }
        }
        Ok(())
    }

    /// Tells of a declare that was refused after it had once been granted.
    pub(crate) fn note_refusal(&self, queue: &str, refused: &DeclareError) {
        let DeclareError::Refused { error, lasts, .. } = refused else { return };
        let why = with_sources(error);
        let forbidden = Forbidden { why: why.clone(), lasts: *lasts };
        if *lasts == Lasting::ForNow || self.forbid(queue, forbidden) {
            error!(queue, error = why, ?lasts, "queue can't be declared again: the others go on without it");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(error: Error) -> DeclareError {
    DeclareError::Refused { error, lasts: Lasting::ForNow, missing: false }
}

/// A channel that is open: the one at hand, or a new one after a refusal has closed that.
async fn open<'a>(
    channel: &'a mut Option<Channel>,
    connection: &Connection,
) -> Result<&'a Channel, DeclareError> {
    let usable = channel.take().filter(|channel| channel.status().connected());
    let usable = match usable {
        Some(usable) => usable,
        None => connection.create_channel().await.map_err(DeclareError::Lost)?,
    };
    Ok(channel.insert(usable))
}

/// Declares one queue.
pub(crate) async fn make(channel: &Channel, shape: &QueueShape) -> Result<(), DeclareError> {
    let declared = channel.queue_declare(shape.name.clone(), shape.options(), shape.arguments.clone()).await;
    declared.map(drop).map_err(|error| DeclareError::of_shape(error, shape))
}

async fn look_for(channel: &Channel, shape: &QueueShape) -> Result<(), DeclareError> {
    let passive = QueueDeclareOptions { passive: true, ..shape.options() };
    let found = channel.queue_declare(shape.name.clone(), passive, Default::default()).await;
    found.map(drop).map_err(|error| DeclareError::of(error, shape.name.as_str()))
}

/// Says once what its owner should know of a queue.
fn warn_of_surprises(config: &QueueConfig, options: &RabbitMqOptions) {
    let queue = config.name.as_str();
    if options.dead_letters == DeadLetters::Reject {
        warn!(
            queue,
            "dead letters are rejected: without a dead-letter policy for this queue the broker drops them"
        );
    }
    if config.kind == QueueKind::Quorum {
        info!(
            queue,
            "quorum queue: a deferral comes back ahead of the backlog on RabbitMQ 4.3, two for one on 4.0, and in its turn on 3.x"
        );
        if options.topology != TopologyMode::Declare {
            let dead = dead_queue_name(queue, &options.dead_suffix);
            warn!(
                queue,
                "the delivery limit of a quorum queue that is not declared here can't be seen: it should be twice `redelivery_limit`, with a dead-letter route to `{dead}`"
            );
        }
    }
}
