//! A network that closes what is idle, and a broker that is away for more than one call.

use std::{
    collections::BTreeSet,
    mem::discriminant,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use queuey::{BackoffPolicy, Error, Result, prelude::*};
use queuey_tests::{Admin, Proxy, eventually, queue_set, shared_broker, until};
use uuid::Uuid;

use crate::scene::{SECOND, SLACK, clear, connect, is_long};

/// How long a connection may be idle.
fn idle_limit() -> Duration {
    if is_long() { 10 * SECOND } else { SECOND }
}

/// Resets all connections whenever nothing was passed on for the limit; counts it.
async fn cut_when_idle(proxy: &Proxy, cuts: &AtomicUsize) {
    let (mut passed, mut since) = (0, Instant::now());
    loop {
        tokio::time::sleep(SECOND / 50).await;
        let now = proxy.frames().len();
        if now != passed {
            (passed, since) = (now, Instant::now());
        } else if proxy.open() > 0 && since.elapsed() >= idle_limit() {
            proxy.cut();
            cuts.fetch_add(1, Ordering::SeqCst);
            since = Instant::now();
        }
    }
}

fn ids(messages: &[queuey_tests::Message]) -> BTreeSet<String> {
    messages
        .iter()
        .filter_map(|message| message.properties.message_id().as_ref())
        .map(ToString::to_string)
        .collect()
}

mod reset {
    use super::*;

    queue_set!(Set { Work });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task;

    /// C11.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_enqueue_over_a_connection_that_was_closed_for_being_idle_succeeds() {
        let Some(url) = shared_broker() else { return };
        let (admin, proxy) = (Admin::new(&url), Proxy::start(&url).await);
        // The heartbeat is too long to keep a connection busy.
        let options = RabbitMqOptions::default().heartbeat(600 * SECOND);
        let (backend, events) = connect(proxy.url(), options).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let cuts = AtomicUsize::new(0);
        let enqueue = async {
            let mut jobs = BTreeSet::new();
            // After nothing, after one cut, after two more, and at once after that.
            for more in [0, 1, 2, 0] {
                let wanted = cuts.load(Ordering::SeqCst) + more;
                until("it is idle", || cuts.load(Ordering::SeqCst) >= wanted).await;
                jobs.insert(producer.enqueue(&Task).await.unwrap().to_string());
            }
            jobs
        };
        let jobs = tokio::select! {
            jobs = enqueue => jobs,
            () = cut_when_idle(&proxy, &cuts) => unreachable!("it goes on for ever"),
        };
        assert_eq!(jobs.len(), 4);
        assert_eq!(ids(&admin.take_all(Set::Work.name()).await), jobs);
        eventually("the cuts were told", || async { events.lost() >= 2 }).await;
        clear(&backend, &admin, &[Set::Work.name()], &[]).await;
    }
}

mod away {
    use super::*;

    queue_set!(Set { Work });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task;

    const LIMIT: Duration = Duration::from_secs(5);

    async fn timed(producer: &Producer<Set, RabbitMqBackend>) -> (Result<Uuid>, Duration) {
        let start = Instant::now();
        let enqueued = tokio::time::timeout(LIMIT + SLACK, producer.enqueue(&Task)).await;
        (enqueued.expect("it is bounded"), start.elapsed())
    }

    /// C11. The second call is no worse off than the first, and the producer is good for a third when the broker is back.
    #[tokio::test(flavor = "multi_thread")]
    async fn enqueues_while_the_broker_is_away_end_alike_and_the_next_succeeds() {
        let Some(url) = shared_broker() else { return };
        let (admin, proxy) = (Admin::new(&url), Proxy::start(&url).await);
        let options = RabbitMqOptions::default()
            .publish_timeout(LIMIT)
            .reconnect(BackoffPolicy::new(Backoff::Fixed(SECOND)));
        let (backend, events) = connect(proxy.url(), options).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        proxy.refuse_new().await;
        proxy.cut();
        until("the loss is noticed", || events.lost() > 0).await;
        let second = async {
            tokio::time::sleep(SECOND).await;
            timed(&producer).await
        };
        let ((first, took_first), (second, took_second)) = tokio::join!(timed(&producer), second);
        let (first, second) = (first.expect_err("enqueued"), second.expect_err("enqueued"));
        assert!(matches!(first, Error::NotConnected), "{first}");
        assert_eq!(discriminant(&first), discriminant(&second), "{first}, but then {second}");
        println!("{took_first:?}, then {took_second:?}");
        proxy.accept_new().await;
        // A busy machine may take more than the limit for that.
        eventually("it is back", || async { backend.health().await.connected }).await;
        let third = producer.enqueue(&Task).await;
        let found = ids(&admin.take_all(Set::Work.name()).await);
        assert_eq!(found, BTreeSet::from([third.unwrap().to_string()]));
        clear(&backend, &admin, &[Set::Work.name()], &[]).await;
    }
}
