//! Everything that is wrong with a worker is said when it is built, at once.

use std::time::Duration;

use queuey::{BuildError, Error};
use queuey_tests::{captured, queue_set};

use super::*;

queue_set!(Set {
    Work,
    Other,
    Slow: |queue| queue.retry(RetryPolicy::fixed(2, Duration::from_secs(40 * 86_400))),
    Expiring: |queue| queue.message_ttl(Duration::from_secs(90)),
});

macro_rules! jobs {
    ($($job:ident on $queue:ident),+ $(,)?) => { $(
        #[derive(Serialize, Deserialize, Job)]
        #[job(queue = Set::$queue)]
        struct $job;
    )+ };
}
jobs!(Handled on Work, Forgotten on Work, Elsewhere on Other, Patient on Slow, Brief on Expiring);

fn builder() -> WorkerBuilder<Set> {
    Worker::<Set>::builder(Arc::new(MemoryBackend::new()))
}

fn ok<J: Job>() -> impl JobHandler<Job = J> {
    FnHandler::<J, _>::new(async |_job: J, _ctx: JobContext| Ok(()))
}

async fn mistakes(builder: WorkerBuilder<Set>) -> Vec<BuildError> {
    match builder.build().await {
        Err(Error::Build(mistakes)) => mistakes,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_worker_without_handlers_is_refused() {
    assert!(matches!(builder().build().await, Err(Error::NoHandler)));
}

#[tokio::test]
async fn p11_two_handlers_for_one_job_are_refused_with_both_places() {
    // P11: two handlers for one job.
    let mistakes =
        mistakes(builder().queues(&[Set::Work]).handler(ok::<Handled>()).handler(ok::<Handled>())).await;
    assert_eq!(mistakes.len(), 1);
    let text = mistakes[0].to_string();
    assert!(text.contains("Handled") && text.matches("worker/build.rs:").count() == 2, "{text}");
}

#[tokio::test]
async fn p11_two_job_types_with_one_name_are_refused() {
    // P11: one explicit name on two queues.
    queue_set!(Own { Work, Other });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Own::Work, name = "same")]
    struct One;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Own::Other, name = "same")]
    struct Two;
    let builder = Worker::<Own>::builder(Arc::new(MemoryBackend::new()));
    let error = builder.handler(ok::<One>()).handler(ok::<Two>()).build().await.unwrap_err().to_string();
    assert!(error.contains("`same` has two handlers"), "{error}");
}

#[tokio::test]
async fn every_mistake_is_said_at_once() {
    let builder = builder()
        .handler(ok::<Handled>())
        .handler(ok::<Handled>())
        .handler(ok::<Elsewhere>())
        .handler(ok::<Brief>())
        .job_retry_override::<Elsewhere>(RetryPolicy::fixed(2, Duration::from_secs(50 * 86_400)))
        .job_retry_override::<Patient>(RetryPolicy::none())
        .concurrency(0)
        .require_all_handlers();
    let error = builder.build().await.unwrap_err();
    let Error::Build(mistakes) = &error else { panic!("{error}") };
    let has = |wanted: fn(&BuildError) -> bool| mistakes.iter().filter(|mistake| wanted(mistake)).count();
    assert_eq!(has(|m| matches!(m, BuildError::DuplicateHandler { .. })), 1, "{error}");
    assert_eq!(has(|m| matches!(m, BuildError::MissingHandler { .. })), 2, "Forgotten and Patient: {error}");
    assert_eq!(has(|m| matches!(m, BuildError::RetryTooLong { .. })), 2, "Slow and Elsewhere: {error}");
    assert_eq!(has(|m| matches!(m, BuildError::UnusedOverride { .. })), 1, "{error}");
    assert_eq!(has(|m| matches!(m, BuildError::NoRoom { .. })), 1, "{error}");
    assert_eq!(mistakes.len(), 7, "{error}");
    assert_eq!(error.to_string().lines().count(), 8, "{error}");
    assert!(error.to_string().contains("delay of 50d is longer than a hold queue can wait"), "{error}");
}

#[tokio::test]
async fn a_worker_that_consumes_nothing_is_refused() {
    let mistakes = mistakes(builder().queues(&[]).handler(ok::<Handled>())).await;
    assert!(matches!(mistakes[..], [BuildError::NoQueues]));
}

#[tokio::test]
async fn only_the_consumed_queues_are_declared_and_asked_for_handlers() {
    let backend = Arc::new(MemoryBackend::new());
    let worker = Worker::<Set>::builder(backend.clone())
        .queues(&[Set::Other, Set::Other])
        .handler(ok::<Elsewhere>())
        .require_all_handlers()
        .build()
        .await;
    assert!(worker.is_ok(), "{worker:?}");
    assert_eq!(backend.queue_names(), [Set::Other.name()]);
}

#[tokio::test]
async fn a_refused_declare_is_the_error_of_the_build() {
    let backend = Arc::new(MemoryBackend::new());
    backend.declare(&[Set::Work.config().max_priority(3)]).await.unwrap();
    let built = Worker::<Set>::builder(backend).queues(&[Set::Work]).handler(ok::<Handled>()).build().await;
    assert!(matches!(built, Err(Error::QueueMismatch { .. })), "{built:?}");
}

#[tokio::test]
async fn what_will_hurt_is_warned_of() {
    let (log, _guard) = captured();
    let worker = builder()
        .queues(&[Set::Work, Set::Expiring])
        .handler(ok::<Handled>())
        .handler(ok::<Brief>())
        .concurrency(2)
        .job_timeout(Duration::from_secs(10 * 60))
        .build()
        .await;
    drop(worker.unwrap());
    let log = log.text();
    assert!(log.contains("WARN") && log.contains("Forgotten"), "{log}");
    assert!(log.contains("jobs that wait longer than 1m 30s are destroyed by the broker"), "{log}");
    assert!(log.contains("a delivery may wait for 8 runs of up to 10m, longer than"), "{log}");
}
