//! What the log says, and what it never says.

use std::{io, time::Duration};

use queuey_tests::{Running, queue_set};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// All that was logged on this thread.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
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

/// Captures the log of this thread at INFO and above until the guard is dropped.
pub(crate) fn captured() -> (Captured, DefaultGuard) {
    let log = Captured::default();
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).without_time().finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[tokio::test(start_paused = true)]
async fn every_job_can_be_followed_by_its_id_and_no_payload_is_shown() {
    // O12: job ids appear in start, end and failure lines; payloads never do.
    queue_set!(Set { Work: |queue| queue.retry(RetryPolicy::fixed(2, Duration::from_secs(1))) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task {
        how: String,
        secret: String,
    }
    let (log, _guard) = captured();
    let handler = FnHandler::<Task, _>::new(async |job, ctx: JobContext| match job.how.as_str() {
        "fails" => Err(JobError::retryable_msg("fell over")),
        "defers" if ctx.deferrals < 100 => Err(JobError::deferred_msg(Duration::from_secs(1), "not yet")),
        "discards" => Err(JobError::discard_msg("nobody asks")),
        _ => Ok(()),
    });
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    let mut ids = Vec::new();
    for how in ["succeeds", "fails", "defers", "discards"] {
        let job = Task { how: how.into(), secret: "hunter2".into() };
        ids.push(producer.enqueue(&job).await.unwrap().to_string());
    }
    backend.publish_bytes(Set::Work.name(), "hunter2 is no job").unwrap();
    let worker = Running::start(Worker::<Set>::builder(backend).handler(handler)).await;
    worker.until_ended(4).await;
    worker.stop().await;
    let log = log.text();
    let said = |id: &str, level: &str, what: &str| {
        log.lines().any(|line| line.contains(id) && line.contains(level) && line.contains(what))
    };
    for id in &ids {
        assert!(said(id, "INFO", "job started"), "{id}: {log}");
    }
    assert!(said(&ids[0], "INFO", "job succeeded"));
    assert!(said(&ids[1], "WARN", "will be retried") && said(&ids[1], "WARN", "fell over"));
    assert!(said(&ids[1], "ERROR", "max attempts (2) exhausted after attempt 2: fell over"));
    assert!(said(&ids[2], "INFO", "job deferred") && said(&ids[2], "WARN", "deferred many times"));
    assert!(said(&ids[3], "INFO", "nobody asks"));
    assert!(log.lines().any(|line| line.contains("ERROR") && line.contains("message is no job")));
    assert!(!log.contains("hunter2"), "{log}");
}
