//! Functions with `#[handler]` at run time: found, given what they take, replaced, and refused.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use queuey::{BuildError, Error, prelude::*};
use queuey_tests::Running;

/// Why a worker could not be built.
async fn mistakes<Q: QueueSet>(builder: WorkerBuilder<Q, MemoryBackend>) -> Vec<BuildError> {
    match builder.build().await.expect_err("it was built") {
        Error::Build(mistakes) => mistakes,
        other => panic!("{other}"),
    }
}

fn builder<Q: QueueSet>(backend: &MemoryBackend) -> WorkerBuilder<Q, MemoryBackend> {
    Worker::<Q, _>::builder(Arc::new(backend.clone()))
}

/// Asserts that a text has all of these in it.
fn assert_says(text: &str, parts: &[&str]) {
    let missing: Vec<_> = parts.iter().filter(|part| !text.contains(**part)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in: {text}");
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn push(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

mod given {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub(super) enum Set {
        Mails,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Mails, name = "given.send", retry(max_attempts = 4))]
    pub(super) struct Send {
        pub(super) to: String,
    }

    #[handler]
    async fn send(job: Send, State(seen): State<Seen>, ctx: JobContext, State(from): State<&'static str>) {
        seen.push(format!("{from} to {}, {} of {}", job.to, ctx.attempt, ctx.max_attempts));
    }
}

#[tokio::test(start_paused = true)]
async fn a_discovered_handler_gets_its_job_its_context_and_its_states() {
    let (backend, seen) = (MemoryBackend::new(), Seen::default());
    let producer = Producer::<given::Set, _>::new(Arc::new(backend.clone())).await.unwrap();
    producer.enqueue(&given::Send { to: "ada".into() }).await.unwrap();
    let builder = builder::<given::Set>(&backend).state("bob").discover_handlers().state(seen.clone());
    let running = Running::start(builder.require_all_handlers()).await;
    running.until_ended(1).await;
    running.stop().await;
    assert_eq!(seen.all(), ["bob to ada, 1 of 4"]);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_handler_takes_the_place_of_a_discovered_one_whose_states_nobody_gave() {
    let (backend, seen) = (MemoryBackend::new(), Seen::default());
    let producer = Producer::<given::Set, _>::new(Arc::new(backend.clone())).await.unwrap();
    producer.enqueue(&given::Send { to: "ada".into() }).await.unwrap();
    let fake = FnHandler::<given::Send, _>::with(seen.clone(), async |seen: Seen, job: given::Send, _| {
        seen.push(format!("fake to {}", job.to));
        Ok(())
    });
    let running = Running::start(builder::<given::Set>(&backend).discover_handlers().handler(fake)).await;
    running.until_ended(1).await;
    running.stop().await;
    assert_eq!(seen.all(), ["fake to ada"]);
}

mod lacking {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub(super) enum Set {
        Mails,
        Images,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Mails)]
    struct Send;

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Images)]
    struct Resize;

    #[derive(Clone)]
    pub(super) struct Mailer;

    #[handler]
    async fn send(_: Send, _: State<Mailer>, _: State<Vec<u8>>, _: State<u64>) {}

    #[handler]
    async fn resize(_: Resize, _: State<f32>) {}

    pub(super) fn jobs() -> impl Sized {
        (Send, Resize)
    }
}

#[tokio::test]
async fn every_missing_state_is_named_with_function_place_and_type() {
    let _ = lacking::jobs();
    let backend = MemoryBackend::new();
    let mistakes =
        mistakes(builder::<lacking::Set>(&backend).discover_handlers().state(7_u64).concurrency(0)).await;
    let text = Error::Build(mistakes).to_string();
    assert_eq!(text.lines().count(), 5, "{text}");
    let send = "`macros::discovery::lacking::send` (tests/macros/discovery.rs:";
    let resize = "`macros::discovery::lacking::resize` (tests/macros/discovery.rs:";
    assert_says(&text, &[send, resize, "State<macros::discovery::lacking::Mailer>", "Vec<u8>", "State<f32>"]);
    assert_says(&text, &["the worker's concurrency", "`.state(...)`"]);
}

#[tokio::test]
async fn a_worker_of_other_queues_does_without_the_states_of_a_handler() {
    let backend = MemoryBackend::new();
    let of_images = || builder::<lacking::Set>(&backend).discover_handlers().queues(&[lacking::Set::Images]);
    assert_eq!(mistakes(of_images()).await.len(), 1);
    drop(of_images().state(1.0_f32).build().await.unwrap());
    drop(
        of_images()
            .state(1.0_f32)
            .state(lacking::Mailer)
            .state(vec![1_u8])
            .state(1_u64)
            .build()
            .await
            .unwrap(),
    );
}

#[tokio::test]
async fn two_states_of_a_type_are_an_error_with_both_places() {
    let backend = MemoryBackend::new();
    let twice =
        builder::<given::Set>(&backend).discover_handlers().state(Seen::default()).state("a").state("b");
    let text = mistakes(twice).await[0].to_string();
    assert_says(&text, &["two states of type `&str`", "at tests/macros/discovery.rs:"]);
    assert_eq!(text.matches("discovery.rs:").count(), 2);
}

mod doubled {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub(super) enum Set {
        Mails,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Mails, name = "doubled.send")]
    pub(super) struct Send;

    #[handler]
    async fn send(_: Send) {}

    #[handler]
    async fn send_again(_: Send, _: State<u8>) {}
}

#[tokio::test]
async fn two_discovered_handlers_for_a_job_are_an_error_that_names_both() {
    // P11
    let backend = MemoryBackend::new();
    let mistakes = mistakes(builder::<doubled::Set>(&backend).discover_handlers()).await;
    let texts: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_says(&texts[0], &["`macros::discovery::doubled::send_again`", "State<u8>"]);
    let both = ["`doubled.send` has two handlers", "doubled::send` (tests/", "doubled::send_again` (tests/"];
    assert_says(&texts[1], &both);
    let send = FnHandler::<doubled::Send, _>::new(async |_, _| Ok(()));
    drop(builder::<doubled::Set>(&backend).discover_handlers().handler(send).build().await.unwrap());
}

#[tokio::test]
async fn two_explicit_handlers_for_a_job_are_an_error_with_both_places() {
    // P11
    let backend = MemoryBackend::new();
    let send = || FnHandler::<doubled::Send, _>::new(async |_, _| Ok(()));
    let mistakes =
        mistakes(builder::<doubled::Set>(&backend).handler(send()).discover_handlers().handler(send())).await;
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    let text = mistakes[0].to_string();
    assert_says(&text, &["`doubled.send` has two handlers", "the one added at tests/macros/discovery.rs:"]);
    assert_eq!(text.matches("the one added at").count(), 2, "{text}");
}

mod answers {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub(super) enum Set {
        #[queue(retry(max_attempts = 3, backoff = "fixed", delay = "1s"))]
        Work,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    pub(super) struct OfAnyhow {
        pub(super) is_fatal: bool,
    }

    #[handler]
    async fn of_anyhow(job: OfAnyhow) -> anyhow::Result<()> {
        let number: Result<u8, _> = "x".parse();
        if job.is_fatal {
            number.map_err(Fatal::new)?;
        }
        Err(anyhow::anyhow!("disk").context("storing"))
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    pub(super) struct Deferred;

    #[handler]
    async fn deferred(_: Deferred, ctx: JobContext) -> Result<(), JobError> {
        if ctx.deferrals == 0 { Err(JobError::deferred(Duration::from_secs(5))) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn an_anyhow_error_is_retried_and_a_fatal_one_in_it_is_not() {
    let backend = MemoryBackend::new();
    let producer = Producer::<answers::Set, _>::new(Arc::new(backend.clone())).await.unwrap();
    producer.enqueue(&answers::OfAnyhow { is_fatal: false }).await.unwrap();
    producer.enqueue(&answers::OfAnyhow { is_fatal: true }).await.unwrap();
    producer.enqueue(&answers::Deferred).await.unwrap();
    let running = Running::start(builder::<answers::Set>(&backend).discover_handlers()).await;
    running.until_ended(3).await;
    let stats = running.stats();
    assert_eq!((stats.started, stats.retried, stats.deferred, stats.succeeded), (3 + 1 + 2, 2, 1, 1));
    running.stop().await;
    let mut dead: Vec<_> = backend.dead_letters("work").into_iter().map(|(_, reason)| reason).collect();
    dead.sort();
    assert_says(&dead[0], &["invalid digit"]);
    assert_says(&dead[1], &["max attempts (3) exhausted after attempt 3: storing: disk"]);
}

mod limited {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub(super) enum Set {
        Work,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, timeout = "1h")]
    pub(super) struct Slow;

    #[handler(timeout = "2s")]
    async fn slow(_: Slow) {
        std::future::pending::<()>().await;
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    pub(super) struct Counted;

    #[handler(concurrency = 2)]
    async fn counted(_: Counted, State(running): State<Arc<Mutex<(u8, u8)>>>) {
        let count =
            |change: fn(&mut (u8, u8))| change(&mut running.lock().unwrap_or_else(PoisonError::into_inner));
        count(|(now, most)| (*now, *most) = (*now + 1, (*now + 1).max(*most)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        count(|(now, _)| *now -= 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_the_attribute_bound_the_runs() {
    let (backend, most) = (MemoryBackend::new(), Arc::new(Mutex::new((0_u8, 0_u8))));
    let producer = Producer::<limited::Set, _>::new(Arc::new(backend.clone())).await.unwrap();
    producer.enqueue(&limited::Slow).await.unwrap();
    for result in producer.enqueue_many(&[const { limited::Counted }; 6]).await {
        result.unwrap();
    }
    let start = tokio::time::Instant::now();
    let running =
        Running::start(builder::<limited::Set>(&backend).discover_handlers().state(most.clone())).await;
    running.until_ended(7).await;
    running.stop().await;
    assert!((3..5).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(*most.lock().unwrap_or_else(PoisonError::into_inner), (0, 2));
    assert_says(&backend.dead_letters("work")[0].1, &["timed out after 2s"]);
}

mod empty {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub(super) enum Set {
        Work,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "empty.work")]
    pub(super) struct Work;
}

#[tokio::test]
async fn to_find_no_handler_at_all_is_a_warning_that_says_what_to_write() {
    let backend = MemoryBackend::new();
    let log = crate::log::Log::listen();
    drop(builder::<empty::Set>(&backend).discover_handlers().build().await.unwrap());
    assert_says(
        &log.text(),
        &["WARN", "no function with `#[handler]`", "`use my_jobs as _;`", "`empty.work`"],
    );

    let strict = builder::<empty::Set>(&backend).discover_handlers().require_all_handlers();
    assert_says(&mistakes(strict).await[0].to_string(), &["`empty.work`", "has no handler"]);
    let neither = builder::<empty::Set>(&backend).build().await.expect_err("it was built");
    assert!(matches!(neither, Error::NoHandler), "{neither}");
    let _ = empty::Work;
}
