//! What is logged, for tests that read it.

use std::{
    io,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber},
};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

/// As long as there is one subscriber, `tracing` asks that of the thread which logs a line first whether anybody wants it, and
/// remembers the answer for all: what another test has logged would be lost here. So there is always one more.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// All that was logged on one thread.
#[derive(Debug, Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// What was logged so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// How many lines hold all of these words.
    pub fn lines_with(&self, words: &[&str]) -> usize {
        self.text().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Captured {
    type Writer = Captured;

    fn make_writer(&self) -> Captured {
        self.clone()
    }
}

/// Captures the log of this thread at INFO and above until the guard is dropped. A test has all of its tasks on its thread
/// only in a runtime of one.
pub fn captured() -> (Captured, DefaultGuard) {
    captured_at("info")
}

/// [`captured`], of these targets and levels: `trace,lapin=off`.
pub fn captured_at(filter: &str) -> (Captured, DefaultGuard) {
    LazyLock::force(&ANOTHER);
    let log = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(log.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}
