//! The RabbitMQ backend of queuey: the only crate of the project that talks to a broker.
//!
//! The way of a job, and the files in its order: a message is published and confirmed (`publisher`), held where it has
//! to wait (`hold`), received (`consumer`) and settled, its successor first (`delivery`). What exists on the broker and
//! why is in [`topology`]; what lives on over lost connections in `connection`.

mod error;
mod reconnect;
mod address;
mod options;
pub mod topology;
mod message;
mod connection;
mod publisher;
mod hold;
mod acks;
mod delivery;
mod malformed;
mod consumer;
mod backend;

pub use backend::RabbitMqBackend;
pub use options::{ConnectionEvent, DeadLetters, RabbitMqOptions, TopologyMode};
pub use reconnect::{Attempt, BackoffPolicy, Rebuilding, ReconnectPolicy};
