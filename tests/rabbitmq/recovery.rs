//! A network that breaks again and again, and a broker that goes: everything comes back, and nothing is left behind.

use std::{
    env, fs,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use queuey::{BackoffPolicy, prelude::*};
use queuey_tests::{
    Admin, Fault, Ledger, Node, Proxy, Running, eventually, is_long, queue_set, shared_broker, until,
};
use tokio::runtime::Handle;
use uuid::Uuid;

const SECOND: Duration = Duration::from_secs(1);

/// The longest wait before another attempt.
const CAP: Duration = Duration::from_secs(2);

/// How late things may be on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

const PREFETCH: u16 = 20;

queue_set!(Set {
    First: |queue| queue.prefetch(PREFETCH),
    Second: |queue| queue.prefetch(PREFETCH),
    Third: |queue| queue.prefetch(PREFETCH),
});

macro_rules! job {
    ($job:ident, $queue:ident) => {
        #[derive(Serialize, Deserialize, Job)]
        #[job(queue = Set::$queue)]
        struct $job;
    };
}
job!(One, First);
job!(Two, Second);
job!(Three, Third);

/// C01. The restart of a whole broker is in `mixed`.
#[tokio::test(flavor = "multi_thread")]
async fn after_every_cut_each_queue_has_one_consumer_and_its_jobs_run() {
    let Some(url) = shared_broker() else { return };
    let scene = Scene::set(&url, Backoff::Exponential { base: SECOND / 10, factor: 2.0, max: CAP }).await;
    let (cuts, over) = (if is_long() { 20 } else { 5 }, AtomicBool::new(false));
    let cut_and_probe = async {
        let mut slowest = Duration::ZERO;
        for round in 0..cuts {
            scene.cut(round).await;
            let took = scene.probe().await;
            assert!(took < CAP + 5 * SECOND + SLACK, "round {round}: {took:?}");
            slowest = slowest.max(took);
        }
        over.store(true, Ordering::SeqCst);
        slowest
    };
    let (slowest, _) = tokio::join!(cut_and_probe, join_all((0..LOADS).map(|_| scene.load(&over))));
    until("all jobs run", || scene.ledger.open() == 0).await;
    let (jobs, duplicates) = (scene.ledger.len(), scene.ledger.assert_balanced(&[]));
    println!("{cuts} cuts, {jobs} jobs, {duplicates} duplicates, the slowest recovery took {slowest:?}");
    let in_flight = LOADS + Set::all().len() * usize::from(PREFETCH);
    assert!(duplicates <= MOST_CUTS * cuts * in_flight, "{duplicates} duplicates");
    scene.end().await;
}

/// How many jobs are enqueued at once, beside the probes.
const LOADS: usize = 3;

/// How many cuts a round has at the most: of all connections, and then of one at a frame of its recovery.
const MOST_CUTS: usize = 3;

/// A worker of three queues and a producer on one backend, behind a proxy.
struct Scene {
    proxy: Proxy,
    admin: Admin,
    producer: Producer<Set, RabbitMqBackend>,
    worker: Running,
    ledger: Arc<Ledger>,
}

impl Scene {
    async fn set(url: &str, backoff: Backoff) -> Self {
        let (admin, proxy) = (Admin::new(url), Proxy::start(url).await);
        let policy = BackoffPolicy::new(backoff);
        let options = RabbitMqOptions::default().reconnect(policy).connect_timeout(CAP);
        let backend = Arc::new(RabbitMqBackend::with_options(proxy.url(), options).await.unwrap());
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let ledger = Arc::new(Ledger::default());
        let builder = Worker::<Set>::builder(backend)
            .handler(FnHandler::<One, _>::with(ledger.clone(), async |ledger, _, ctx| {
                run(&ledger, &ctx).await
            }))
            .handler(FnHandler::<Two, _>::with(ledger.clone(), async |ledger, _, ctx| {
                run(&ledger, &ctx).await
            }))
            .handler(FnHandler::<Three, _>::with(ledger.clone(), async |ledger, _, ctx| {
                run(&ledger, &ctx).await
            }));
        let worker = Running::start(builder).await;
        subscribed(producer.backend()).await;
        Scene { proxy, admin, producer, worker, ledger }
    }

    /// Enqueues without a pause but for every other second.
    async fn load(&self, over: &AtomicBool) {
        let start = Instant::now();
        while !over.load(Ordering::SeqCst) {
            let is_idle = start.elapsed().as_secs() % 2 == 1;
            tokio::time::sleep(Duration::from_millis(if is_idle { 20 } else { 1 })).await;
            if !is_idle {
                self.enqueue().await;
            }
        }
    }

    /// Cuts all connections at a random moment, and in some rounds once more while they come back: at once, when queues are
    /// declared, when they are subscribed to.
    async fn cut(&self, round: usize) {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..2_000))).await;
        let next = self.proxy.connections() + 1;
        let fault = [Fault::CutBefore, Fault::CutWithin, Fault::CutAfter][fastrand::usize(0..3)];
        for connection in [next, next + 1] {
            let ordinal = fastrand::usize(1..=3);
            match round % 4 {
                1 => self.plan(&format!("{connection}>queue.declare#{ordinal}"), fault),
                2 => self.plan(&format!("{connection}>basic.consume#{ordinal}"), fault),
                _ => {}
            }
        }
        self.proxy.cut();
        if round % 4 == 3 {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..50))).await;
            self.proxy.cut();
        }
    }

    /// Cuts, lets some dials be refused or hang in some rounds, and comes back.
    async fn reconnect(&self, round: usize) {
        let dials = self.proxy.connections();
        match round % 10 {
            1 | 6 => self.proxy.close_new(),
            2 => self.proxy.stall(),
            _ => {}
        }
        self.proxy.cut();
        if matches!(round % 10, 1 | 2 | 6) {
            until("some dials fail", || self.proxy.connections() > dials + 3).await;
            self.proxy.accept_new().await;
            self.proxy.resume();
        }
        self.probe().await;
    }

    fn plan(&self, frame: &str, fault: Fault) {
        self.proxy.plan(frame.parse().unwrap(), fault);
    }

    /// How long it takes until a new job of each queue has run, and each queue has exactly one consumer.
    async fn probe(&self) -> Duration {
        let start = Instant::now();
        let probes = self.enqueue().await;
        until("the probes run", || probes.iter().all(|probe| self.ledger.has_ended(*probe))).await;
        eventually("each queue has one consumer", async || {
            let found = join_all(Set::all().iter().map(|queue| self.admin.queue(queue.name()))).await;
            found.into_iter().all(|queue| queue.is_some_and(|queue| queue.consumers == 1))
        })
        .await;
        start.elapsed()
    }

    /// Enqueues a job to each queue.
    async fn enqueue(&self) -> [Uuid; 3] {
        let jobs = [(); 3].map(|()| Uuid::now_v7());
        let [one, two, three] = jobs.map(|job| EnqueueOptions::now().job_id(job));
        let (one, two, three) = tokio::join!(
            self.producer.enqueue_with(&One, one),
            self.producer.enqueue_with(&Two, two),
            self.producer.enqueue_with(&Three, three),
        );
        for enqueued in [one, two, three] {
            self.ledger.enqueued(enqueued.unwrap());
        }
        jobs
    }

    async fn end(self) {
        self.worker.stop().await;
        for queue in Set::all() {
            self.admin.delete_all(queue.name(), &[]).await;
        }
    }
}

/// A worker whose first subscription fails ends, so that must not be cut.
async fn subscribed(backend: &RabbitMqBackend) {
    eventually("it is subscribed", async || backend.health().await.consuming.len() == Set::all().len()).await;
}

async fn run(ledger: &Ledger, ctx: &JobContext) -> JobResult {
    ledger.began(ctx);
    tokio::time::sleep(Duration::from_millis(5)).await;
    ledger.finished(ctx.job_id);
    Ok(())
}

/// R14.
#[tokio::test(flavor = "multi_thread")]
async fn what_falls_due_while_the_broker_is_away_runs_once_and_not_early() {
    let Some(node) = Node::start().await else { return };
    let ledger = Arc::new(Ledger::default());
    let options = RabbitMqOptions::default().reconnect(BackoffPolicy::new(Backoff::Fixed(CAP)));
    let backend = Arc::new(RabbitMqBackend::with_options(node.url(), options).await.unwrap());
    let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
    let handler = FnHandler::<One, _>::with(ledger.clone(), async |ledger, _, ctx| run(&ledger, &ctx).await);
    let worker = Running::start(Worker::<Set>::builder(backend.clone()).handler(handler)).await;
    subscribed(&backend).await;
    let ways: &[bool] = if is_long() { &[true, false] } else { &[true] };
    for is_crash in ways {
        let (soon, late, start) = (5 * SECOND, 20 * SECOND, Instant::now());
        for (delay, options) in [
            (soon, EnqueueOptions::after(soon)),
            (soon, EnqueueOptions::deferred(soon)),
            (late, EnqueueOptions::after(late)),
        ] {
            for _ in 0..3 {
                let job = Uuid::now_v7();
                ledger.delayed(job, delay);
                ledger.enqueued(producer.enqueue_with(&One, options.clone().job_id(job)).await.unwrap());
            }
        }
        if *is_crash {
            node.kill9().await;
        } else {
            node.stop().await;
        }
        tokio::time::sleep((soon + SECOND).saturating_sub(start.elapsed())).await;
        node.restart().await;
        until("all run", || ledger.open() == 0).await;
    }
    assert_eq!((ledger.assert_balanced(&[]), ledger.runs()), (0, ways.len() * 9));
    worker.stop().await;
}

/// What is open is counted for a whole process, so this has one of its own.
#[test]
fn many_reconnects_leave_nothing_behind() {
    const ALONE: &str = "QUEUEY_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        tokio::runtime::Runtime::new().unwrap().block_on(reconnect_many_times());
        return;
    }
    let mut test = Command::new(env::current_exe().unwrap());
    test.args(["--exact", "recovery::many_reconnects_leave_nothing_behind", "--nocapture"]).env(ALONE, "1");
    let output = test.stderr(Stdio::inherit()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    assert!(output.status.success() && printed.contains("1 passed"));
}

/// Of the process, of the runtime, and of the broker.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Open {
    files: usize,
    threads: usize,
    tasks: usize,
    connections: usize,
    channels: usize,
}

impl Open {
    async fn count(node: &Node) -> Self {
        let lines = async |what| node.ctl(&["-q", what, "pid"]).await.lines().count();
        let (connections, channels) = (lines("list_connections").await, lines("list_channels").await);
        let tasks = Handle::current().metrics().num_alive_tasks();
        let files = fs::read_dir("/proc/self/fd").unwrap().count();
        Open { files, threads: threads(), tasks, connections, channels }
    }

    /// Counts until nothing changes any more.
    async fn settled(node: &Node) -> Self {
        let mut last = Open::count(node).await;
        loop {
            let now = Open::count(node).await;
            if now == last {
                return now;
            }
            last = now;
        }
    }

    /// Whether there is no more than before; but for the second channel for publishing, which is opened when it is first
    /// needed.
    fn is_within(self, before: Open) -> bool {
        let parts = |open: Open| [open.files, open.threads, open.tasks, open.connections, open.channels];
        let before = Open { channels: before.channels + 1, ..before };
        parts(self).iter().zip(parts(before)).all(|(this, before)| *this <= before)
    }
}

/// How many threads there are beside those of the runtime, which come and go as it likes.
fn threads() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    // One may have ended since the folder was opened.
    let names = threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim_end() != "tokio-rt-worker").count()
}

async fn reconnect_many_times() {
    let Some(node) = Node::start().await else { return };
    let scene = Scene::set(node.url(), Backoff::Fixed(SECOND / 20)).await;
    // The client library starts a thread for all times when it first loses a connection.
    for round in 0..3 {
        scene.reconnect(round).await;
    }
    let (before, rounds) = (Open::settled(&node).await, if is_long() { 300 } else { 20 });
    for round in 0..rounds {
        scene.reconnect(round).await;
    }
    until("the worker is idle", || scene.ledger.open() == 0).await;
    let start = Instant::now();
    loop {
        let now = Open::count(&node).await;
        if now.is_within(before) {
            println!("{rounds} reconnects: {now:?}, before {before:?}");
            break;
        }
        assert!(start.elapsed() < 60 * SECOND, "{rounds} reconnects: {now:?}, before {before:?}");
    }
    scene.ledger.assert_balanced(&[]);
    scene.end().await;
}
