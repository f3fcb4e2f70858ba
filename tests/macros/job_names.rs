//! One job name, one type: what else is refused when a worker is built, and what is legal.

use std::sync::{Arc, Mutex, PoisonError};

use queuey::{Error, prelude::*};
use queuey_tests::Running;

use crate::log::Log;

async fn refusal<Q: QueueSet>(builder: WorkerBuilder<Q, MemoryBackend>) -> Vec<String> {
    match builder.build().await.expect_err("it was built") {
        Error::Build(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
        other => panic!("{other}"),
    }
}

fn builder<Q: QueueSet>() -> WorkerBuilder<Q, MemoryBackend> {
    Worker::<Q, _>::builder(Arc::new(MemoryBackend::new()))
}

macro_rules! set_with_two_types_of_a_name {
    ($module:ident: $first:ident, $second:ident) => {
        mod $module {
            use super::*;

            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
            pub(super) enum Set {
                Mails,
                #[queue(name = "other")]
                Images,
            }

            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = Set::$first, name = "same.name")]
            pub(super) struct First(pub(super) u8);

            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = Set::$second, name = "same.name")]
            struct Second(u16);

            pub(super) fn jobs() -> impl Sized {
                (Second(1), Set::Mails, Set::Images)
            }
        }
    };
}

set_with_two_types_of_a_name!(on_one_queue: Mails, Mails);
set_with_two_types_of_a_name!(on_two_queues: Mails, Images);

#[tokio::test]
async fn two_types_of_one_name_are_an_error_on_one_queue_and_on_two() {
    // P11
    let _ = (on_one_queue::jobs(), on_two_queues::jobs());
    let on_one = FnHandler::<on_one_queue::First, _>::new(async |_, _| Ok(()));
    let on_two = FnHandler::<on_two_queues::First, _>::new(async |_, _| Ok(()));
    for refused in [
        refusal(builder().handler(on_one)).await,
        refusal(builder().handler(on_two).queues(&[on_two_queues::Set::Mails])).await,
    ] {
        assert_eq!(refused.len(), 1, "{refused:?}");
        for part in [
            "`same.name` stands for two types",
            "::First` (tests/macros/",
            "::Second` (tests/macros/",
            "`name`",
        ] {
            assert!(refused[0].contains(part), "{part}: {refused:?}");
        }
    }
}

/// A job by hand, which nothing registers, under a name that a derived one has.
#[derive(Serialize, Deserialize)]
struct ByHand(String);

impl Job for ByHand {
    type Queue = on_one_queue::Set;
    const NAME: &'static str = "same.name";
    const QUEUE: on_one_queue::Set = on_one_queue::Set::Mails;
}

#[tokio::test]
async fn a_handler_is_not_given_payloads_of_another_type_under_its_name() {
    // P11
    let first = FnHandler::<on_one_queue::First, _>::new(async |_, _| Ok(()));
    let by_hand = FnHandler::<ByHand, _>::new(async |_, _| Ok(()));
    let refused = refusal(builder().handler(first).handler(by_hand)).await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused.iter().any(|why| why.contains("has two handlers")), "{refused:?}");

    let by_hand = FnHandler::<ByHand, _>::new(async |_, _| Ok(()));
    let refused = refusal(builder().handler(by_hand)).await;
    assert!(refused.iter().any(|why| why.contains("stands for two types")), "{refused:?}");
    let _ = ByHand(String::new());
}

macro_rules! set_of_a_service {
    ($module:ident, $queue:literal, $payload:ty) => {
        mod $module {
            use super::*;

            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
            #[queues(prefix = "shared")]
            pub(super) enum Set {
                #[queue(name = $queue)]
                Work,
            }

            #[derive(Serialize, Deserialize, Job)]
            #[job(queue = Set::Work, name = "work")]
            pub(super) struct Work(pub(super) $payload);

            #[handler]
            async fn work(Work(payload): Work, State(seen): State<Arc<Mutex<Vec<$payload>>>>) {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(payload);
            }
        }
    };
}

set_of_a_service!(mails, "mails", String);
set_of_a_service!(images, "images", u8);
set_of_a_service!(more_images, "images", u16);

#[tokio::test(start_paused = true)]
async fn one_name_in_two_sets_of_a_prefix_is_legal_and_each_worker_reads_its_own() {
    // P11
    let backend = MemoryBackend::new();
    let shared: Arc<dyn Backend> = Arc::new(backend);
    Producer::<mails::Set>::new(shared.clone())
        .await
        .unwrap()
        .enqueue(&mails::Work("x".into()))
        .await
        .unwrap();
    Producer::<images::Set>::new(shared.clone()).await.unwrap().enqueue(&images::Work(7)).await.unwrap();
    let (texts, numbers) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
    let of_mails = Worker::<mails::Set>::builder(shared.clone()).discover_handlers().state(texts.clone());
    let of_images = Worker::<images::Set>::builder(shared).discover_handlers().state(numbers.clone());
    let workers = [Running::start(of_mails).await, Running::start(of_images).await];
    for worker in workers {
        worker.until_ended(1).await;
        assert_eq!(worker.stats().succeeded, 1);
        worker.stop().await;
    }
    assert_eq!(*texts.lock().unwrap_or_else(PoisonError::into_inner), ["x"]);
    assert_eq!(*numbers.lock().unwrap_or_else(PoisonError::into_inner), [7]);
}

#[tokio::test]
async fn one_name_on_a_queue_that_two_sets_share_is_a_warning_with_both_types() {
    // P11
    let log = Log::listen();
    let worker = builder::<images::Set>().discover_handlers().state(Arc::<Mutex<Vec<u8>>>::default());
    drop(worker.build().await.unwrap());
    let text = log.text();
    for part in [
        "two queue sets share this queue",
        "more_images::Work`",
        "::images::Work`",
        "queue=\"shared.images\"",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("::mails::"), "{text}");
    let _ = more_images::Work(1);
}
