//! Why a subscription ended, and why it could not be begun again.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;

use super::attach::Attached;
use crate::{
    connection::Live,
    error::{Lasting, with_sources},
};

/// How long a consumer may take to tell that its channel is gone.
const TELLING: Duration = Duration::from_secs(1);

/// Why the pumping has stopped.
pub(super) enum Ending {
    StreamDropped,
    BackendClosed,
    ConnectionLost,
    /// The broker has ended the subscription; the channel lives.
    Cancelled,
    ChannelDied(String),
}

/// Why no more comes.
pub(super) fn ending(attached: &Attached, error: Option<&lapin::Error>) -> Ending {
    match error {
        _ if !attached.live.connection.status().connected() => Ending::ConnectionLost,
        Some(error) => Ending::ChannelDied(with_sources(error)),
        None if attached.channel.status().connected() => Ending::Cancelled,
        None => Ending::ChannelDied("the channel was closed".into()),
    }
}

/// Why an acknowledgement failed. A write fails before anybody knows of the loss, so the consumer is heard, which is told.
pub(super) async fn after_failure(attached: &mut Attached) -> Ending {
    let told = async {
        while let Some(received) = attached.consumer.next().await {
            // What comes is lost with the channel.
            if let Err(error) = received {
                return Some(error);
            }
        }
        None
    };
    match tokio::time::timeout(TELLING, told).await {
        Ok(error) => ending(attached, error.as_ref()),
        Err(_) => Ending::ChannelDied("an acknowledgement failed".into()),
    }
}

/// Why a subscription could not be begun again.
pub(super) enum Refused {
    /// Asking again never helps.
    ForGood(String),
    /// Asking again does not help on this connection.
    WhileConnected(String, Arc<Live>),
    /// The broker would not; an operator may change that.
    ForNow(String),
    /// The connection broke under it.
    Lost(String),
    /// There will be no connection any more.
    ConnectionEnded,
}

impl Refused {
    pub(super) fn of(why: String, lasts: Lasting, live: Arc<Live>) -> Self {
        match lasts {
            Lasting::ForNow => Refused::ForNow(why),
            Lasting::WhileConnected => Refused::WhileConnected(why, live),
            Lasting::ForEver => Refused::ForGood(why),
        }
    }
}
