//! What only a real broker shows.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod access;
mod acks;
mod addresses;
mod arguments;
mod breaking;
mod deleted;
mod idle;
mod leases;
mod mixed;
mod permissions;
mod policies;
mod publishing;
mod recovery;
mod scene;
mod storm;
mod support;
mod tls;
mod unconfirmed;
mod unwell;
mod waits;
