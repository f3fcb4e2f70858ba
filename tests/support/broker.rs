//! The broker that tests share, and what becomes of a test that finds none.

use std::{env, io::Write};

/// The URL of the broker that this run shares, from `AMQP_URL`. Without one the test is skipped, which is printed, unless a
/// broker is required: `let Some(url) = shared_broker() else { return };`.
///
/// # Panics
///
/// When there is none, and `QUEUEY_BROKER_REQUIRED` is set.
pub fn shared_broker() -> Option<String> {
    let url = env::var("AMQP_URL").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        skip("QUEUEY_BROKER_REQUIRED", "AMQP_URL is not set");
    }
    url
}

/// Says that this test is skipped.
///
/// # Panics
///
/// Instead, when the environment has what is `required`.
pub(crate) fn skip(required: &str, why: &str) {
    assert!(env::var_os(required).is_none(), "{why}, and {required} is set");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // The macros of the standard library write to what the harness captures, and shows only of tests that fail.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why} (scripts/test sets up a broker)");
}
