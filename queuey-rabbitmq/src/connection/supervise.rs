//! Watches a connection and replaces it.

use std::{pin::pin, sync::Arc};

use futures_util::StreamExt;
use lapin::{ErrorKind, Event};

use super::{
    CLOSE_TIMEOUT, ConnectionEvent, Duration, Instant, Link, Live, Reconnecting, State, SystemTime, after,
    not_connected, with_sources,
};
use crate::reconnect::{Attempt, Rebuilding};

/// How long a connection must have lived for its loss to be the first one.
pub(crate) const HEALTHY: Duration = Duration::from_secs(10);

/// How often the state of a connection is looked at, should an event have been missed.
const LOOK: Duration = Duration::from_secs(1);

/// How a connection was lost.
struct Loss {
    reason: String,
    unreadable: bool,
}

impl Loss {
    fn of(error: &lapin::Error) -> Self {
        Loss { reason: with_sources(error), unreadable: matches!(error.kind(), ErrorKind::ParsingError(_)) }
    }
}

impl Link {
    /// Keeps the link alive until the backend is closed or the policy gives up.
    pub(super) async fn supervise(self, first: Arc<Live>) {
        let mut live = first;
        let mut failures = 0;
        loop {
            let Some(loss) = self.watch(&live).await else {
                live.lost.cancel();
                live.close().await;
                self.state.send_replace(State { ended: true, ..State::default() });
                return;
            };
            live.end();
            self.tell(ConnectionEvent::ConnectionLost, &loss.reason);
            if live.since.elapsed() >= HEALTHY {
                failures = 0;
            }
            match self.rebuild(&mut failures, loss).await {
                Some(rebuilt) => live = rebuilt,
                None => {
                    self.state.send_replace(State { ended: true, ..State::default() });
                    return;
                }
            }
        }
    }

    /// Resolves when the connection is lost, with the reason; with `None` when the backend is closed.
    async fn watch(&self, live: &Live) -> Option<Loss> {
        let mut events = pin!(live.connection.events_listener());
        let mut loss = Loss { reason: not_connected().to_string(), unreadable: false };
        loop {
            tokio::select! {
                () = self.context.closed.cancelled() => return None,
                event = events.next() => match event {
                    Some(Event::ConnectionBlocked(reason)) => self.block(reason),
                    Some(Event::ConnectionUnblocked) => self.unblock(),
                    Some(Event::Error(error)) => loss = Loss::of(&error),
                    Some(_) => {}
                    None => return Some(loss),
                },
                () = tokio::time::sleep(LOOK) => {}
            }
            if !live.connection.status().connected() {
                return Some(loss);
            }
        }
    }

    fn block(&self, reason: String) {
        self.state.send_modify(|state| state.blocked = Some(reason.clone()));
        self.tell(ConnectionEvent::Blocked { reason }, "");
    }

    fn unblock(&self) {
        self.state.send_modify(|state| state.blocked = None);
        self.tell(ConnectionEvent::Unblocked, "");
    }

    /// Dials until it works, the backend is closed or the policy gives up.
    async fn rebuild(&self, failures: &mut u32, loss: Loss) -> Option<Arc<Live>> {
        let Loss { mut reason, unreadable } = loss;
        let (since, start) = (SystemTime::now(), Instant::now());
        let mut attempt: u32 = 0;
        loop {
            let rebuilding = Some(Reconnecting::new(since, attempt, reason.clone()));
            self.state.send_replace(State { rebuilding, ..State::default() });
            let Some(wait) = self.wait_before(*failures, &reason) else {
                self.tell(ConnectionEvent::GaveUp, &reason);
                return None;
            };
            tokio::select! {
                () = after(Some(wait)) => {}
                () = self.context.closed.cancelled() => return None,
            }
            attempt = attempt.saturating_add(1);
            *failures = failures.saturating_add(1);
            self.tell(ConnectionEvent::Reconnecting { attempt }, &reason);
            let dialled = tokio::select! {
                dialled = self.dial_and_replay() => dialled,
                () = self.context.closed.cancelled() => return None,
            };
            match dialled {
                Ok(live) => {
                    self.state.send_replace(State {
                        live: Some(live.clone()),
                        unreadable,
                        ..State::default()
                    });
                    self.tell(ConnectionEvent::Recovered { downtime: start.elapsed() }, "");
                    return Some(live);
                }
                Err(error) => reason = error,
            }
        }
    }

    /// The first attempt is made at once.
    fn wait_before(&self, failures: u32, reason: &str) -> Option<Duration> {
        let policy = self.context.options.reconnect.as_ref()?;
        match failures {
            0 => Some(Duration::ZERO),
            failures => policy.next_delay(Attempt::new(failures, reason, Rebuilding::Connection)),
        }
    }

    async fn dial_and_replay(&self) -> Result<Arc<Live>, String> {
        let live = Live::new(self.dialler.dial().await.map_err(|error| with_sources(&error))?);
        let timeout = self.context.options.publish_timeout.max(CLOSE_TIMEOUT);
        let replayed = tokio::time::timeout(timeout, self.context.topology.replay(&live.connection)).await;
        match replayed {
            Ok(Ok(())) => Ok(live),
            Ok(Err(error)) => {
                live.end();
                Err(with_sources(&error))
            }
            Err(_) => {
                live.end();
                Err("the queues could not be declared again in time".to_owned())
            }
        }
    }
}
