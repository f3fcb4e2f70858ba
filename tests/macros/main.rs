//! The macros as a user's crate sees them: what they refuse and how, what they accept, and what comes of it at run time.

mod log;

mod acceptance;
mod crates;
mod discovery;
mod job_names;
mod refusals;
