//! A hold queue that goes takes along what waits in it. However late a message reaches its hold queue, it comes back.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::join_all};
use queuey::{ConnectionEvent, Delivery, DeliveryStream, Envelope, Settlement, prelude::*};
use queuey_tests::{
    Admin, Direction, Fault, Frame, Ledger, Node, Proxy, Running, is_long, queue_set, shared_broker, unique,
    until,
};
use serde_json::value::to_raw_value;
use tokio::{sync::watch, time::timeout};
use uuid::Uuid;

const SECOND: Duration = Duration::from_secs(1);

/// How long jobs are held here: the time in which all else is measured.
const HOLD: Duration = Duration::from_secs(3);

/// When a message can reach its hold queue after that was declared, in times of the hold: while it is released safely; when
/// the queue goes before it would be released; and when it has gone.
const STALLS: [f64; 3] = [0.6, 1.3, 2.5];

/// A queue that answers another declare up to here has lived throughout, and what is in it needs no copy.
const HAS_LIVED: f64 = 1.8;

/// How late things may be on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy)]
enum Waiting {
    EnqueueAfter,
    Retry,
    Deferral,
}

/// R02.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_that_reaches_its_hold_queue_late_is_neither_lost_nor_doubled_nor_early() {
    let Some(url) = shared_broker() else { return };
    join_all(STALLS.map(|times| stall(&url, Waiting::EnqueueAfter, times))).await;
}

/// R02.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_reaches_its_hold_queue_late_is_neither_lost_nor_doubled_nor_early() {
    let Some(url) = shared_broker() else { return };
    join_all(STALLS.map(|times| stall(&url, Waiting::Retry, times))).await;
}

/// R02.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferral_that_reaches_its_hold_queue_late_is_neither_lost_nor_doubled_nor_early() {
    let Some(url) = shared_broker() else { return };
    join_all(STALLS.map(|times| stall(&url, Waiting::Deferral, times))).await;
}

/// Holds a job while its message is stalled between the declare of the hold queue and the queue, for so many times of the
/// hold. A machine that is too busy to come in time makes copies, as it should; then all is done once more.
async fn stall(url: &str, waiting: Waiting, times: f64) {
    for round in 0..3 {
        let mut scene = Scene::set(url, &format!("{waiting:?}.{times}.{round}")).await;
        let (copies, took) = scene.hold_and_count(waiting, times).await;
        scene.end().await;
        let needs_none = times < HAS_LIVED;
        if !needs_none || took < HOLD.mul_f64(HAS_LIVED) {
            assert!(!needs_none || copies == 1, "{copies} copies, {waiting:?} {times}");
            assert!(copies <= 2, "{copies} copies, {waiting:?} {times}");
            return;
        }
    }
    panic!("the machine was too busy three times, {waiting:?} {times}");
}

/// A backend behind a proxy, and a queue of its own.
struct Scene {
    proxy: Proxy,
    backend: RabbitMqBackend,
    config: QueueConfig,
    stream: DeliveryStream,
    admin: Admin,
}

impl Scene {
    async fn set(url: &str, queue: &str) -> Self {
        let (proxy, admin) = (Proxy::start(url).await, Admin::new(url));
        let backend = RabbitMqBackend::connect(proxy.url()).await.unwrap();
        let config = QueueConfig::new(unique("leases", queue));
        backend.declare(std::slice::from_ref(&config)).await.unwrap();
        let stream = backend.consume(&config).await.unwrap();
        Scene { proxy, backend, config, stream, admin }
    }

    /// How often a job comes back from one wait, and how long it took until its hold was good.
    async fn hold_and_count(&mut self, waiting: Waiting, times: f64) -> (usize, Duration) {
        // It shows on which connection this backend publishes.
        let job = self.job();
        self.backend.publish(&job, None).await.unwrap();
        let first = self.next().await;
        let stalled = self.stall_next_publish(HOLD.mul_f64(times));
        let start = Instant::now();
        match waiting {
            Waiting::EnqueueAfter => {
                first.ack().await.unwrap();
                self.backend.publish(&job, Some(HOLD)).await.unwrap();
            }
            Waiting::Retry => {
                let next = first.envelope().next_attempt();
                first.settle(Settlement::Retry { next, delay: HOLD }).await.unwrap();
            }
            Waiting::Deferral => {
                let next = first.envelope().deferred(self.config.deferral_priority());
                first.settle(Settlement::Defer { next, delay: HOLD }).await.unwrap();
            }
        }
        let took = start.elapsed();
        self.assert_declared_before(stalled);
        let back = self.next().await;
        assert!(start.elapsed() >= HOLD, "{waiting:?} {times} came back after {:?}", start.elapsed());
        assert_eq!(back.envelope().job_id, job.job_id);
        back.ack().await.unwrap();
        (1 + self.copies().await, took)
    }

    /// How many copies wait beside what has come back.
    async fn copies(&mut self) -> usize {
        // The last one into the same hold queue is the last one out.
        let last = self.job();
        self.backend.publish(&last, Some(HOLD)).await.unwrap();
        let mut copies = 0;
        loop {
            let delivery = self.next().await;
            let is_last = delivery.envelope().job_id == last.job_id;
            delivery.ack().await.unwrap();
            if is_last {
                return copies;
            }
            copies += 1;
        }
    }

    fn job(&self) -> Envelope {
        Envelope::raw("job", &self.config.name, to_raw_value(&()).unwrap())
    }

    async fn next(&mut self) -> Box<dyn Delivery> {
        let next = timeout(HOLD * 2 + SLACK, self.stream.next()).await;
        next.expect("it never comes back: lost").unwrap().unwrap()
    }

    /// Stalls the next message on the connection that has published last.
    fn stall_next_publish(&self, time: Duration) -> Frame {
        let last = self.proxy.frames().into_iter().rfind(is_publish).unwrap();
        let next = Frame { ordinal: last.ordinal + 1, ..last };
        self.proxy.plan(next, Fault::Stall(time));
        next
    }

    /// Checks that the frame was stalled, and that a hold queue had been declared since the message before it.
    fn assert_declared_before(&self, stalled: Frame) {
        assert_eq!(self.proxy.struck().first().map(|struck| struck.0), Some(stalled));
        let frames = self.proxy.frames();
        let mut before = frames.iter().rev().skip_while(|frame| **frame != stalled).skip(1);
        let declared = before
            .by_ref()
            .take_while(|frame| !is_publish(frame))
            .any(|frame| frame.connection == stalled.connection && frame.name == "queue.declare");
        assert!(declared, "no declare before {stalled}");
    }

    async fn end(self) {
        self.backend.close().await.unwrap();
        self.admin.delete_all(&self.config.name, &[HOLD, HOLD * 2]).await;
    }
}

fn is_publish(frame: &Frame) -> bool {
    frame.direction == Direction::ToBroker && frame.name == "basic.publish"
}

const JOBS: usize = 5;
const RETRY_AFTER: Duration = Duration::from_secs(4);

queue_set!(Alarmed { Work: |queue| queue.retry(RetryPolicy::fixed(2, RETRY_AFTER)) });

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Alarmed::Work)]
struct FailsOnce;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Alarmed::Work)]
struct Last;

/// R02. The broker stops reading from a connection when that publishes during an alarm, not before: so the hold queue is
/// declared, and the message waits in the socket for as long as the alarm lasts.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_an_alarm_holds_up_is_neither_lost_nor_run_twice_nor_early() {
    let Some(node) = Node::start().await else { return };
    for _ in 0..4 {
        let (runs, took) = alarm_around_retries(&node).await;
        // Of a hold queue that may have gone nothing is known, and copies are made.
        if (1.0..HAS_LIVED).contains(&took.div_duration_f64(RETRY_AFTER)) {
            assert_eq!(runs, 2 * JOBS);
            return;
        }
    }
    panic!("the machine was busy: four times the alarm did not end when it was to");
}

/// How many runs there were in all, and how long it took until all retries were good.
async fn alarm_around_retries(node: &Node) -> (usize, Duration) {
    let producer = Producer::<Alarmed>::new(connect(node.url()).await).await.unwrap();
    let blocked = Arc::new(AtomicBool::new(false));
    let hear = blocked.clone();
    let options = RabbitMqOptions::default().on_event(move |event| {
        if matches!(event, ConnectionEvent::Blocked { .. }) {
            hear.store(true, Ordering::SeqCst);
        }
    });
    // A backend of its own, which has published nothing yet.
    let backend = Arc::new(RabbitMqBackend::with_options(node.url(), options).await.unwrap());
    let (ledger, gate, last) =
        (Arc::new(Ledger::default()), watch::Sender::new(false), Arc::new(AtomicBool::new(false)));
    let fails_once = FnHandler::<FailsOnce, _>::with((ledger.clone(), gate.subscribe()), fail_once);
    let seen = last.clone();
    let is_last = FnHandler::<Last, _>::new(move |_, _| {
        seen.store(true, Ordering::SeqCst);
        async { Ok(()) }
    });
    let builder = Worker::<Alarmed>::builder(backend).handler(fails_once).handler(is_last).concurrency(JOBS);
    let worker = Running::start(builder).await;
    for _ in 0..JOBS {
        ledger.enqueued(producer.enqueue(&FailsOnce).await.unwrap());
    }
    until("all run", || ledger.runs() == JOBS).await;

    let asked = Instant::now();
    node.memory_alarm(true).await;
    let takes = asked.elapsed();
    assert!(!blocked.load(Ordering::SeqCst), "nothing was published");
    let start = Instant::now();
    gate.send_replace(true);
    until("a retry is blocked", || blocked.load(Ordering::SeqCst)).await;
    // Ending it takes as long as beginning it did, and is to fall into the middle of when that has a meaning.
    let end = RETRY_AFTER.mul_f64((1.0 + HAS_LIVED) / 2.0);
    tokio::time::sleep(end.saturating_sub(takes + start.elapsed())).await;
    node.memory_alarm(false).await;
    until("the retries are good", || worker.stats().retried == JOBS as u64).await;
    let took = start.elapsed();
    until("no retry is lost", || ledger.open() == 0).await;
    // The last one into the same hold queue is the last one out: all copies have come before it.
    producer.enqueue_after(&Last, RETRY_AFTER).await.unwrap();
    until("all are out", || last.load(Ordering::SeqCst)).await;
    worker.stop().await;
    ledger.assert_balanced(&[]);
    (ledger.runs(), took)
}

async fn fail_once(
    (ledger, mut gate): (Arc<Ledger>, watch::Receiver<bool>),
    _: FailsOnce,
    ctx: JobContext,
) -> JobResult {
    ledger.began(&ctx);
    if ctx.attempt > 1 {
        ledger.finished(ctx.job_id);
        return Ok(());
    }
    gate.wait_for(|open| *open).await.unwrap();
    ledger.waits(&ctx, RETRY_AFTER);
    Err(JobError::retryable_msg("once"))
}

queue_set!(Busy { Work });

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Busy::Work)]
struct Held;

const BUSY_DELAY: Duration = Duration::from_secs(2);

/// R02.
#[tokio::test(flavor = "multi_thread")]
async fn every_delayed_job_that_was_taken_arrives_whenever_it_was_made() {
    let Some(url) = shared_broker() else { return };
    let ledger = Arc::new(Ledger::default());
    let handler =
        FnHandler::<Held, _>::with(ledger.clone(), async |ledger: Arc<Ledger>, _, ctx: JobContext| {
            ledger.began(&ctx);
            ledger.finished(ctx.job_id);
            Ok(())
        });
    let worker = Running::start(Worker::<Busy>::builder(connect(&url).await).handler(handler)).await;

    let end = Instant::now() + if is_long() { SECOND * 180 } else { SECOND * 12 };
    // Nobody else may declare their hold queue again just in time, so all that is random is behind one network.
    let proxy = Proxy::start(&url).await;
    let (one, other) = (connect(proxy.url()).await, connect(proxy.url()).await);
    let ((), stalls, ..) = tokio::join!(
        enqueue_on_schedule(connect(&url).await, &ledger, end),
        stall_now_and_then(&proxy, end),
        join_all((0..AT_RANDOM).map(|_| enqueue_at_random(one.clone(), &ledger, end))),
        join_all((0..AT_RANDOM).map(|_| enqueue_at_random(other.clone(), &ledger, end))),
    );
    until("every job arrives", || ledger.open() == 0).await;
    let (jobs, duplicates, errors) = (ledger.len(), ledger.assert_balanced(&[]), ledger.errors());
    println!("{jobs} jobs, {stalls} stalls, {duplicates} duplicates, (unconfirmed, refused) {errors:?}");
    assert!(jobs >= if is_long() { 500 } else { 50 }, "{jobs}");
    assert!(duplicates <= stalls * 2 * AT_RANDOM, "{duplicates} duplicates");
    worker.stop().await;
    Admin::new(&url).delete_all(Busy::Work.name(), &[BUSY_DELAY, BUSY_DELAY * 2, BUSY_DELAY * 4]).await;
}

/// How many jobs each producer behind the network that stalls has under way at once.
const AT_RANDOM: usize = 4;

async fn stall_now_and_then(proxy: &Proxy, end: Instant) -> usize {
    let mut stalls = 0;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(200..1_500))).await;
        proxy.stall();
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1_000..5_000))).await;
        proxy.resume();
        stalls += 1;
    }
    stalls
}

/// A producer that comes again just when the hold queue is about to go.
async fn enqueue_on_schedule(backend: Arc<RabbitMqBackend>, ledger: &Ledger, end: Instant) {
    let start = Instant::now();
    let producer = Producer::<Busy, _>::new(backend).await.unwrap();
    for round in 0.. {
        for at in [0.0, 3.0, 3.5, 3.9] {
            let at = start + Duration::from_secs_f64(7.8 * f64::from(round) + at);
            if at >= end {
                return;
            }
            tokio::time::sleep_until(at.into()).await;
            enqueue(&producer, ledger).await;
        }
    }
}

async fn enqueue_at_random(backend: Arc<RabbitMqBackend>, ledger: &Ledger, end: Instant) {
    let producer = Producer::<Busy, _>::new(backend).await.unwrap();
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..300))).await;
        enqueue(&producer, ledger).await;
    }
}

async fn enqueue(producer: &Producer<Busy, RabbitMqBackend>, ledger: &Ledger) {
    let job = Uuid::now_v7();
    ledger.delayed(job, BUSY_DELAY);
    match producer.enqueue_with(&Held, EnqueueOptions::after(BUSY_DELAY).job_id(job)).await {
        Ok(_) => ledger.enqueued(job),
        Err(error) => ledger.not_enqueued(job, &error),
    }
}

async fn connect(url: &str) -> Arc<RabbitMqBackend> {
    Arc::new(RabbitMqBackend::connect(url).await.unwrap())
}
