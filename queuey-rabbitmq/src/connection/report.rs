//! What is told of the connections: to the application's own function, and to the log at a bounded rate.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{debug, error, info, warn};

use crate::options::{ConnectionEvent, RabbitMqOptions};

/// The log gets at most this many events per [`PERIOD`]; the function gets all.
const BURST: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Tells of events.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    options: Arc<RabbitMqOptions>,
    /// Since when the log counts, and how much it got since.
    logged: Arc<Mutex<(Instant, u32)>>,
}

impl Reporter {
    pub(crate) fn new(options: Arc<RabbitMqOptions>) -> Self {
        Reporter { options, logged: Arc::new(Mutex::new((Instant::now(), 0))) }
    }

    /// Tells of an event of a connection or a subscription, with the reason where there is one.
    pub(crate) fn tell(&self, who: &str, event: ConnectionEvent, reason: &str) {
        if self.may_log() {
            log(who, &event, reason);
        } else {
            debug!(who, ?event, reason, "many events: left out of the log");
        }
        if let Some(hear) = &self.options.on_event
            && std::panic::catch_unwind(AssertUnwindSafe(|| hear(event))).is_err()
        {
            error!("the function given to `on_event` panicked: gone on without it");
        }
    }

    fn may_log(&self) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.0.elapsed() >= PERIOD {
            *logged = (Instant::now(), 0);
        }
        logged.1 += 1;
        logged.1 <= BURST
    }
}

fn log(who: &str, event: &ConnectionEvent, reason: &str) {
    match event {
        ConnectionEvent::ConnectionLost => warn!(who, reason, "connection to the broker lost"),
        ConnectionEvent::Reconnecting { attempt } => {
            warn!(who, attempt, reason, "connecting to the broker again");
        }
        ConnectionEvent::Recovered { downtime } => info!(who, ?downtime, "connection to the broker is back"),
        ConnectionEvent::GaveUp => error!(who, reason, "connection to the broker given up"),
        ConnectionEvent::Blocked { reason } => warn!(who, reason, "the broker takes no messages"),
        ConnectionEvent::Unblocked => info!(who, "the broker takes messages again"),
        ConnectionEvent::ConsumerCancelled { queue } => {
            error!(who, queue, reason, "consumer ended by the broker: was its queue deleted?");
        }
        ConnectionEvent::ConsumerResumed { queue } => info!(who, queue, "consumer is back"),
    }
}
