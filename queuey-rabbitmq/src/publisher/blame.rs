//! Which message a channel died of: the one that was alone on it.

use queuey_core::Error;

use super::{request::Request, window::Left};
use crate::error::{ACCESS_REFUSED, Failure, Refusal};

/// The reply code of a broker that ends connections for reasons of its own.
const CONNECTION_FORCED: u16 = 320;

/// How often a message may take its connection down before it is taken for the cause.
const MAX_BREAKS: u32 = 3;

/// Tells the message that a channel died of, where that is certain. Gives those to be written again, each alone where one of
/// several is the cause. What was `late` was not alone any more: others were written at the same time.
pub(super) fn blame(left: Left, late: bool) -> Vec<Request> {
    let Left { mut unknown, error, sole } = left;
    let Some(error) = error else { return unknown };
    let Some(refusal) = Refusal::of(&error).filter(|refusal| refusal.code != CONNECTION_FORCED) else {
        return unknown;
    };
    for request in &mut unknown {
        request.breaks += u32::from(sole && request.alone && !late);
        if sole && let Some(reason) = refused(request, &refusal, &error) {
            request.answer(Err(reason));
        }
        request.alone = true;
    }
    unknown.retain(|request| !request.is_given_up());
    unknown
}

/// What a message is told that was alone on its channel, where that is certain to be the cause.
fn refused(request: &Request, refusal: &Refusal, error: &lapin::Error) -> Option<Error> {
    let of_channel = error.is_amqp_soft_error();
    if let Some((size, limit)) = refusal.too_large() {
        return Some(Error::TooLarge { size, limit });
    }
    if of_channel && refusal.code == ACCESS_REFUSED {
        return Some(Error::AccessRefused { what: refusal.text.clone() });
    }
    if of_channel || request.breaks >= MAX_BREAKS {
        let what = format!("the broker would not have a message for queue `{}`", request.message.queue);
        return Some(Failure::caused(what, error.clone()));
    }
    None
}
