//! The documents as programs: `cargo test --doc` compiles and runs every block of Rust in them.

#[doc = include_str!("../../README.md")]
mod readme {}

#[doc = include_str!("../../docs/dead-letters.md")]
mod dead_letters {}

#[doc = include_str!("../../docs/delays-and-deferrals.md")]
mod delays_and_deferrals {}

#[doc = include_str!("../../docs/getting-started.md")]
mod getting_started {}

#[doc = include_str!("../../docs/guarantees.md")]
mod guarantees {}

#[doc = include_str!("../../docs/jobs-and-queues.md")]
mod jobs_and_queues {}

#[doc = include_str!("../../docs/macros.md")]
mod macros {}

#[doc = include_str!("../../docs/rabbitmq.md")]
mod rabbitmq {}

#[doc = include_str!("../../docs/retries.md")]
mod retries {}

#[doc = include_str!("../../docs/shutdown.md")]
mod shutdown {}

#[doc = include_str!("../../docs/testing.md")]
mod testing {}

#[doc = include_str!("../../docs/worker.md")]
mod worker {}
