//! What only a real broker shows.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod leases;
mod mixed;
mod recovery;
mod support;
