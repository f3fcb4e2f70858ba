//! The helpers for users' tests, used as a user would.

use std::{panic::AssertUnwindSafe, time::Duration};

use queuey::{
    prelude::*,
    testing::{assert_enqueued, assert_settled, drain, run_one, run_one_with},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[queue(retry(max_attempts = 3, backoff = "fixed", delay = "1h"))]
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails, name = "emails.send")]
struct SendEmail {
    to: String,
}

fn mail(to: &str) -> SendEmail {
    SendEmail { to: to.to_owned() }
}

async fn send(job: SendEmail, ctx: JobContext) -> JobResult {
    match job.to.as_str() {
        "late" if ctx.deferrals == 0 => Err(JobError::deferred(Duration::from_secs(60))),
        "flaky" if !ctx.is_last_attempt() => Err(JobError::retryable_msg("busy")),
        "nobody" => Err(JobError::fatal_msg("no such address")),
        "spam" => Err(JobError::discard_msg("spam")),
        _ => Ok(()),
    }
}

/// The message that an assertion fails with.
fn failure(assertion: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(AssertUnwindSafe(assertion)).expect_err("it held");
    *panic.downcast::<String>().expect("a message")
}

#[tokio::test]
async fn one_job_runs_against_its_handler() {
    let handler = FnHandler::<SendEmail, _>::new(send);
    assert!(run_one(&handler, &mail("ada")).await.is_ok());
    assert!(run_one(&handler, &mail("flaky")).await.is_err());
    let last = JobContext::new::<SendEmail>(3, 3);
    assert!(run_one_with(&handler, &mail("flaky"), last).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_driven_until_nothing_is_left() -> queuey::Result<()> {
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<AppQueues>::new(backend.clone()).await?;
    for to in ["ada", "late", "flaky", "nobody", "spam"] {
        producer.enqueue(&mail(to)).await?;
    }
    producer.enqueue_after(&mail("tomorrow"), Duration::from_secs(3600)).await?;
    assert_enqueued!(backend, SendEmail);
    assert_enqueued!(backend, SendEmail, 6);
    assert_enqueued!(backend, SendEmail, |job| job.to == "tomorrow");

    let worker = Worker::<AppQueues>::builder(backend.clone())
        .handler(FnHandler::<SendEmail, _>::new(send))
        .build()
        .await?;
    let stats = drain(&backend, worker).await?;
    assert_eq!((stats.succeeded, stats.retried, stats.deferred), (4, 2, 1));
    assert_enqueued!(backend, SendEmail, 0);
    assert_settled!(backend, SendEmail, Succeeded, 4);
    assert_settled!(backend, SendEmail, Retried, |job| job.to == "flaky");
    assert_settled!(backend, SendEmail, Deferred, 1);
    assert_settled!(backend, SendEmail, Discarded);
    assert_settled!(&*backend, SendEmail, Dead, |job| job.to == "nobody");
    Ok(())
}

#[tokio::test]
async fn a_failed_assertion_shows_what_is_there_instead() {
    let backend = Arc::new(MemoryBackend::new());
    let message = failure(|| assert_enqueued!(backend, SendEmail));
    assert_eq!(message, "expected a job `emails.send` enqueued, found 0; there is nothing at all");
    let producer = Producer::<AppQueues>::new(backend.clone()).await.unwrap();
    producer.enqueue(&mail("ada")).await.unwrap();
    let message = failure(|| assert_enqueued!(backend, SendEmail, |job| job.to == "bob"));
    assert!(message.starts_with("expected a matching job `emails.send` enqueued, found 0"), "{message}");
    assert!(message.contains(r#"ready: emails.send (attempt 1) {"to":"ada"}"#), "{message}");
    let message = failure(|| assert_settled!(backend, SendEmail, Succeeded, 2));
    assert!(message.starts_with("expected 2 of job `emails.send` Succeeded, found 0"), "{message}");
}
