//! Jobs that wait: how many hold queues there are for them, and what becomes of them while nobody listens.

use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant},
};

use queuey::prelude::*;
use queuey_tests::{Admin, Node, Running, captured, eventually, queue_set, shared_broker, until};

use crate::scene::{SECOND, SLACK, clear, connect, is_long};

/// When the runs of a job began, by its number.
type Runs = Arc<Mutex<Vec<(usize, u32, Instant)>>>;

fn runs_of(runs: &Runs, number: usize) -> Vec<(u32, Instant)> {
    let runs = runs.lock().unwrap();
    runs.iter().filter(|run| run.0 == number).map(|run| (run.1, run.2)).collect()
}

/// All queues of a node with how much of each is not acknowledged. To ask this way keeps no hold queue alive.
async fn queues_of(node: &Node) -> Vec<(String, u32)> {
    let list =
        node.ctl(&["-q", "list_queues", "--no-table-headers", "name", "messages_unacknowledged"]).await;
    let queue = |line: &str| {
        let (name, unsettled) = line.split_once('\t')?;
        Some((name.to_owned(), unsettled.trim().parse().unwrap_or(0)))
    };
    list.lines().filter_map(queue).collect()
}

async fn holds_of(node: &Node) -> BTreeSet<String> {
    queues_of(node)
        .await
        .into_iter()
        .map(|queue| queue.0)
        .filter(|name| name.contains(".deferred."))
        .collect()
}

mod jitter {
    use super::*;

    fn longest() -> Duration {
        if is_long() { 60 * SECOND } else { 4 * SECOND }
    }

    fn policy() -> RetryPolicy {
        let backoff = Backoff::Exponential { base: SECOND, factor: 2.0, max: longest() };
        RetryPolicy::new(if is_long() { 6 } else { 4 }, backoff).jitter(0.5)
    }

    queue_set!(Set { Work: |queue| queue.prefetch(50).retry(policy()) });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task {
        number: usize,
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn r04_jittered_retries_share_few_hold_queues_and_leave_none_behind() {
        let Some(node) = Node::start().await else { return };
        let jobs = if is_long() { 500 } else { 100 };
        let runs = Runs::default();
        let handler =
            FnHandler::<Task, _>::with(runs.clone(), async |runs: Runs, job: Task, ctx: JobContext| {
                runs.lock().unwrap().push((job.number, ctx.attempt, Instant::now()));
                Err(JobError::retryable_msg("never works"))
            });
        let (backend, _) = connect(node.url(), RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
        let all: Vec<_> = (0..jobs).map(|number| Task { number }).collect();
        assert!(producer.enqueue_many(&all).await.iter().all(Result::is_ok));
        let mut seen = BTreeSet::new();
        while worker.ended() < jobs as u64 {
            let holds = holds_of(&node).await;
            assert!(holds.len() as u64 <= longest().as_secs(), "{holds:?}");
            seen.extend(holds);
        }
        assert!(!seen.is_empty() && seen.len() as u64 <= longest().as_secs(), "{seen:?}");
        eventually("no hold is left", || async { holds_of(&node).await.is_empty() }).await;
        let waits = policy().schedule();
        for number in 0..jobs {
            let runs = runs_of(&runs, number);
            assert_eq!(
                runs.iter().map(|run| run.0).collect::<Vec<_>>(),
                (1..=waits.len() as u32 + 1).collect::<Vec<_>>()
            );
            for (wait, pair) in waits.iter().zip(runs.windows(2)) {
                // Half more or less is what the policy may make of a wait.
                assert!(
                    pair[1].1 - pair[0].1 >= *wait / 2,
                    "job {number} waited {:?} of {wait:?}",
                    pair[1].1 - pair[0].1
                );
            }
        }
        worker.stop().await;
    }
}

mod without_a_worker {
    use super::*;

    queue_set!(Set { Work });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task;

    #[tokio::test(flavor = "multi_thread")]
    async fn r05_a_job_that_falls_due_before_there_is_a_worker_is_kept_for_it() {
        let Some(url) = shared_broker() else { return };
        let (admin, queue) = (Admin::new(&url), Set::Work.name());
        let (backend, _) = connect(&url, RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        producer.enqueue_after(&Task, 2 * SECOND).await.unwrap();
        backend.close().await.unwrap();
        eventually("it is due", || async { admin.ready(queue).await == 1 }).await;
        let (backend, _) = connect(&url, RabbitMqOptions::default()).await;
        let handler = FnHandler::<Task, _>::new(async |_, _| Ok(()));
        let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
        worker.until_ended(1).await;
        assert_eq!(worker.stats().succeeded, 1);
        worker.stop().await;
        clear(&backend, &admin, &[queue], &[2 * SECOND]).await;
    }
}

mod deleted {
    use super::*;

    queue_set!(Set { Work });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task;

    #[tokio::test]
    async fn r05_a_queue_deleted_while_a_job_waits_is_made_again_for_it() {
        let Some(url) = shared_broker() else { return };
        let (log, _guard) = captured();
        let (admin, queue) = (Admin::new(&url), Set::Work.name());
        let (backend, _) = connect(&url, RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let handler = FnHandler::<Task, _>::new(async |_, _| Ok(()));
        let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
        eventually("it is consumed", || async { backend.health().await.consuming == [queue] }).await;
        producer.enqueue_after(&Task, 8 * SECOND).await.unwrap();
        admin.delete(queue).await;
        eventually("it is consumed again", || async {
            admin.queue(queue).await.is_some_and(|q| q.consumers == 1)
        })
        .await;
        assert_eq!(worker.ended(), 0, "the job still waits");
        assert!(log.lines_with(&["ERROR", queue, "was its queue deleted?"]) > 0, "{}", log.text());
        worker.until_ended(1).await;
        assert_eq!(worker.stats().succeeded, 1);
        worker.stop().await;
        clear(&backend, &admin, &[queue], &[8 * SECOND]).await;
    }
}

mod timeout {
    use super::*;

    /// Longer than the broker waits for an acknowledgement.
    const WAIT: Duration = Duration::from_secs(8);

    queue_set!(Set {
        Classic: |queue| queue.prefetch(2).retry(RetryPolicy::fixed(2, WAIT)),
        Quorum: |queue| queue.kind(QueueKind::Quorum).prefetch(2).retry(RetryPolicy::fixed(2, WAIT)),
    });

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    enum How {
        Defers,
        Fails,
        Succeeds,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Classic, name = "classic")]
    struct OnClassic(How);

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Quorum, name = "quorum")]
    struct OnQuorum(How);

    /// Jobs that came to their end, in that order.
    type Ended = Arc<Mutex<Vec<How>>>;

    async fn run(ended: Ended, how: How, ctx: JobContext) -> JobResult {
        match how {
            How::Defers if ctx.deferrals == 0 => Err(JobError::deferred(WAIT)),
            How::Fails if ctx.attempt == 1 => Err(JobError::retryable_msg("not yet")),
            how => {
                ended.lock().unwrap().push(how);
                Ok(())
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn r12_jobs_that_wait_are_not_in_the_workers_hands() {
        let options = Node::options()
            .conf("consumer_timeout = 5000")
            .advanced("[{rabbit, [{channel_tick_interval, 1000}]}].");
        let Some(node) = options.start().await else { return };
        let (backend, events) = connect(node.url(), RabbitMqOptions::default()).await;
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let ended = Ended::default();
        let worker = Worker::<Set, _>::builder(backend.clone())
            .handler(FnHandler::<OnClassic, _>::with(ended.clone(), async |ended, job: OnClassic, ctx| {
                run(ended, job.0, ctx).await
            }))
            .handler(FnHandler::<OnQuorum, _>::with(ended.clone(), async |ended, job: OnQuorum, ctx| {
                run(ended, job.0, ctx).await
            }));
        let worker = Running::start(worker).await;
        let (deferring, failing, ordinary) = if is_long() { (50, 20, 10) } else { (20, 10, 10) };
        let waiting =
            std::iter::repeat_n(How::Defers, deferring).chain(std::iter::repeat_n(How::Fails, failing));
        for how in waiting {
            producer.enqueue(&OnClassic(how)).await.unwrap();
            producer.enqueue(&OnQuorum(how)).await.unwrap();
        }
        let waiting = 2 * (deferring + failing);
        until("all of them wait", || worker.stats().deferred + worker.stats().retried == waiting as u64)
            .await;
        for _ in 0..ordinary {
            producer.enqueue(&OnClassic(How::Succeeds)).await.unwrap();
            producer.enqueue(&OnQuorum(How::Succeeds)).await.unwrap();
        }
        let all = waiting + 2 * ordinary;
        while worker.ended() < all as u64 {
            for (queue, unsettled) in queues_of(&node).await {
                assert!(unsettled <= 2, "{queue}: {unsettled}");
            }
        }
        let ended = ended.lock().unwrap().clone();
        let ordinary = ended.iter().rposition(|how| *how == How::Succeeds);
        assert!(ordinary < ended.iter().rposition(|how| *how != How::Succeeds), "{ended:?}");
        assert_eq!(ended.len(), all);
        let log = std::fs::read_to_string(node.folder().join("log/node.log")).unwrap();
        let timeouts: Vec<_> = log.lines().filter(|line| line.to_lowercase().contains("timed out")).collect();
        assert!(timeouts.is_empty(), "{timeouts:?}");
        assert_eq!((worker.stats().settle_failures, events.lost()), (0, 0));
        worker.stop().await;
    }
}

mod outage {
    use super::*;

    queue_set!(Set { Work });

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "task")]
    struct Task {
        number: usize,
    }

    /// Three jobs that fall due in the outage, three after it, three deferred.
    const WAITS: [Duration; 3] = [Duration::from_secs(6), Duration::from_secs(14), Duration::from_secs(10)];

    async fn nine_jobs_outlive(node: &Node, outage: impl AsyncFnOnce(&Node)) {
        let (backend, events) = connect(node.url(), RabbitMqOptions::default()).await;
        let runs = Runs::default();
        let handler =
            FnHandler::<Task, _>::with(runs.clone(), async |runs: Runs, job: Task, ctx: JobContext| {
                if job.number >= 6 && ctx.deferrals == 0 {
                    return Err(JobError::deferred(WAITS[2]));
                }
                runs.lock().unwrap().push((job.number, ctx.attempt, Instant::now()));
                Ok(())
            });
        let producer = Producer::<Set, _>::new(backend.clone()).await.unwrap();
        let worker = Running::start(Worker::<Set, _>::builder(backend.clone()).handler(handler)).await;
        let mut begun = Vec::new();
        for number in 0..9 {
            begun.push(Instant::now());
            match number {
                0..3 => producer.enqueue_after(&Task { number }, WAITS[0]).await.unwrap(),
                3..6 => producer.enqueue_after(&Task { number }, WAITS[1]).await.unwrap(),
                _ => producer.enqueue(&Task { number }).await.unwrap(),
            };
        }
        until("three are deferred", || worker.stats().deferred == 3).await;
        outage(node).await;
        let back = Instant::now();
        worker.until_ended(9).await;
        // Whatever was on its way when the broker went is counted as that.
        let again = worker.stats().settle_failures as usize;
        assert!(events.lost() >= 1);
        let all = runs.lock().unwrap().len();
        assert!((9..=9 + again).contains(&all), "{all} runs");
        for (number, begun) in begun.into_iter().enumerate() {
            let wait = WAITS[number / 3];
            let first = runs_of(&runs, number)[0].1;
            assert!(first - begun >= wait, "job {number} was early: {:?}", first - begun);
            let due = back.max(begun + wait);
            assert!(first < due + 2 * SECOND + SLACK, "job {number} was late: {:?}", first - due);
        }
        worker.stop().await;
        backend.close().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn r14_jobs_that_wait_outlive_a_stop_of_their_broker() {
        let Some(node) = Node::start().await else { return };
        nine_jobs_outlive(&node, async |node| {
            node.ctl(&["stop_app"]).await;
            node.ctl(&["start_app"]).await;
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn r14_jobs_that_wait_outlive_a_crash_of_their_broker() {
        let Some(node) = Node::start().await else { return };
        nine_jobs_outlive(&node, async |node| {
            node.kill9().await;
            node.restart().await;
        })
        .await;
    }
}
