//! What the log says, and what it never says.

use std::time::Duration;

use queuey_tests::{Running, captured, queue_set};

use super::*;

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
