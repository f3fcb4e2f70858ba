//! The backend: each call is a few lines into the files above.

use std::{fmt, sync::Arc, time::Duration};

use queuey_core::{Backend, BoxFuture, DeliveryStream, Envelope, Error, Health, QueueConfig, Result};
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    connection::{Context, Dialler, Link, Reporter, State},
    consumer::Consumers,
    delivery::Desk,
    error::{Failure, once_more},
    hold::{Holds, Wait},
    message::Message,
    options::RabbitMqOptions,
    publisher::Publisher,
    topology::{DeclareError, Topology},
};

/// How many messages of one call are under way at a time.
const ROW: usize = 1_000;

/// RabbitMQ, from 3.10 to 4.3, as a [`Backend`]. A clone shares the connections; they end with the last clone, or when
/// it is closed.
///
/// ```no_run
/// # async fn example() -> queuey_core::Result<()> {
/// use queuey_rabbitmq::{RabbitMqBackend, RabbitMqOptions};
///
/// let options = RabbitMqOptions::default().connection_name("mailer");
/// let backend = RabbitMqBackend::with_options("amqp://mailer:secret@broker/production", options).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RabbitMqBackend(Arc<Shared>);

struct Shared {
    context: Context,
    dialler: Dialler,
    desk: Arc<Desk>,
    /// The connection for consuming, made when it is first needed: a broker that throttles those who publish stops
    /// reading from them, and acknowledgements must not be stuck behind that.
    consuming: OnceCell<Link>,
    consumers: Consumers,
    /// Ends all tasks when the last clone is gone.
    _closes: DropGuard,
}

impl RabbitMqBackend {
    /// Connects with the defaults.
    ///
    /// # Errors
    ///
    /// As [`with_options`](Self::with_options).
    pub async fn connect(url: &str) -> Result<Self> {
        Self::with_options(url, RabbitMqOptions::default()).await
    }

    /// Connects to `amqp://user:password@host:port/vhost`, or `amqps://`. What is left out is `guest`, `guest`, 5672
    /// (5671) and the virtual host `/`; special characters must be percent-encoded.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidAddress`], [`Error::AccessRefused`] for a login the broker refuses, else [`Error::Backend`]. The
    /// first connect is not tried again; a connection that is lost later is rebuilt.
    pub async fn with_options(url: &str, options: RabbitMqOptions) -> Result<Self> {
        let dialler = Dialler {
            addresses: options.all_addresses(url)?.into(),
            name: options.connection_name.clone(),
            timeout: options.connect_timeout,
            heartbeat: options.heartbeat_seconds(),
        };
        let options = Arc::new(options);
        let closed = CancellationToken::new();
        let context = Context {
            topology: Arc::new(Topology::new(options.clone())),
            reporter: Reporter::new(options.clone()),
            closed: closed.clone(),
            options,
        };
        let closes = closed.drop_guard();
        let link = Link::open("publish", context.clone(), named(&dialler, "publish")).await?;
        let publisher = Publisher::start(&link, context.options.publish_channels);
        let holds = Holds::new(link.clone(), publisher.clone(), context.options.clone());
        let probing = tokio::sync::Mutex::default();
        let desk = Arc::new(Desk { context: context.clone(), link, publisher, holds, probing });
        let (consuming, consumers) = (OnceCell::new(), Consumers::default());
        Ok(RabbitMqBackend(Arc::new(Shared {
            context,
            dialler,
            desk,
            consuming,
            consumers,
            _closes: closes,
        })))
    }
}

/// The same dialler, with a connection name that tells what the connection is for.
fn named(dialler: &Dialler, purpose: &str) -> Dialler {
    Dialler { name: format!("{} ({purpose})", dialler.name), ..dialler.clone() }
}

impl Shared {
    fn open(&self) -> Result<()> {
        if self.context.closed.is_cancelled() { Err(Error::ShutDown) } else { Ok(()) }
    }

    async fn consuming(&self) -> Result<&Link> {
        let open = || Link::open("consume", self.context.clone(), named(&self.dialler, "consume"));
        self.consuming.get_or_try_init(open).await
    }

    async fn declare(&self, configs: &[QueueConfig]) -> Result<()> {
        self.open()?;
        self.context.topology.check(configs)?;
        let link = self.consuming.get().unwrap_or(&self.desk.link);
        let declaring = async {
            // A declare on a connection that the broker does not read from would wait for as long as that lasts.
            let live = if self.consuming.initialized() { link.live().await } else { link.ready().await }?;
            self.context.topology.declare(&live.connection, configs).await.map_err(explain)
        };
        tokio::select! {
            declared = declaring => declared?,
            reason = link.patience() => return Err(reason),
        }
        configs.iter().for_each(|config| self.context.topology.remember(config));
        Ok(())
    }

    /// Over the connection that holds are declared on.
    async fn prepare_holds(&self, configs: &[QueueConfig]) -> Result<()> {
        self.open()?;
        for config in configs {
            self.known(&config.name)?;
        }
        let link = &self.desk.link;
        let trying = async {
            let live = link.ready().await?;
            self.context.topology.try_holds(&live.connection, configs).await.map_err(explain)
        };
        tokio::select! {
            tried = trying => tried,
            reason = link.patience() => Err(reason),
        }
    }

    /// A message that can't be made is an error when it is polled.
    fn publish(&self, envelope: &Envelope) -> impl Future<Output = Result<()>> + Send + use<'_> {
        let publishing = self.message(envelope).map(|message| self.desk.publisher.publish(message));
        async move { publishing?.await }
    }

    /// Publishes in rows, one after the other, so that what is under way has a bound. After one that was waited for in vain,
    /// in whole or in part, the rest is not tried: else each would be waited for as long.
    async fn publish_many(&self, envelopes: &[Envelope]) -> Vec<Result<()>> {
        let mut results: Vec<Result<()>> = Vec::with_capacity(envelopes.len());
        for row in envelopes.chunks(ROW) {
            let last_row = results.len().saturating_sub(ROW)..;
            if let Some(reason) = results[last_row].iter().rev().find_map(in_vain) {
                results.resize_with(results.len() + row.len(), || Err(once_more(&reason)));
                continue;
            }
            let (mut messages, mut row_results) =
                (Vec::with_capacity(row.len()), Vec::with_capacity(row.len()));
            for envelope in row {
                row_results.push(self.message(envelope).map(|message| messages.push(message)));
            }
            let mut published = self.desk.publisher.publish_many(messages).await.into_iter();
            let answer =
                |made: Result<()>| made.and_then(|()| published.next().unwrap_or(Err(Error::ShutDown)));
            results.extend(row_results.into_iter().map(answer));
        }
        results
    }

    fn message(&self, envelope: &Envelope) -> Result<Message> {
        self.open()?;
        let durable = self.context.topology.known(&envelope.queue).is_none_or(|config| config.durable);
        Message::job(envelope, &envelope.queue, durable)
    }

    async fn hold(&self, envelope: &Envelope, delay: Duration, granularity: Duration) -> Result<()> {
        self.open()?;
        let config = self.known(&envelope.queue)?;
        let message = Message::job(envelope, &config.name, config.durable)?;
        let wait = Wait { config, delay, granularity };
        self.desk.holds.hold(&message, &wait, self.desk.link.patience()).await
    }

    fn known(&self, queue: &str) -> Result<Arc<QueueConfig>> {
        self.context.topology.known(queue).ok_or_else(|| Error::UnknownQueue(queue.to_owned()))
    }

    async fn consume(&self, config: &QueueConfig) -> Result<DeliveryStream> {
        self.open()?;
        self.known(&config.name)?;
        let link = self.consuming().await?;
        self.consumers.open(&self.desk, link, Arc::new(config.clone())).await
    }

    fn health(&self) -> Health {
        let mut health = Health::default();
        if self.context.closed.is_cancelled() {
            return health;
        }
        let mut states = vec![self.desk.link.state()];
        states.extend(self.consuming.get().map(Link::state));
        health.connected = states.iter().all(|state| state.live.is_some());
        health.blocked = states.iter().find_map(|state| state.blocked.clone());
        health.reconnecting = states.iter().find_map(|State { rebuilding, .. }| rebuilding.clone());
        health.consuming = self.consumers.consuming();
        health.suspended = self.consumers.suspended();
        health.suspended.extend(self.context.topology.all_forbidden());
        health.suspended.sort_unstable();
        health.suspended.dedup_by(|one, other| one.0 == other.0);
        health
    }
}

/// Why a message was not confirmed, for others that are not tried after it; nothing where the broker gave an answer.
fn in_vain(result: &Result<()>) -> Option<Error> {
    match result {
        Err(
            reason @ (Error::NotConnected
            | Error::Blocked { .. }
            | Error::ShutDown
            | Error::Unconfirmed { .. }),
        ) => Some(once_more(reason)),
        _ => None,
    }
}

/// A declare that failed, as the error a caller sees.
fn explain(error: DeclareError) -> Error {
    match error {
        DeclareError::Lost(error) => Failure::caused("the queues could not be declared", error),
        DeclareError::Refused { error, .. } => error,
    }
}

impl Backend for RabbitMqBackend {
    fn declare<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.declare(queues))
    }

    fn prepare_holds<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.prepare_holds(queues))
    }

    fn publish<'a>(&'a self, envelope: &'a Envelope, delay: Option<Duration>) -> BoxFuture<'a, Result<()>> {
        // Each has a box of its own, so that the most frequent one is small.
        match delay {
            None => Box::pin(self.0.publish(envelope)),
            Some(delay) if delay.is_zero() => Box::pin(async move {
                self.0.open()?;
                self.0.known(&envelope.queue)?;
                self.0.publish(envelope).await
            }),
            Some(delay) => Box::pin(self.0.hold(envelope, delay, self.0.context.options.retry_granularity)),
        }
    }

    fn publish_many<'a>(&'a self, envelopes: &'a [Envelope]) -> BoxFuture<'a, Vec<Result<()>>> {
        Box::pin(self.0.publish_many(envelopes))
    }

    fn defer<'a>(&'a self, envelope: &'a Envelope, delay: Duration) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.hold(envelope, delay, self.0.context.options.deferred_granularity))
    }

    fn consume<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<DeliveryStream>> {
        Box::pin(self.0.consume(queue))
    }

    fn flush<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let flushing = self.0.consumers.flush(&queue.name);
            tokio::select! {
                () = flushing => Ok(()),
                () = self.0.context.closed.cancelled() => Err(Error::ShutDown),
                () = tokio::time::sleep(self.0.context.options.publish_timeout) => Err(Error::NotConnected),
            }
        })
    }

    fn health(&self) -> BoxFuture<'_, Health> {
        Box::pin(async { self.0.health() })
    }

    fn close(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            self.0.context.closed.cancel();
            self.0.desk.link.closed().await;
            if let Some(link) = self.0.consuming.get() {
                link.closed().await;
            }
            Ok(())
        })
    }
}

impl fmt::Debug for RabbitMqBackend {
    /// Leaves out the address, for it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RabbitMqBackend").field("options", &self.0.context.options).finish_non_exhaustive()
    }
}
