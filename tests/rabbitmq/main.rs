//! What only a real broker shows.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod access;
mod arguments;
mod permissions;
mod policies;
mod scene;
mod support;
mod tls;
mod unwell;
mod waits;
