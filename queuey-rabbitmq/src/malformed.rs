//! Messages that are no job: put aside byte for byte, with the reason, so that none of them stalls a consumer.

use std::time::Duration;

use lapin::message::Delivery as Received;
use queuey_core::{Body, EnvelopeError, Error};

use crate::{
    acks::End,
    delivery::{Custody, Failed, Successor},
    error::with_sources,
    message::{Death, Foreign, Message},
    options::DeadLetters,
};

/// What a dead letter gives as the reason.
const REASON: &str = "malformed envelope";

/// The most bytes of the message that its report carries.
const MAX_REPORTED: usize = 64 * 1024;

/// How long a message is kept that can't be put aside, so that it does not go round without a pause.
const HAND_BACK_PAUSE: Duration = Duration::from_secs(5);

/// Puts a message aside. Gives what is to be reported, or nothing where the broker hands the message out again.
pub(crate) async fn put_aside(custody: Custody, received: Received, why: EnvelopeError) -> Option<Error> {
    let desk = custody.source().desk.clone();
    let queue = custody.source().config.name.clone();
    let detail = with_sources(&why);
    let reported = received.data.get(..MAX_REPORTED).unwrap_or(&received.data).to_vec();
    let ended = if desk.context.options.dead_letters == DeadLetters::Reject {
        custody.end(End::Reject).await
    } else {
        let dead_queue = &desk.dead_queue(&queue);
        let death =
            Death { queue: &queue, dead_queue, cause: "malformed", reason: REASON, detail: Some(&detail) };
        let foreign = Foreign { properties: received.properties, body: received.data };
        match Message::malformed(foreign, &death) {
            Ok(message) => custody.succeed(Successor::Dead(message)).await,
            Err(error) => Err(Failed::Never(error)),
        }
    };
    match ended {
        Ok(()) => Some(Error::Malformed { queue, reason: detail, body: Body(reported) }),
        Err(Failed::Lost(_)) => None,
        Err(Failed::Never(error)) => {
            let error = with_sources(&error);
            tracing::error!(
                queue,
                error,
                "a message that is no job can't be put aside: handed back in a while"
            );
            tokio::time::sleep(HAND_BACK_PAUSE).await;
            // Where even that fails, the broker has it already.
            let _ = custody.end(End::HandBack).await;
            None
        }
    }
}
