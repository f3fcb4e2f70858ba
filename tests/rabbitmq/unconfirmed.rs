//! Enqueues whose confirms don't come: the broker dies, is in alarm, or will not have one of them.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use queuey::{Backend, Delivery, Envelope, Error, QueueConfig, RabbitMqBackend, RabbitMqOptions, Settlement};
use queuey_tests::{Admin, Node, Proxy, unique, until};
use serde_json::value::to_raw_value;
use tokio::task::JoinSet;

use crate::scene::{SECOND, SLACK, clear, connect, dead, is_long, next};

const MIB: usize = 1024 * 1024;

fn job(queue: &str, payload: &str) -> Envelope {
    Envelope::raw("job", queue, to_raw_value(payload).unwrap())
}

/// A job whose message has exactly this size.
fn job_of(queue: &str, size: usize) -> Envelope {
    let bare = job(queue, "").to_bytes().len();
    let job = job(queue, &"x".repeat(size - bare));
    assert_eq!(job.to_bytes().len(), size);
    job
}

/// What became of enqueues, by job.
type Results = HashMap<uuid::Uuid, queuey::Result<()>>;

/// Enqueues from a task for each job, and gives what each was told and the time of the slowest.
async fn enqueue_all(backend: &Arc<RabbitMqBackend>, jobs: Vec<Envelope>) -> (Results, Duration) {
    let mut enqueueing = JoinSet::new();
    for job in jobs {
        let backend = backend.clone();
        enqueueing.spawn(async move {
            let start = Instant::now();
            (job.job_id, backend.publish(&job, None).await, start.elapsed())
        });
    }
    let all = enqueueing.join_all().await;
    let slowest = all.iter().map(|(_, _, time)| *time).max().unwrap_or_default();
    (all.into_iter().map(|(job, result, _)| (job, result)).collect(), slowest)
}

/// How often each job is in its queue, which is emptied.
async fn copies(admin: &Admin, queue: &str) -> HashMap<uuid::Uuid, usize> {
    let mut copies = HashMap::new();
    for message in admin.take_all(queue).await {
        *copies.entry(Envelope::from_bytes(&message.body).unwrap().job_id).or_default() += 1;
    }
    copies
}

/// C03. Whatever the channel dies of, every caller hears within its time, Ok means there, and the producer goes on.
#[tokio::test(flavor = "multi_thread")]
async fn c03_every_caller_hears_when_the_broker_dies_with_confirms_outstanding() {
    let Some(node) = Node::options().conf("max_message_size = 1048576").start().await else { return };
    let proxy = Proxy::start(node.url()).await;
    let limit = 15 * SECOND;
    let (backend, _) = connect(proxy.url(), RabbitMqOptions::default().publish_timeout(limit)).await;
    let (admin, queue) = (Admin::new(node.url()), unique("unconfirmed", "deaths"));
    backend.declare(&[QueueConfig::new(&queue)]).await.unwrap();
    for round in 0..if is_long() { 50 } else { 5 } {
        let jobs: Vec<_> = (0..50).map(|_| job_of(&queue, 100_000)).collect();
        let fault = async {
            match round % 5 {
                0 => {
                    node.kill9().await;
                    node.restart().await;
                }
                1 => {
                    node.stop().await;
                    node.restart().await;
                }
                2 => {
                    let close = "[rabbit_networking:close_connection(Pid, <<\"an operator\">>) || Pid <- rabbit_networking:connections()].";
                    drop(node.ctl(&["eval", close]).await);
                }
                3 => {
                    let result = backend.publish(&job_of(&queue, 2 * MIB), None).await;
                    assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
                }
                _ => proxy.cut(),
            }
        };
        let ((results, slowest), ()) = tokio::join!(enqueue_all(&backend, jobs), fault);
        assert!(slowest < limit + SLACK, "round {round}: {slowest:?}");
        until("it is connected again", || backend.health().now_or_never().unwrap().connected).await;
        let copies = copies(&admin, &queue).await;
        for (job, result) in &results {
            match result {
                Ok(()) => assert!(copies.contains_key(job), "round {round}: confirmed and not there"),
                Err(Error::Unconfirmed { .. }) => {}
                Err(Error::NotConnected) => assert!(!copies.contains_key(job), "round {round}: it is there"),
                Err(error) => panic!("round {round}: {error}"),
            }
        }
        backend.publish(&job(&queue, "next"), None).await.unwrap();
        assert_eq!(self::copies(&admin, &queue).await.len(), 1);
    }
    clear(&backend, &admin, &[&queue], &[]).await;
}

/// C04. In an alarm every call has its bound, says blocked, and does no damage.
#[tokio::test(flavor = "multi_thread")]
async fn c04_enqueues_in_an_alarm_are_bounded_and_say_so() {
    let Some(node) = Node::start().await else { return };
    let options = RabbitMqOptions::default().publish_timeout(4 * SECOND).blocked_timeout(Some(2 * SECOND));
    let (backend, events) = connect(node.url(), options).await;
    let (admin, queue) = (Admin::new(node.url()), unique("unconfirmed", "alarm"));
    backend.declare(&[QueueConfig::new(&queue)]).await.unwrap();
    node.memory_alarm(true).await;
    let jobs = |count| (0..count).map(|nr: u32| job(&queue, &nr.to_string())).collect::<Vec<_>>();
    let (mut results, slowest) = enqueue_all(&backend, jobs(20)).await;
    assert!(slowest < 6 * SECOND + SLACK, "{slowest:?}");
    let (later, slowest) = enqueue_all(&backend, jobs(20)).await;
    assert!(slowest < 2 * SECOND + SLACK, "{slowest:?}");
    assert!(later.values().all(|result| matches!(result, Err(Error::Blocked { .. }))), "{later:?}");
    assert!(backend.health().await.blocked.is_some());
    node.memory_alarm(false).await;
    until("it is not blocked any more", || backend.health().now_or_never().unwrap().blocked.is_none()).await;
    let (after, _) = enqueue_all(&backend, jobs(20)).await;
    assert!(after.values().all(Result::is_ok), "{after:?}");
    results.extend(later);
    results.extend(after);
    let copies = copies(&admin, &queue).await;
    for (job, result) in &results {
        let there = copies.get(job).copied().unwrap_or(0);
        match result {
            Ok(()) => assert_eq!(there, 1),
            Err(Error::Unconfirmed { .. }) => assert!(there <= 1),
            Err(Error::Blocked { .. } | Error::NotConnected) => assert_eq!(there, 0),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(events.lost(), 0);
    clear(&backend, &admin, &[&queue], &[]).await;
}

/// P04. The large one fails with size and limit, its neighbours and all that fits into frames arrive.
#[tokio::test(flavor = "multi_thread")]
async fn p04_the_large_one_fails_and_all_that_fits_arrives() {
    let Some(node) = Node::options().conf("max_message_size = 1048576").start().await else { return };
    let (backend, _) = connect(node.url(), RabbitMqOptions::default()).await;
    let (admin, queue) = (Admin::new(node.url()), unique("unconfirmed", "large"));
    backend.declare(&[QueueConfig::new(&queue)]).await.unwrap();
    for round in 0..if is_long() { 20 } else { 5 } {
        let mut jobs: Vec<_> = (0..50).map(|nr| job(&queue, &format!("{round}/{nr}"))).collect();
        jobs.extend([131_063, 131_064, 131_072, 200_000, MIB].map(|size| job_of(&queue, size)));
        let large = job_of(&queue, 5 * MIB);
        let large_id = large.job_id;
        jobs.insert(25, large);
        let (mut results, _) = enqueue_all(&backend, jobs).await;
        match results.remove(&large_id) {
            Some(Err(Error::TooLarge { size, limit })) => assert_eq!((size, limit), (5 * MIB, MIB)),
            other => panic!("round {round}: {other:?}"),
        }
        assert!(results.values().all(Result::is_ok), "round {round}: {results:?}");
        let copies = copies(&admin, &queue).await;
        assert!(results.keys().all(|job| copies.contains_key(job)) && copies.len() == 55, "round {round}");
    }
    clear(&backend, &admin, &[&queue], &[]).await;
}

/// P04. What grows past the limit when it is retried comes back to the worker, which can make a dead letter of it.
#[tokio::test(flavor = "multi_thread")]
async fn p04_a_job_that_grows_past_the_limit_is_neither_lost_nor_looped() {
    let Some(node) = Node::options().conf("max_message_size = 1048576").start().await else { return };
    let (backend, _) = connect(node.url(), RabbitMqOptions::default()).await;
    let (admin, queue) = (Admin::new(node.url()), unique("unconfirmed", "grows"));
    let config = QueueConfig::new(&queue);
    backend.declare(std::slice::from_ref(&config)).await.unwrap();
    let mut stream = backend.consume(&config).await.unwrap();
    let mut grows = job_of(&queue, MIB);
    grows.attempt = 9;
    backend.publish(&grows, None).await.unwrap();
    let delivery: Box<dyn Delivery> = next(&mut stream).await;
    let successor = delivery.envelope().next_attempt();
    assert_eq!(successor.attempt, 10);
    let refused = delivery.settle(Settlement::Retry { next: successor, delay: SECOND }).await.unwrap_err();
    assert!(matches!(refused.error, Error::TooLarge { .. }), "{}", refused.error);
    let delivery = refused.delivery.expect("it is still in hand");
    let cause = queuey::DeadLetterCause::Undeliverable;
    delivery.settle(Settlement::DeadLetter { cause, reason: "too large".into() }).await.unwrap();
    assert_eq!((admin.ready(&dead(&queue)).await, admin.ready(&queue).await), (1, 0));
    drop(stream);
    clear(&backend, &admin, &[&queue], &[SECOND]).await;
}
