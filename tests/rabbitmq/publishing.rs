//! Publishing in groups: each caller is told what became of its own message, whatever happens to those beside it.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use queuey::{Backend, Envelope, Error, QueueConfig, RabbitMqBackend, RabbitMqOptions};
use queuey_tests::{Admin, Fault, Node, Proxy, shared_broker, unique, until};
use serde_json::value::to_raw_value;
use tokio::task::JoinSet;

fn is_long() -> bool {
    std::env::var_os("QUEUEY_TEST_LONG").is_some()
}

fn job(queue: &str, payload: &str) -> Envelope {
    Envelope::raw("job", queue, to_raw_value(payload).unwrap())
}

/// A backend with one queue, and an operator.
struct Setting {
    backend: RabbitMqBackend,
    admin: Admin,
    queue: String,
}

impl Setting {
    async fn new(url: &str, broker: &str, name: &str, options: RabbitMqOptions) -> Self {
        let backend = RabbitMqBackend::with_options(url, options).await.unwrap();
        let queue = unique("publishing", name);
        backend.declare(&[QueueConfig::new(&queue)]).await.unwrap();
        Setting { backend, admin: Admin::new(broker), queue }
    }

    async fn on_shared(name: &str) -> Option<Self> {
        let url = shared_broker()?;
        Some(Setting::new(&url, &url, name, RabbitMqOptions::default()).await)
    }

    /// The payloads that are in the queue, each as often as it is.
    async fn payloads(&self) -> Vec<String> {
        let messages = self.admin.take_all(&self.queue).await;
        let envelopes = messages.iter().map(|message| Envelope::from_bytes(&message.body).unwrap());
        envelopes.map(|envelope| serde_json::from_str(envelope.payload.get()).unwrap()).collect()
    }

    async fn end(self) {
        self.backend.close().await.unwrap();
        self.admin.delete(&self.queue).await;
        self.admin.delete(&format!("{}.dead", self.queue)).await;
    }
}

/// Many tasks enqueue at once, and of what they publish some goes to a queue that is missing.
async fn exactly_those_fail(tasks: usize, name: &str) {
    let Some(setting) = Setting::on_shared(name).await else { return };
    let missing = format!("{}.missing", setting.queue);
    let rounds = if is_long() { 20 } else { 3 };
    for percent in [1, 10, 50] {
        for round in 0..rounds {
            let mut publishing = JoinSet::new();
            for task in 0..tasks {
                let (backend, queue, missing) =
                    (setting.backend.clone(), setting.queue.clone(), missing.clone());
                publishing.spawn(async move {
                    let mut arrived = Vec::new();
                    for nr in 0..1_536_usize.div_ceil(tasks) {
                        let label = format!("{percent}/{round}/{task}/{nr}");
                        let fails = fastrand::u32(0..100) < percent;
                        let to = if fails { &missing } else { &queue };
                        match backend.publish(&job(to, &label), None).await {
                            Ok(()) if !fails => arrived.push(label),
                            Err(Error::Unroutable { queue, .. }) if fails => assert_eq!(queue, missing),
                            other => panic!("{label} to {to}: {other:?}"),
                        }
                    }
                    arrived
                });
            }
            let mut arrived: Vec<String> = publishing.join_all().await.into_iter().flatten().collect();
            let mut found = setting.payloads().await;
            arrived.sort_unstable();
            found.sort_unstable();
            assert!(arrived == found, "{} said to have arrived, {} found", arrived.len(), found.len());
        }
    }
    setting.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_callers_exactly_those_fail_whose_queue_is_missing() {
    exactly_those_fail(64, "of_64").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_512_callers_exactly_those_fail_whose_queue_is_missing() {
    exactly_those_fail(512, "of_512").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_in_one_call_keep_their_order_and_each_has_its_own_result() {
    let Some(setting) = Setting::on_shared("many").await else { return };
    let missing = format!("{}.missing", setting.queue);
    let is_missing = |nr: usize| nr % 7 == 3;
    let jobs: Vec<_> = (0..2_500)
        .map(|nr| job(if is_missing(nr) { &missing } else { &setting.queue }, &nr.to_string()))
        .collect();
    let results = setting.backend.publish_many(&jobs).await;
    assert_eq!(results.len(), jobs.len());
    for (nr, (result, job)) in results.iter().zip(&jobs).enumerate() {
        match result {
            Ok(()) => assert!(!is_missing(nr)),
            Err(Error::Unroutable { job_id, .. }) => assert!(is_missing(nr) && *job_id == job.job_id),
            Err(error) => panic!("{error}"),
        }
    }
    let expected: Vec<_> = (0..2_500).filter(|nr| !is_missing(*nr)).map(|nr| nr.to_string()).collect();
    assert!(setting.payloads().await == expected);
    setting.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_published_by_many_at_once_is_told_to_each() {
    let Some(setting) = Setting::on_shared("twice").await else { return };
    let job = Arc::new(job(&setting.queue, "same"));
    let mut publishing = JoinSet::new();
    for _ in 0..50 {
        let (backend, job) = (setting.backend.clone(), job.clone());
        publishing.spawn(async move { backend.publish(&job, None).await });
    }
    assert!(publishing.join_all().await.iter().all(Result::is_ok));
    assert_eq!(setting.payloads().await.len(), 50);
    setting.end().await;
}

/// Callers that give up in the middle disturb nobody.
#[tokio::test(flavor = "multi_thread")]
async fn callers_that_go_away_leave_the_batch_alone() {
    let Some(setting) = Setting::on_shared("vanish").await else { return };
    let missing = format!("{}.missing", setting.queue);
    let mut staying = JoinSet::new();
    for task in 0..32 {
        let (backend, queue, missing) = (setting.backend.clone(), setting.queue.clone(), missing.clone());
        staying.spawn(async move {
            let mut arrived = HashSet::new();
            for nr in 0..60 {
                let label = format!("stays {task}/{nr}");
                let lost = job(if nr % 3 == 0 { &missing } else { &queue }, "goes");
                let going = tokio::spawn({
                    let backend = backend.clone();
                    async move { backend.publish(&lost, None).await }
                });
                let publishing = job(&queue, &label);
                let publishing = backend.publish(&publishing, None);
                if nr % 2 == 0 {
                    tokio::task::yield_now().await;
                }
                going.abort();
                publishing.await.unwrap();
                arrived.insert(label);
            }
            arrived
        });
    }
    let arrived: HashSet<String> = staying.join_all().await.into_iter().flatten().collect();
    let found: Vec<_> =
        setting.payloads().await.into_iter().filter(|label| label.starts_with("stays")).collect();
    assert_eq!(found.len(), arrived.len(), "none twice, for nothing was cut");
    assert!(found.iter().all(|label| arrived.contains(label)));
    setting.end().await;
}

/// One message that the broker will not have takes its channel down; its neighbours arrive.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_kills_its_channel_fails_alone() {
    // Small enough for the message to be in a batch with others.
    let Some(node) = Node::options().conf("max_message_size = 20000").start().await else { return };
    let setting = Setting::new(node.url(), node.url(), "too_large", RabbitMqOptions::default()).await;
    for round in 0..20 {
        let mut publishing = JoinSet::new();
        for task in 0..64 {
            let (backend, queue) = (setting.backend.clone(), setting.queue.clone());
            publishing.spawn(async move {
                let large = task % 21 == 20;
                let label = if large { "x".repeat(30_000) } else { format!("{round}/{task}") };
                match backend.publish(&job(&queue, &label), None).await {
                    Ok(()) if !large => {}
                    Err(Error::TooLarge { size, limit }) if large => {
                        assert!(size > 30_000 && limit == 20_000, "{size} of {limit}");
                    }
                    other => panic!("{task}: {other:?}"),
                }
            });
        }
        publishing.join_all().await;
        let found: HashSet<_> = setting.payloads().await.into_iter().collect();
        let expected = (0..64).filter(|task| task % 21 != 20).map(|task| format!("{round}/{task}"));
        assert!(expected.clone().all(|label| found.contains(&label)), "round {round}: one is missing");
        assert_eq!(found.len(), expected.count());
    }
    setting.end().await;
}

/// An operator closes the connections in the middle of batches: all arrive, under the same id where again.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_closes_is_published_again() {
    let Some(node) = Node::start().await else { return };
    let setting = Setting::new(node.url(), node.url(), "operator", RabbitMqOptions::default()).await;
    let (stop, published) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut publishing = JoinSet::new();
    for task in 0..64 {
        let (backend, queue, stop, published) =
            (setting.backend.clone(), setting.queue.clone(), stop.clone(), published.clone());
        publishing.spawn(async move {
            let mut arrived = Vec::new();
            while !stop.load(Relaxed) {
                let label = format!("{task}/{}", arrived.len());
                backend.publish(&job(&queue, &label), None).await.unwrap();
                published.fetch_add(1, Relaxed);
                arrived.push(label);
            }
            arrived
        });
    }
    let fault = "[rabbit_networking:close_connection(Pid, <<\"an operator\">>) || Pid <- rabbit_networking:connections()].";
    for _ in 0..2 {
        let before = published.load(Relaxed);
        until("publishing goes on", || published.load(Relaxed) > before + 200).await;
        node.ctl(&["eval", fault]).await;
    }
    let before = published.load(Relaxed);
    until("publishing goes on after all", || published.load(Relaxed) > before + 200).await;
    stop.store(true, Relaxed);
    let arrived: Vec<String> = publishing.join_all().await.into_iter().flatten().collect();
    let found = setting.payloads().await;
    let distinct: HashSet<_> = found.iter().collect();
    assert!(arrived.iter().all(|label| distinct.contains(label)), "one is lost");
    assert_eq!(distinct.len(), arrived.len());
    let twice = found.len() - distinct.len();
    println!("{} published, {twice} twice over 2 faults", arrived.len());
    assert!(twice <= 2 * 64, "{twice} twice: at most what was under way");
    setting.end().await;
}

/// A connection that is cut around one frame of a batch: none is lost, and none but those under way is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_cut_anywhere_arrives() {
    let Some(url) = shared_broker() else { return };
    let faults = [
        ("1>basic.publish#1", Fault::CutBefore),
        ("1>basic.publish#20", Fault::CutWithin),
        ("1>basic.publish#40", Fault::CutAfter),
        ("1<basic.ack#2", Fault::CutBefore),
        ("1<basic.ack#2", Fault::CutAfter),
    ];
    for (nr, (frame, fault)) in faults.into_iter().enumerate() {
        let proxy = Proxy::start(&url).await;
        proxy.plan(frame.parse().unwrap(), fault);
        let setting = Setting::new(proxy.url(), &url, &format!("cut{nr}"), RabbitMqOptions::default()).await;
        let mut publishing = JoinSet::new();
        for task in 0..64 {
            let (backend, queue) = (setting.backend.clone(), setting.queue.clone());
            publishing.spawn(async move {
                backend.publish(&job(&queue, &task.to_string()), None).await.unwrap();
                backend.publish(&job(&queue, &(task + 64).to_string()), None).await.unwrap();
            });
        }
        publishing.join_all().await;
        let found = setting.payloads().await;
        let distinct: HashSet<_> = found.iter().collect();
        assert_eq!(distinct.len(), 128, "{frame}");
        assert!(found.len() <= 128 + 64, "{frame}: {} copies", found.len() - 128);
        setting.end().await;
    }
}

/// A queue that never confirms holds no other up: the healthy callers go on beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_never_confirms_holds_no_other() {
    let Some(node) = Node::start().await else { return };
    let options = RabbitMqOptions::default().publish_timeout(Duration::from_secs(6));
    let setting = Setting::new(node.url(), node.url(), "healthy", options).await;
    let stuck = format!("{}.stuck", setting.queue);
    setting.backend.declare(&[QueueConfig::new(&stuck)]).await.unwrap();
    let process = |act: &str| {
        format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"{stuck}\">>)), sys:{act}(amqqueue:get_pid(Q))."
        )
    };
    let (stop, healthy) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut publishing = JoinSet::new();
    for task in 0..16 {
        let (backend, queue, stop, healthy) =
            (setting.backend.clone(), setting.queue.clone(), stop.clone(), healthy.clone());
        publishing.spawn(async move {
            let mut arrived = 0;
            while !stop.load(Relaxed) {
                backend.publish(&job(&queue, &format!("{task}/{arrived}")), None).await.unwrap();
                arrived += 1;
                healthy.fetch_add(1, Relaxed);
            }
            arrived
        });
    }
    until("publishing is under way", || healthy.load(Relaxed) > 100).await;
    node.ctl(&["eval", &process("suspend")]).await;
    let mut waiting = JoinSet::new();
    for nr in 0..100 {
        let (backend, stuck) = (setting.backend.clone(), stuck.clone());
        waiting.spawn(async move {
            let start = Instant::now();
            let result = backend.publish(&job(&stuck, &nr.to_string()), None).await;
            (result, start.elapsed())
        });
        if nr % 10 == 0 {
            let before = healthy.load(Relaxed);
            until("the healthy go on", || healthy.load(Relaxed) > before + 20).await;
        }
    }
    // While none of those is answered, the others go on.
    let before = healthy.load(Relaxed);
    until("the healthy go on, all along", || healthy.load(Relaxed) > before + 500).await;
    for (result, _) in waiting.join_all().await {
        // Those that waited in the lane were never written.
        assert!(matches!(result, Err(Error::Unconfirmed { .. } | Error::NotConnected)), "{result:?}");
    }
    node.ctl(&["eval", &process("resume")]).await;
    let start = Instant::now();
    while setting.backend.publish(&job(&stuck, "at last"), None).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "the queue is well, and nothing arrives there");
    }
    stop.store(true, Relaxed);
    let arrived: u32 = publishing.join_all().await.into_iter().sum();
    assert_eq!(setting.payloads().await.len(), arrived as usize, "none lost, none twice");
    setting.end().await;
}
