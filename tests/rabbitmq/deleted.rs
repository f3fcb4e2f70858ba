//! A queue that somebody deletes again and again, and one that is deleted while its worker stops.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use lapin::types::AMQPValue;
use queuey::{ConnectionEvent, prelude::*};
use queuey_tests::{Admin, Proxy, Running, captured, eventually, queue_set, shared_broker, until};
use tokio::sync::Semaphore;

use crate::scene::{Events, SECOND, SLACK, clear, connect, is_long, table};

/// How long after one deletion the next one comes.
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes a queue again and again.
async fn keep_deleting(admin: &Admin, queue: &str) {
    loop {
        admin.delete(queue).await;
        tokio::time::sleep(PAUSE).await;
    }
}

fn cancelled(events: &Events, name: &str) -> usize {
    events.count(|event| matches!(event, ConnectionEvent::ConsumerCancelled { queue } if queue == name))
}

mod again_and_again {
    use super::*;

    queue_set!(Set { Deleted: |queue| queue.max_priority(3), Other });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Deleted, name = "lost")]
    struct OnDeleted;

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Other, name = "kept")]
    struct OnOther;

    /// How often it may be subscribed to in a time: at once, then after at least half of 500 ms, 1 s, 2 s… up to 5 s.
    fn most_attempts(time: Duration) -> usize {
        let (mut at, mut wait, mut attempts) = (Duration::ZERO, SECOND / 4, 1);
        while at <= time {
            (at, wait, attempts) = (at + wait, (wait * 2).min(SECOND * 5 / 2), attempts + 1);
        }
        attempts
    }

    /// Enqueues to the other queue, and waits for each job, for as long as this; gives how long the slowest took.
    async fn work_on(
        producer: &Producer<Set, RabbitMqBackend>,
        worker: &Running,
        time: Duration,
    ) -> Duration {
        let (start, mut slowest) = (Instant::now(), Duration::ZERO);
        while start.elapsed() < time {
            let (ended, enqueued) = (worker.stats().succeeded, Instant::now());
            producer.enqueue(&OnOther).await.unwrap();
            worker.until_ended(ended + 1).await;
            slowest = slowest.max(enqueued.elapsed());
            tokio::time::sleep(SECOND / 50).await;
        }
        slowest
    }

    /// C06. One thread, so that the log can be read.
    #[tokio::test]
    async fn a_queue_that_is_deleted_again_and_again_is_tried_with_patience_and_holds_up_no_other() {
        let Some(url) = shared_broker() else { return };
        let (log, _guard) = captured();
        let (admin, proxy) = (Admin::new(&url), Proxy::start(&url).await);
        let (backend, events) = connect(proxy.url(), RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let builder = Worker::<Set, _>::builder(backend.clone())
            .handler(FnHandler::<OnDeleted, _>::new(async |_, _| Ok(())))
            .handler(FnHandler::<OnOther, _>::new(async |_, _| Ok(())));
        let worker = Running::start(builder).await;
        let (deleted, other) = (Set::Deleted.name(), Set::Other.name());
        eventually("it is subscribed", || async { backend.health().await.consuming.len() == 2 }).await;
        let subscribes =
            || proxy.frames().iter().filter(|frame| frame.to_string().contains(">basic.consume#")).count();
        // But for the jobs of the other queue, of which each is logged.
        let lines = || log.text().lines().filter(|line| !line.contains(other)).count();
        let (subscribed, logged, start) = (subscribes(), lines(), Instant::now());
        let time = if is_long() { 10 * SECOND } else { 5 * SECOND };
        let slowest = tokio::select! {
            slowest = work_on(&producer, &worker, time) => slowest,
            () = keep_deleting(&admin, deleted) => unreachable!("it goes on for ever"),
        };
        let took = start.elapsed();
        let (attempts, lines) = (subscribes() - subscribed, lines() - logged);
        println!("{attempts} attempts and {lines} lines in {took:?}; the slowest job took {slowest:?}");
        let most = most_attempts(took);
        assert!((2..=most).contains(&attempts), "{attempts} attempts in {took:?}, {most} are the most");
        assert!((2..=2 * most).contains(&lines), "{}", log.text());
        assert!(lines as f64 / 5.0 < took.as_secs_f64(), "{lines} lines in {took:?}");
        assert!(slowest < SLACK, "a job of the other queue took {slowest:?}");
        assert!(cancelled(&events, deleted) >= 2);
        assert_eq!((cancelled(&events, other), events.lost()), (0, 0));

        eventually("it is consumed again", || async {
            admin.queue(deleted).await.is_some_and(|queue| queue.consumers == 1)
        })
        .await;
        // With the same arguments, or the broker would refuse this.
        let arguments = [
            ("x-max-priority", AMQPValue::LongInt(3)),
            ("x-queue-type", AMQPValue::LongString("classic".into())),
        ];
        admin.declare(deleted, table(&arguments)).await.unwrap();
        let (stranger, _) = connect(&url, RabbitMqOptions::default()).await;
        let ended = worker.stats().succeeded;
        producer.enqueue(&OnDeleted).await.unwrap();
        Producer::<Set, _>::new(stranger.clone()).await.unwrap().enqueue(&OnDeleted).await.unwrap();
        worker.until_ended(ended + 2).await;
        worker.stop().await;
        stranger.close().await.unwrap();
        clear(&backend, &admin, &[deleted, other], &[]).await;
    }
}

mod while_stopping {
    use super::*;

    queue_set!(Set { Deleted: |queue| queue.retry(RetryPolicy::fixed(3, SECOND)), Other });

    #[derive(Debug, Clone, Copy, Serialize, Deserialize)]
    enum How {
        Succeeds,
        Fails,
        IsFatal,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Deleted, name = "lost")]
    struct OnDeleted(How);

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Other, name = "kept")]
    struct OnOther;

    /// Holds jobs in hand until it is opened.
    type Gate = Arc<Semaphore>;

    async fn pass(gate: &Gate) {
        gate.acquire().await.expect("it is never closed").forget();
    }

    /// Whether the queue is deleted right before the worker is told to stop, and whether again and again from then on.
    const MOMENTS: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];

    /// C06.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_worker_whose_queue_is_deleted_while_it_stops_stops_all_the_same() {
        let Some(url) = shared_broker() else { return };
        let admin = Admin::new(&url);
        for moment in MOMENTS {
            stop_at(&url, &admin, moment).await;
        }
    }

    async fn stop_at(url: &str, admin: &Admin, (is_before, is_during): (bool, bool)) {
        let (deleted, other) = (Set::Deleted.name(), Set::Other.name());
        let (gate, ended) = (Gate::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (backend, events) = connect(url, RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let state = (gate.clone(), ended.clone());
        let on_deleted =
            FnHandler::<OnDeleted, _>::with(gate.clone(), async |gate: Gate, job: OnDeleted, _| {
                pass(&gate).await;
                match job.0 {
                    How::Succeeds => Ok(()),
                    How::Fails => Err(JobError::retryable_msg("not yet")),
                    How::IsFatal => Err(JobError::fatal_msg("broken")),
                }
            });
        let on_other = FnHandler::<OnOther, _>::with(
            state,
            async |(gate, ended): (Gate, Arc<Mutex<Vec<Instant>>>), _, _| {
                pass(&gate).await;
                ended.lock().unwrap().push(Instant::now());
                Ok(())
            },
        );
        let builder = Worker::<Set, _>::builder(backend.clone()).handler(on_deleted).handler(on_other);
        let worker = Running::start(builder).await;
        for how in [How::Succeeds, How::Fails, How::IsFatal] {
            producer.enqueue(&OnDeleted(how)).await.unwrap();
        }
        producer.enqueue(&OnOther).await.unwrap();
        until("all are in hand", || worker.stats().in_flight == 4).await;
        if is_before {
            admin.delete(deleted).await;
        }
        worker.handle.shutdown();
        let deleting = async {
            match is_during {
                true => keep_deleting(admin, deleted).await,
                false => std::future::pending().await,
            }
        };
        let stopping = async {
            // Of the deletions, some are while jobs run.
            tokio::time::sleep(5 * PAUSE).await;
            gate.add_permits(4);
            worker.join().await.expect("it stops without an error")
        };
        let report = tokio::select! {
            report = tokio::time::timeout(30 * SECOND + SLACK, stopping) => report.expect("it stops"),
            () = deleting => unreachable!("it goes on for ever"),
        };
        println!("before: {is_before}, during: {is_during}: {report:?}");
        assert_eq!(ended.lock().unwrap().len(), 1, "the job of the other queue ran once");
        assert_eq!(report.returned, 0);
        assert_eq!((cancelled(&events, other), events.lost()), (0, 0));
        assert_eq!(admin.ready(other).await, 0, "it was acknowledged");
        clear(&backend, admin, &[deleted, other], &[SECOND]).await;
    }
}
