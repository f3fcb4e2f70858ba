//! One connection that lives on: dialled, watched, and rebuilt when it is lost.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use lapin::{Channel, Connection};
use queuey_core::{Error, Reconnecting, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

mod report;
mod dial;
mod supervise;

pub(crate) use dial::Dialler;
pub(crate) use report::Reporter;
pub(crate) use supervise::HEALTHY;

use crate::{
    error::with_sources,
    options::{ConnectionEvent, RabbitMqOptions},
    topology::Topology,
};
use dial::{Dialled, Socket};

/// How long a connection is waited for that is asked to close.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// What the connections of a backend share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) options: Arc<RabbitMqOptions>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) reporter: Reporter,
    /// Fires when the backend is closed.
    pub(crate) closed: CancellationToken,
}

/// A connection of one purpose, over all its rebuilds. Cheap to clone: every publish does.
#[derive(Clone)]
pub(crate) struct Link {
    who: &'static str,
    context: Arc<Context>,
    dialler: Arc<Dialler>,
    state: watch::Sender<State>,
}

/// How a link stands.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) live: Option<Arc<Live>>,
    /// Why the broker takes no messages.
    pub(crate) blocked: Option<String>,
    pub(crate) rebuilding: Option<Reconnecting>,
    /// The connection before this one broke on something that can't be read. Some queue holds that, and will hand it
    /// out again.
    pub(crate) unreadable: bool,
    /// No more attempts are made.
    pub(crate) ended: bool,
}

/// A connection while it lives.
pub(crate) struct Live {
    pub(crate) connection: Connection,
    /// Fires when it is lost. What was received over it will be handed out again.
    pub(crate) lost: CancellationToken,
    socket: Socket,
    since: Instant,
}

impl Live {
    fn new(Dialled { connection, socket }: Dialled) -> Arc<Self> {
        Arc::new(Live { connection, lost: CancellationToken::new(), socket, since: Instant::now() })
    }

    pub(crate) async fn channel(&self) -> lapin::Result<Channel> {
        tokio::select! {
            channel = self.connection.create_channel() => channel,
            () = self.lost.cancelled() => Err(not_connected()),
        }
    }

    /// Whether messages can be written. The client library knows of a block before the event has come through.
    fn takes_messages(&self) -> bool {
        self.connection.status().connected() && !self.connection.status().blocked()
    }

    async fn close(&self) {
        let closing = self.connection.close(200, "closed by the application".into());
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
        self.end();
    }

    fn end(&self) {
        self.lost.cancel();
        self.socket.shut();
    }
}

/// The error of what happens on a connection that is gone.
pub(crate) fn not_connected() -> lapin::Error {
    lapin::ErrorKind::InvalidConnectionState(lapin::ConnectionState::Closed).into()
}

impl Link {
    /// Dials, and from then on keeps the connection alive until the backend is closed.
    ///
    /// # Errors
    ///
    /// When the first dial fails: that is not tried again.
    pub(crate) async fn open(who: &'static str, context: Context, dialler: Dialler) -> Result<Self> {
        let first = tokio::select! {
            dialled = dialler.dial() => Live::new(dialled?),
            () = context.closed.cancelled() => return Err(Error::ShutDown),
        };
        let (state, _) = watch::channel(State { live: Some(first.clone()), ..State::default() });
        let link = Link { who, context: Arc::new(context), dialler: Arc::new(dialler), state };
        tokio::spawn(link.clone().supervise(first));
        Ok(link)
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Resolves when it has ended, after the backend was closed.
    pub(crate) async fn closed(&self) {
        let mut states = self.state.subscribe();
        // The link itself holds the sender, so that it can't be gone.
        let _ = states.wait_for(|state| state.ended).await;
    }

    /// Resolves when it is connected.
    ///
    /// # Errors
    ///
    /// When it never will be again.
    pub(crate) async fn live(&self) -> Result<Arc<Live>> {
        self.wait_for(|state| state.live.clone()).await
    }

    /// Resolves when it is connected and the broker takes messages.
    ///
    /// # Errors
    ///
    /// When it never will be again.
    pub(crate) async fn ready(&self) -> Result<Arc<Live>> {
        let ready = |live: &Arc<Live>| live.takes_messages();
        self.wait_for(|state| state.live.clone().filter(|_| state.blocked.is_none()).filter(ready)).await
    }

    /// Whether it is connected and the broker takes messages.
    pub(crate) fn is_open(&self) -> bool {
        let state = self.state.borrow();
        state.blocked.is_none() && state.live.as_ref().is_some_and(|live| live.takes_messages())
    }

    async fn wait_for<T>(&self, pick: impl Fn(&State) -> Option<T>) -> Result<T> {
        /// How often to look for what is told by no event.
        const LOOK: Duration = Duration::from_millis(100);
        let mut states = self.state.subscribe();
        loop {
            {
                let state = states.borrow_and_update();
                if self.context.closed.is_cancelled() {
                    return Err(Error::ShutDown);
                }
                if let Some(picked) = pick(&state) {
                    return Ok(picked);
                }
                if state.ended {
                    return Err(Error::NotConnected);
                }
            }
            tokio::select! {
                _ = states.changed() => {}
                () = self.context.closed.cancelled() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// How long a confirm is waited for.
    pub(crate) fn publish_timeout(&self) -> Duration {
        self.context.options.publish_timeout
    }

    /// Resolves when a caller has waited long enough, with the reason: `publish_timeout` of the time in which the
    /// broker takes messages, or `blocked_timeout` at one stretch in which it does not.
    pub(crate) fn patience(&self) -> impl Future<Output = Error> + Send + use<> {
        let link = self.clone();
        async move {
            let options = &link.context.options;
            let mut states = link.state.subscribe();
            let mut left = options.publish_timeout;
            loop {
                let blocked = states.borrow_and_update().blocked.clone();
                let start = Instant::now();
                let limit = if blocked.is_some() { options.blocked_timeout } else { Some(left) };
                tokio::select! {
                    _ = states.changed() => {}
                    () = link.context.closed.cancelled() => return Error::ShutDown,
                    () = after(limit) => return match blocked {
                        Some(reason) => Error::Blocked { reason },
                        None => Error::NotConnected,
                    },
                }
                if blocked.is_none() {
                    left = left.saturating_sub(start.elapsed());
                }
            }
        }
    }

    fn tell(&self, event: ConnectionEvent, reason: &str) {
        self.context.reporter.tell(self.who, event, reason);
    }
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
