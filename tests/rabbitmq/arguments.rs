//! O01: an existing queue with other arguments.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Instant,
};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use queuey::{Error, Result, prelude::*};
use queuey_tests::{Admin, Proxy, Running, captured, eventually, queue_set, shared_broker, unique, until};

use crate::scene::{SECOND, SLACK, clear, connect, dead, drain, hold, job, table};

#[derive(Debug, PartialEq)]
struct Mismatch {
    queue: String,
    argument: String,
    found: Option<String>,
    wanted: String,
}

impl Mismatch {
    fn new(queue: &str, argument: &str, found: &str, wanted: &str) -> Self {
        let (queue, argument) = (queue.to_owned(), argument.to_owned());
        Mismatch { queue, argument, found: Some(found.to_owned()), wanted: wanted.to_owned() }
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::QueueMismatch { queue, argument, found, wanted } => Mismatch {
                queue: queue.clone(),
                argument: argument.clone(),
                found: found.clone(),
                wanted: wanted.clone(),
            },
            other => panic!("{other}"),
        }
    }
}

mod at_start {
    use super::*;

    queue_set!(Set { Priority, Ttl: |queue| queue.message_ttl(60 * SECOND), Durable, Dead, Healthy });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Healthy, name = "task")]
    struct Task;

    /// What somebody has made, one queue for each way to differ.
    async fn make(admin: &Admin) -> [(Set, Mismatch); 4] {
        let priority = |level: i32| ("x-max-priority", AMQPValue::LongInt(level));
        let ttl = ("x-message-ttl", AMQPValue::LongInt(5_000));
        let dead = dead(Set::Dead.name());
        admin.declare(Set::Priority.name(), FieldTable::default()).await.unwrap();
        admin.declare(Set::Ttl.name(), table(&[priority(10), ttl.clone()])).await.unwrap();
        admin.declare_transient(Set::Durable.name(), table(&[priority(10)])).await.unwrap();
        admin.declare(&dead, table(&[ttl])).await.unwrap();
        [
            (Set::Priority, Mismatch::new(Set::Priority.name(), "x-max-priority", "none", "10")),
            (Set::Ttl, Mismatch::new(Set::Ttl.name(), "x-message-ttl", "5000", "60000")),
            (Set::Durable, Mismatch::new(Set::Durable.name(), "durable", "false", "true")),
            (Set::Dead, Mismatch::new(&dead, "x-message-ttl", "5000", "none")),
        ]
    }

    async fn build(backend: &Arc<RabbitMqBackend>, queues: &[Set]) -> Result<Worker<Set, RabbitMqBackend>> {
        let handler = FnHandler::<Task, _>::new(async |_, _| Ok(()));
        Worker::<Set, _>::builder(backend.clone()).handler(handler).queues(queues).build().await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn o01_at_start_it_is_an_error_with_both_values_and_no_loop() {
        let Some(url) = shared_broker() else { return };
        let admin = Admin::new(&url);
        let made = make(&admin).await;
        let proxy = Proxy::start(&url).await;
        let (backend, events) = connect(proxy.url(), RabbitMqOptions::default()).await;
        for (queue, mismatch) in &made {
            let start = Instant::now();
            let error = build(&backend, &[Set::Healthy, *queue]).await.expect_err("built");
            assert_eq!(Mismatch::of(&error), *mismatch);
            assert!(start.elapsed() < 5 * SECOND + SLACK);
            let text = error.to_string();
            for word in [&mismatch.queue, &mismatch.argument, &mismatch.wanted] {
                assert!(text.contains(word), "{text}");
            }
        }
        let error = Producer::<Set, _>::new(backend.clone()).await.expect_err("made");
        assert_eq!(Mismatch::of(&error), made[0].1);
        // What does not differ is served by the same backend, which asks for nothing more meanwhile.
        let declares = || proxy.frames().iter().filter(|frame| frame.name == "queue.declare").count();
        let worker = Running::start_built(build(&backend, &[Set::Healthy]).await.unwrap());
        let before = declares();
        Producer::<Set, _>::new_undeclared(backend.clone()).enqueue(&Task).await.unwrap();
        worker.until_ended(1).await;
        assert_eq!((declares(), events.lost()), (before, 0));
        worker.stop().await;
        let names: Vec<_> = Set::all().iter().map(QueueSet::name).collect();
        clear(&backend, &admin, &names, &[]).await;
    }
}

/// The broker cuts what it says at 255 bytes, and the names of its queues are in there.
#[tokio::test(flavor = "multi_thread")]
async fn o01_what_was_wanted_is_told_however_long_the_name_is() {
    let Some(url) = shared_broker() else { return };
    let (admin, (backend, _)) = (Admin::new(&url), connect(&url, RabbitMqOptions::default()).await);
    for length in [100, 115, 130, 145, 160, 235] {
        let mut name = unique("arguments", "long.");
        name.extend(std::iter::repeat_n('q', length - name.len()));
        admin.declare(&name, table(&[("x-max-priority", AMQPValue::LongInt(123))])).await.unwrap();
        let error = backend.declare(&[QueueConfig::new(&name)]).await.expect_err("declared");
        let Mismatch { queue, argument, found, wanted } = Mismatch::of(&error);
        assert_eq!((queue, &*argument, &*wanted), (name.clone(), "x-max-priority", "10"), "{length}");
        // Either all of it or nothing.
        assert!(found.as_deref().is_none_or(|found| found == "123"), "{length}: {found:?}");
        admin.delete(&name).await;
    }
    clear(&backend, &admin, &[], &[]).await;
}

mod at_a_reconnect {
    use super::*;

    queue_set!(Set { Changed, Healthy });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Changed, name = "changed")]
    struct OnChanged;

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Healthy, name = "healthy")]
    struct OnHealthy;

    #[tokio::test]
    async fn o01_at_a_reconnect_it_is_loud_and_the_healthy_queue_goes_on() {
        let Some(url) = shared_broker() else { return };
        let (log, _guard) = captured();
        let (admin, proxy) = (Admin::new(&url), Proxy::start(&url).await);
        let (backend, _) = connect(proxy.url(), RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let worker = Worker::<Set, _>::builder(backend.clone())
            .handler(FnHandler::<OnChanged, _>::new(async |_, _| Ok(())))
            .handler(FnHandler::<OnHealthy, _>::new(async |_, _| Ok(())));
        let worker = Running::start(worker).await;
        let (changed, healthy) = (Set::Changed.name(), Set::Healthy.name());
        let consuming = async |queues: &[&str]| {
            eventually("these are consumed", || async { backend.health().await.consuming == queues }).await;
        };
        consuming(&[changed, healthy]).await;

        proxy.refuse_new().await;
        proxy.cut();
        admin.delete(changed).await;
        admin.declare(changed, table(&[("x-max-priority", AMQPValue::LongInt(3))])).await.unwrap();
        proxy.accept_new().await;
        eventually("it is suspended", || async { !backend.health().await.suspended.is_empty() }).await;
        consuming(&[healthy]).await;
        let suspended = backend.health().await.suspended;
        assert_eq!(suspended.len(), 1);
        assert_eq!(suspended[0].0, changed);
        for word in ["x-max-priority", "wanted 10", "found 3"] {
            assert!(suspended[0].1.contains(word), "{suspended:?}");
            assert!(log.lines_with(&["ERROR", changed, word]) > 0, "{}", log.text());
        }
        for jobs in 1..=5 {
            producer.enqueue(&OnHealthy).await.unwrap();
            worker.until_ended(jobs).await;
        }
        // Once for each connection and once for the consumer, however often it is asked for meanwhile.
        let asked = || proxy.frames().iter().filter(|frame| frame.name == "queue.declare").count();
        let before = asked();
        until("it is asked for again", || asked() >= before + 4).await;
        assert!(log.lines_with(&["ERROR", changed]) <= 3, "{}", log.text());

        admin.delete(changed).await;
        consuming(&[changed, healthy]).await;
        assert_eq!(backend.health().await.suspended, []);
        producer.enqueue(&OnChanged).await.unwrap();
        worker.until_ended(6).await;
        worker.stop().await;
        clear(&backend, &admin, &[changed, healthy], &[]).await;
    }
}

mod migration {
    use super::*;

    /// Which release runs.
    static SECOND_RELEASE: AtomicBool = AtomicBool::new(false);

    queue_set!(Set { Work: |queue| if SECOND_RELEASE.load(SeqCst) { queue.max_priority(3) } else { queue } });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task {
        fails: bool,
    }

    fn worker(backend: &Arc<RabbitMqBackend>) -> WorkerBuilder<Set, RabbitMqBackend> {
        let handler = FnHandler::<Task, _>::new(async |job, _| match job.fails {
            true => Err(JobError::fatal_msg("broken")),
            false => Ok(()),
        });
        Worker::<Set, _>::builder(backend.clone()).handler(handler)
    }

    /// The steps of docs/rabbitmq.md.
    #[tokio::test(flavor = "multi_thread")]
    async fn o01_the_documented_migration_loses_nothing() {
        let Some(url) = shared_broker() else { return };
        let admin = Admin::new(&url);
        let (queue, held) = (Set::Work.name(), hold(Set::Work.name(), 2 * SECOND));
        let (first, _) = connect(&url, RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(first.clone()).await.unwrap();
        for _ in 0..3 {
            producer.enqueue_after(&Task { fails: false }, 2 * SECOND).await.unwrap();
            producer.enqueue(&Task { fails: false }).await.unwrap();
        }
        producer.enqueue(&Task { fails: true }).await.unwrap();
        let old = Running::start(worker(&first)).await;
        // 1. No producer from here on. 2. The workers empty the queue, and the holds.
        // To look at a hold as often as here keeps it alive, so that it never goes; that it is empty is what counts.
        eventually("nothing is held", || async { admin.ready(&held).await == 0 }).await;
        eventually("the queue is empty", || async { admin.ready(queue).await == 0 }).await;
        old.until_ended(7).await;
        // 3. The workers stop, and the queue is deleted.
        old.stop().await;
        first.close().await.unwrap();
        SECOND_RELEASE.store(true, SeqCst);
        let (second, _) = connect(&url, RabbitMqOptions::default()).await;
        let early = worker(&second).build().await.expect_err("built");
        assert_eq!(Mismatch::of(&early), Mismatch::new(queue, "x-max-priority", "10", "3"));
        admin.delete(queue).await;
        // 4. The new version starts.
        let new = Running::start(worker(&second)).await;
        let producer = Producer::<Set, _>::new(second.clone()).await.unwrap();
        producer.enqueue(&Task { fails: true }).await.unwrap();
        new.until_ended(1).await;
        new.stop().await;
        assert_eq!(admin.ready(&dead(queue)).await, 2, "dead letters of both releases");
        clear(&second, &admin, &[queue], &[2 * SECOND]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn o01_a_queue_without_priorities_is_taken_over_with_priority_zero() {
        let Some(url) = shared_broker() else { return };
        let (admin, (backend, _)) = (Admin::new(&url), connect(&url, RabbitMqOptions::default()).await);
        let config = QueueConfig::new(unique("arguments", "taken_over")).max_priority(0);
        admin.declare(&config.name, FieldTable::default()).await.unwrap();
        let body = job(&config, "old").to_bytes();
        admin.publish(&config.name, &body, BasicProperties::default().with_delivery_mode(2)).await;
        backend.declare(std::slice::from_ref(&config)).await.unwrap();
        backend.publish(&job(&config, "new"), None).await.unwrap();
        let mut stream = backend.consume(&config).await.unwrap();
        assert_eq!(drain(&mut stream, 2).await, ["old", "new"]);
        clear(&backend, &admin, &[&config.name], &[]).await;
    }
}
