//! How deliveries end on the wire: many acknowledgements in a frame, and none for what was not settled.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt, future::join_all};
use queuey::{
    Backend, ConnectionEvent, DeadLetters, Delivery, DeliveryStream, Envelope, QueueConfig, RabbitMqBackend,
    RabbitMqOptions, SettleError,
};
use queuey_tests::{Admin, Direction, Frame, Proxy, eventually, shared_broker, unique, until};
use serde_json::value::to_raw_value;
use tokio::task::JoinSet;
use uuid::Uuid;

/// A backend behind a proxy, and a queue.
struct Scene {
    proxy: Proxy,
    admin: Admin,
    backend: RabbitMqBackend,
    config: QueueConfig,
    events: Arc<Mutex<Vec<ConnectionEvent>>>,
}

impl Scene {
    /// With `jobs` on the queue; rejections go nowhere.
    async fn set(name: &str, prefetch: u16, jobs: usize) -> Option<Self> {
        let url = shared_broker()?;
        let proxy = Proxy::start(&url).await;
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard = events.clone();
        let options = RabbitMqOptions::default()
            .dead_letters(DeadLetters::Reject)
            .on_event(move |event| heard.lock().unwrap().push(event));
        let backend = RabbitMqBackend::with_options(proxy.url(), options).await.unwrap();
        let config = QueueConfig::new(unique("acks", name)).prefetch(prefetch);
        backend.declare(std::slice::from_ref(&config)).await.unwrap();
        let jobs: Vec<_> =
            (0..jobs).map(|_| Envelope::raw("job", &config.name, to_raw_value("x").unwrap())).collect();
        for published in backend.publish_many(&jobs).await {
            published.unwrap();
        }
        Some(Scene { proxy, admin: Admin::new(&url), backend, config, events })
    }

    async fn consume(&self) -> DeliveryStream {
        self.backend.consume(&self.config).await.unwrap()
    }

    async fn until_ready(&self, count: u32) {
        eventually("all are back that were not settled, and no more", || async {
            self.admin.ready(&self.config.name).await == count
        })
        .await;
    }

    /// How many frames of a name went to the broker.
    fn sent(&self, name: &str) -> usize {
        let frames = self.proxy.frames();
        frames.iter().filter(|frame| frame.direction == Direction::ToBroker && frame.name == name).count()
    }

    /// That the broker found no fault with any frame, and that nobody was told so.
    fn assert_no_channel_was_closed(&self) {
        let frames = self.proxy.frames();
        let closed = |f: &&Frame| f.direction == Direction::ToClient && f.name == "channel.close";
        assert_eq!(frames.iter().find(closed), None);
        let cancelled = |event: &&ConnectionEvent| matches!(event, ConnectionEvent::ConsumerCancelled { .. });
        assert_eq!(self.events.lock().unwrap().iter().filter(cancelled).count(), 0);
    }

    async fn end(self) {
        self.backend.close().await.unwrap();
        self.admin.delete(&self.config.name).await;
    }
}

async fn next(stream: &mut DeliveryStream) -> Box<dyn Delivery> {
    tokio::time::timeout(Duration::from_secs(60), stream.next()).await.expect("one comes").unwrap().unwrap()
}

async fn take(stream: &mut DeliveryStream, count: usize) -> Vec<Box<dyn Delivery>> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.push(next(stream).await);
    }
    taken
}

#[tokio::test]
async fn a_burst_of_acknowledgements_is_few_frames() {
    let Some(scene) = Scene::set("burst", 100, 1000).await else { return };
    let mut stream = scene.consume().await;
    for _ in 0..10 {
        let burst = take(&mut stream, 100).await;
        for acked in join_all(burst.into_iter().map(Delivery::ack)).await {
            acked.unwrap();
        }
    }
    // One for a quarter of the prefetch where all wait at once.
    let frames = scene.sent("basic.ack");
    assert!((10..=200).contains(&frames), "{frames} frames");
    drop(stream);
    scene.until_ready(0).await;
    scene.assert_no_channel_was_closed();
    scene.end().await;
}

#[tokio::test]
async fn with_the_smallest_prefetch_each_acknowledgement_brings_the_next() {
    for prefetch in 1..=3 {
        let Some(scene) = Scene::set(&format!("small.{prefetch}"), prefetch, 20).await else { return };
        let mut stream = scene.consume().await;
        for _ in 0..20 {
            next(&mut stream).await.ack().await.unwrap();
        }
        scene.end().await;
    }
}

/// How a delivery is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ack,
    Requeue,
    Drop,
    Reject,
}

impl Way {
    fn any() -> Self {
        match fastrand::u8(0..20) {
            0..2 => Way::Requeue,
            2 => Way::Drop,
            3..5 => Way::Reject,
            _ => Way::Ack,
        }
    }

    fn goes_back(self) -> bool {
        matches!(self, Way::Requeue | Way::Drop)
    }

    async fn end(self, delivery: Box<dyn Delivery>) -> Result<(), SettleError> {
        match self {
            Way::Ack => delivery.ack().await,
            Way::Requeue => delivery.requeue().await,
            Way::Reject => delivery.dead_letter("rejected".to_owned()).await,
            Way::Drop => {
                drop(delivery);
                Ok(())
            }
        }
    }
}

/// Deliveries in hand, that end in any order and in bursts.
#[derive(Default)]
struct Hand {
    held: Vec<Box<dyn Delivery>>,
    ending: JoinSet<(Uuid, Way, bool)>,
}

impl Hand {
    /// Takes one in, and now and then ends some.
    fn take(&mut self, delivery: Box<dyn Delivery>, most: usize) {
        self.held.push(delivery);
        if self.held.len() == most || fastrand::u8(0..8) == 0 {
            self.end_some();
        }
    }

    fn end_some(&mut self) {
        for _ in 0..fastrand::usize(1..=self.held.len()) {
            let delivery = self.held.swap_remove(fastrand::usize(..self.held.len()));
            let (job, way) = (delivery.envelope().job_id, Way::any());
            self.ending.spawn(async move { (job, way, way.end(delivery).await.is_ok()) });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_whatever_order_and_way_deliveries_end_each_is_settled_as_it_ended() {
    let Some(scene) = Scene::set("ways", 40, 400).await else { return };
    let (mut stream, mut hand) = (scene.consume().await, Hand::default());
    let (mut owed, mut gone) = (HashMap::<Uuid, i32>::new(), HashSet::new());
    while gone.len() < 400 {
        tokio::select! {
            biased;
            Some(ended) = hand.ending.join_next() => {
                let (job, way, done) = ended.unwrap();
                assert!(done, "{way:?} failed though the channel lives");
                match way.goes_back() {
                    true => *owed.entry(job).or_default() += 1,
                    false => assert!(gone.insert(job), "settled twice"),
                }
            }
            delivery = next(&mut stream) => {
                *owed.entry(delivery.envelope().job_id).or_insert(1) -= 1;
                hand.take(delivery, 40);
            }
            () = std::future::ready(()), if gone.len() + hand.held.len() == 400 => hand.end_some(),
        }
    }
    assert!(
        hand.held.is_empty() && owed.values().all(|owed| *owed == 0),
        "each came as often as it went back, and once"
    );
    drop(stream);
    scene.until_ready(0).await;
    scene.assert_no_channel_was_closed();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_of_a_channel_that_is_gone_ends_nothing_on_the_next() {
    let Some(scene) = Scene::set("generations", 20, 40).await else { return };
    let mut stream = scene.consume().await;
    let old = take(&mut stream, 20).await;
    scene.proxy.cut();
    for delivery in &old {
        delivery.lost().await;
    }
    // They have the same tags, and were all handed out before the first of the old ones ends.
    let new = take(&mut stream, 20).await;
    for acked in join_all(old.into_iter().map(Delivery::ack)).await {
        assert!(acked.is_err(), "acknowledged over a channel that is gone");
    }
    drop(new);
    drop(stream);
    scene.until_ready(40).await;
    scene.assert_no_channel_was_closed();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_cut_no_job_is_lost_and_no_tag_is_unknown() {
    let Some(scene) = Scene::set("cuts", 40, 300).await else { return };
    let (mut stream, mut hand, mut gone) = (scene.consume().await, Hand::default(), HashSet::new());
    // Whose end was in a write that was cut: it may have come through, and is then seen no more.
    let mut perhaps = HashSet::new();
    let mut cuts = 0;
    while gone.union(&perhaps).count() < 300 {
        tokio::select! {
            biased;
            Some(ended) = hand.ending.join_next() => {
                let (job, way, done) = ended.unwrap();
                if !way.goes_back() {
                    if done { &mut gone } else { &mut perhaps }.insert(job);
                }
            }
            delivery = next(&mut stream) => {
                perhaps.remove(&delivery.envelope().job_id);
                hand.take(delivery, 40);
            }
            () = tokio::time::sleep(Duration::from_millis(50)), if !hand.held.is_empty() => hand.end_some(),
        }
        if gone.len() >= (cuts + 1) * 60 {
            cuts += 1;
            scene.proxy.cut();
        }
    }
    drop(stream);
    drop(hand);
    scene.backend.flush(&scene.config).await.unwrap();
    // Whose end was cut off on its way to the broker has come again, and nothing else is left.
    let left = scene.admin.take_all(&scene.config.name).await;
    for message in left {
        let envelope = Envelope::from_bytes(&message.body).unwrap();
        assert!(gone.union(&perhaps).any(|job| *job == envelope.job_id), "a job that never ended");
    }
    until("every cut was seen", || {
        let lost = |event: &&ConnectionEvent| matches!(event, ConnectionEvent::ConnectionLost);
        scene.events.lock().unwrap().iter().filter(lost).count() > 0
    })
    .await;
    scene.assert_no_channel_was_closed();
    scene.end().await;
}
