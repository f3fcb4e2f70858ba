//! What exists on the broker and why.
//!
//! Everything goes over the default exchange, and everything that matters is in the arguments of queues, so that an
//! operator sees it all in one list:
//!
//! - `q`, the work queue;
//! - `q.dead`, its dead letters;
//! - `q.deferred.{ms}`, a hold queue for every distinct delay: what is put there comes back to `q` after that time. It
//!   deletes itself when it was not used for twice as long.
//!
//! The functions here are for operators who look for those queues; the backend uses the same ones.

mod names;
mod arguments;
mod declare;

pub use crate::message::{
    HEADER_ATTEMPT, HEADER_ATTEMPTS, HEADER_AVAILABLE_AT_MS, HEADER_DEAD_AT, HEADER_DEATH_CAUSE,
    HEADER_DEATH_DETAIL, HEADER_DEATH_REASON, HEADER_DEFERRALS, HEADER_DELIVERY_COUNT, HEADER_ORIGINAL_QUEUE,
};
pub use arguments::{
    ARG_CONSUMER_TIMEOUT, ARG_DEAD_LETTER_EXCHANGE, ARG_DEAD_LETTER_ROUTING_KEY, ARG_DELIVERY_LIMIT,
    ARG_EXPIRES, ARG_MAX_PRIORITY, ARG_MESSAGE_TTL, ARG_QUEUE_TYPE,
};
pub use names::{MAX_DEFERRAL_MS, MAX_TTL_MS, dead_queue_name, deferred_queue_name, deferred_ttl_ms};

pub(crate) use arguments::{QueueShape, hold_shape, short};
pub(crate) use declare::{DeclareError, Forbidden, Topology, make};
