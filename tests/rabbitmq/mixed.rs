//! Every end that a job can come to, thousands of times, while the broker is restarted in the middle.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use lapin::types::AMQPValue;
use queuey::{Envelope, Error, JobErrorKind, prelude::*, topology};
use queuey_tests::{Admin, Ledger, Node, Running, eventually, is_long, queue_set, until};
use serde_json::value::to_raw_value;
use tokio::time::timeout;
use uuid::Uuid;

const WAIT: Duration = Duration::from_secs(1);
/// After how long without any progress it is given up.
const PATIENCE: Duration = Duration::from_secs(50);
const PREFETCH: u16 = 100;
const PRODUCERS: usize = 8;

queue_set!(Set {
    Classic: |queue| queue.prefetch(PREFETCH).retry(RetryPolicy::fixed(2, WAIT)),
    Quorum: |queue| queue
        .kind(QueueKind::Quorum)
        .prefetch(PREFETCH)
        .retry(RetryPolicy::new(2, Backoff::None)),
});

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Classic)]
struct Task {
    how: How,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Quorum)]
struct SafeTask {
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum How {
    Succeeds,
    IsDelayed,
    FailsOnce,
    DefersOnce,
    IsDiscarded,
    IsFatal,
    IsExhausted,
    IsNoTask,
}

impl How {
    /// What the job of this number is to do.
    fn of(number: usize) -> Self {
        match number % 100 {
            0..50 => How::Succeeds,
            50..60 => How::IsDelayed,
            60..72 => How::FailsOnce,
            72..84 => How::DefersOnce,
            84..90 => How::IsDiscarded,
            90..94 => How::IsFatal,
            94..97 => How::IsExhausted,
            _ => How::IsNoTask,
        }
    }

    /// Whether the job is held on its way. The broker loses what is held for a quorum queue and falls due while the broker is
    /// away, so none is there, and retries are made at once.
    fn is_held(self) -> bool {
        matches!(self, How::IsDelayed | How::DefersOnce)
    }

    /// As which dead letter it ends, if as one.
    fn cause(self) -> Option<DeadLetterCause> {
        match self {
            How::IsFatal => Some(DeadLetterCause::Fatal),
            How::IsExhausted => Some(DeadLetterCause::Exhausted),
            How::IsNoTask => Some(DeadLetterCause::Decode),
            _ => None,
        }
    }
}

/// What is known of the jobs.
#[derive(Clone, Default)]
struct Book {
    ledger: Arc<Ledger>,
    /// Of those too whose enqueue failed.
    tasks: Arc<Mutex<HashMap<Uuid, How>>>,
}

impl Book {
    /// How many jobs of each kind were enqueued and have not ended.
    fn open(&self) -> BTreeMap<How, usize> {
        let mut open = BTreeMap::new();
        for (job, how) in &*self.tasks.lock().unwrap() {
            if self.ledger.is_enqueued(*job) && !self.ledger.has_ended(*job) {
                *open.entry(*how).or_default() += 1;
            }
        }
        open
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_every_kind_come_to_their_end_over_a_restart_of_the_broker() {
    let Some(node) = Node::start().await else { return };
    let (jobs, start) = (if is_long() { 20_000 } else { 2_000 }, Instant::now());
    let (book, admin) = (Book::default(), Admin::new(node.url()));
    let worker = start_worker(&node, &book).await;
    let (next, enqueued) = (AtomicUsize::new(0), || book.ledger.len());
    let restart = async {
        reach("half are enqueued", jobs / 2, enqueued, || book.open()).await;
        node.stop().await;
        node.restart().await;
    };
    tokio::join!(restart, enqueue_all(&node, &book, jobs, &next));
    assert_eq!(enqueued(), jobs);
    reach("all have ended", jobs, || jobs - book.ledger.open(), || book.open()).await;
    for queue in Set::all() {
        eventually("no copy waits", || async { is_done(&admin, queue.name()).await }).await;
        eventually("one consumer is back", || async {
            admin.queue(queue.name()).await.is_some_and(|state| state.consumers == 1)
        })
        .await;
    }
    until("nothing is in hand", || worker.stats().in_flight == 0).await;
    let stats = worker.stats();
    worker.stop().await;

    let dead = dead_letters(&admin).await;
    assert_ended_as_they_should(&book, &dead);
    let duplicates = book.ledger.assert_balanced(&[]);
    let (unconfirmed, refused) = book.ledger.errors();
    println!(
        "{jobs} jobs in {:.1} s: {} runs, {} retries, {} deferred, {} discarded, dead {:?}, {duplicates} duplicates by the \
         restart, {unconfirmed} enqueues unconfirmed, {refused} refused, {} settlements failed",
        start.elapsed().as_secs_f64(),
        book.ledger.runs(),
        stats.retried,
        stats.deferred,
        stats.discarded,
        stats.dead,
        stats.settle_failures,
    );
    let in_flight = Set::all().len() * usize::from(PREFETCH) + PRODUCERS;
    assert!(duplicates <= in_flight, "{duplicates} duplicates of one restart with {in_flight} in flight");
}

async fn start_worker(node: &Node, book: &Book) -> Running {
    let dead = book.ledger.clone();
    let hook = FnDeadLetterHook::new(move |letter: DeadLetter| {
        dead.dead(letter.envelope.job_id);
        std::future::ready(())
    });
    let backend = Arc::new(RabbitMqBackend::connect(node.url()).await.unwrap());
    let builder = Worker::<Set>::builder(backend)
        .handler(FnHandler::<Task, _>::with(book.clone(), async |book, task: Task, ctx| {
            run(&book, task.how, WAIT, &ctx)
        }))
        .handler(FnHandler::<SafeTask, _>::with(book.clone(), async |book, task: SafeTask, ctx| {
            run(&book, task.how, Duration::ZERO, &ctx)
        }));
    Running::start(builder.on_dead_letter(hook).concurrency(50)).await
}

fn run(book: &Book, how: How, wait: Duration, ctx: &JobContext) -> JobResult {
    book.ledger.began(ctx);
    let result = match how {
        How::FailsOnce if ctx.attempt == 1 => Err(JobError::retryable_msg("once")),
        How::DefersOnce if ctx.deferrals == 0 => Err(JobError::deferred(wait)),
        How::IsExhausted => Err(JobError::retryable_msg("always")),
        How::IsFatal => Err(JobError::fatal_msg("at once")),
        How::IsDiscarded => Err(JobError::discard_msg("not worth it")),
        _ => Ok(()),
    };
    match result.as_ref().map_err(JobError::kind) {
        Ok(()) | Err(JobErrorKind::Discard) => book.ledger.finished(ctx.job_id),
        Err(JobErrorKind::Fatal) => {}
        Err(_) => book.ledger.waits(ctx, wait),
    }
    result
}

async fn enqueue_all(node: &Node, book: &Book, jobs: usize, next: &AtomicUsize) {
    // Less patient than the restart takes, so that some give up.
    let options = RabbitMqOptions::default().publish_timeout(WAIT * 2);
    let backend = Arc::new(RabbitMqBackend::with_options(node.url(), options).await.unwrap());
    let producer = Producer::<Set, _>::new(backend).await.unwrap();
    let enqueue_some = async || {
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && number < jobs
        {
            while enqueue(&producer, book, number).await.is_err() {}
        }
    };
    join_all((0..PRODUCERS).map(|_| enqueue_some())).await;
}

/// Enqueues under an id of its own, so that an enqueue that failed can be told from the next one.
async fn enqueue(producer: &Producer<Set, RabbitMqBackend>, book: &Book, number: usize) -> Result<(), Error> {
    let (job, how, is_safe) = (Uuid::now_v7(), How::of(number), number % 2 == 1);
    let is_safe = is_safe && !how.is_held();
    book.tasks.lock().unwrap().insert(job, how);
    let options = match how {
        How::IsDelayed => {
            book.ledger.delayed(job, WAIT);
            EnqueueOptions::after(WAIT)
        }
        _ => EnqueueOptions::now(),
    };
    let options = options.job_id(job);
    let enqueued = match (how, is_safe) {
        (How::IsNoTask, _) => producer.backend().publish(&no_task(job, is_safe), None).await,
        (_, false) => producer.enqueue_with(&Task { how }, options).await.map(drop),
        (_, true) => producer.enqueue_with(&SafeTask { how }, options).await.map(drop),
    };
    match &enqueued {
        Ok(()) => book.ledger.enqueued(job),
        Err(error) => book.ledger.not_enqueued(job, error),
    }
    enqueued
}

fn no_task(job: Uuid, is_safe: bool) -> Envelope {
    let (name, queue) = if is_safe { (SafeTask::NAME, Set::Quorum) } else { (Task::NAME, Set::Classic) };
    let mut envelope = Envelope::raw(name, queue.name(), to_raw_value("no task").unwrap());
    envelope.job_id = job;
    envelope
}

/// Waits for a count to be reached, however long that takes, as long as it goes on; else says what there is.
async fn reach<T: fmt::Debug>(what: &str, goal: usize, count: impl Fn() -> usize, stuck: impl Fn() -> T) {
    while let reached = count()
        && reached < goal
    {
        let goes_on = until(what, || count() != reached);
        if timeout(PATIENCE, goes_on).await.is_err() {
            panic!("{what}: {reached} of {goal}, and nothing goes on: {:?}", stuck());
        }
    }
}

/// Whether nothing is ready on a queue, and nothing is held for it.
async fn is_done(admin: &Admin, queue: &str) -> bool {
    let hold = topology::deferred_queue_name(queue, ".deferred", 1_000);
    admin.ready(&hold).await == 0 && admin.ready(queue).await == 0
}

/// All dead letters with their causes.
async fn dead_letters(admin: &Admin) -> HashMap<Uuid, String> {
    let mut dead = HashMap::new();
    for queue in Set::all() {
        for message in admin.take_all(&topology::dead_queue_name(queue.name(), ".dead")).await {
            let headers = message.properties.headers().clone().unwrap_or_default();
            let Some(AMQPValue::LongString(cause)) = headers.inner().get(topology::HEADER_DEATH_CAUSE) else {
                panic!("a dead letter without a cause: {headers:?}");
            };
            dead.insert(Envelope::from_bytes(&message.body).unwrap().job_id, cause.to_string());
        }
    }
    dead
}

/// Checks that exactly those jobs are dead letters that should be.
fn assert_ended_as_they_should(book: &Book, dead: &HashMap<Uuid, String>) {
    let tasks = book.tasks.lock().unwrap();
    let mut wrong = BTreeMap::new();
    for (job, how) in &*tasks {
        let (expected, found) = (how.cause().map(DeadLetterCause::as_str), dead.get(job).map(String::as_str));
        // Of an enqueue that failed nothing may be there.
        let is_there = found.is_some() || book.ledger.is_enqueued(*job);
        if is_there && expected != found {
            wrong.insert(*job, (*how, found));
        }
    }
    assert!(wrong.is_empty(), "{} jobs ended otherwise: {wrong:?}", wrong.len());
}
