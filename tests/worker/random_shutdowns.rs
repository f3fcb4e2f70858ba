//! Shutdowns at random moments under a mixed load: the ledger balances, and every run is back within its limit.

use std::{collections::HashMap, time::Duration};

use queuey_tests::{Ledger, queue_set, until};
use tokio::time::Instant;
use uuid::Uuid;

use super::*;

const ROUNDS: u64 = 500;
const JOBS: usize = 40;
const DRAIN: Duration = Duration::from_secs(2);
/// Longer than any drain.
const LONG: Duration = Duration::from_secs(4);

queue_set!(Set {
    Some: |queue| queue.prefetch(7).retry(RetryPolicy::fixed(3, Duration::from_millis(300))),
    Others: |queue| queue.prefetch(3).max_priority(0),
});

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum How {
    Succeeds,
    Fails,
    Panics,
    IsFatal,
    Defers,
    IsDiscarded,
    HandsItselfBack,
    ListensToTheStop,
    OutlivesTheDrain,
}

const HOWS: [How; 9] = [
    How::Succeeds,
    How::Fails,
    How::Panics,
    How::IsFatal,
    How::Defers,
    How::IsDiscarded,
    How::HandsItselfBack,
    How::ListensToTheStop,
    How::OutlivesTheDrain,
];

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Some)]
struct Some {
    how: How,
    millis: u64,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Others)]
struct Other {
    how: How,
    millis: u64,
}

/// Keeps book, and makes every job end after a few runs.
#[derive(Clone, Default)]
struct Load {
    ledger: Arc<Ledger>,
    runs: Arc<Mutex<HashMap<Uuid, u32>>>,
}

impl Load {
    async fn run(&self, how: How, millis: u64, ctx: JobContext) -> JobResult {
        self.ledger.started(ctx.job_id);
        let run = {
            let mut runs = self.runs.lock().unwrap();
            let run = runs.entry(ctx.job_id).or_default();
            *run += 1;
            *run
        };
        tokio::time::sleep(Duration::from_millis(millis)).await;
        let result = if run > 2 { Ok(()) } else { answer(how, &ctx).await };
        let kind = result.as_ref().map_err(JobError::kind);
        if matches!(kind, Ok(()) | Err(queuey::JobErrorKind::Discard)) {
            self.ledger.finished(ctx.job_id);
        }
        result
    }
}

async fn answer(how: How, ctx: &JobContext) -> JobResult {
    match how {
        How::Succeeds => Ok(()),
        How::Fails => Err(JobError::retryable_msg("fails")),
        How::Panics => panic!("panics"),
        How::IsFatal => Err(JobError::fatal_msg("is fatal")),
        How::Defers => Err(JobError::deferred(Duration::from_millis(200))),
        How::IsDiscarded => Err(JobError::discard_msg("is discarded")),
        How::HandsItselfBack => Err(JobError::requeue()),
        How::ListensToTheStop => {
            let _ = tokio::time::timeout(LONG, ctx.cancelled()).await;
            Err(JobError::retryable_msg("stopped"))
        }
        How::OutlivesTheDrain => {
            tokio::time::sleep(LONG).await;
            Ok(())
        }
    }
}

fn builder(backend: &Arc<MemoryBackend>, load: &Load, random: &mut fastrand::Rng) -> WorkerBuilder<Set> {
    let dead = load.ledger.clone();
    Worker::<Set>::builder(backend.clone())
        .handler(FnHandler::<Some, _>::with(load.clone(), async |load: Load, job: Some, ctx| {
            load.run(job.how, job.millis, ctx).await
        }))
        .handler(FnHandler::<Other, _>::with(load.clone(), async |load: Load, job: Other, ctx| {
            load.run(job.how, job.millis, ctx).await
        }))
        .on_dead_letter(FnDeadLetterHook::new(move |letter: DeadLetter| {
            dead.dead(letter.envelope.job_id);
            std::future::ready(())
        }))
        .concurrency(random.usize(1..12))
        .shutdown_timeout(DRAIN)
}

async fn enqueue(backend: &Arc<MemoryBackend>, load: &Load, random: &mut fastrand::Rng) {
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    for _ in 0..JOBS {
        let (how, millis) = (HOWS[random.usize(..HOWS.len())], random.u64(0..300));
        let options = EnqueueOptions::after(Duration::from_millis(random.u64(0..400)));
        let id = match random.bool() {
            true => producer.enqueue_with(&Some { how, millis }, options).await,
            false => producer.enqueue_with(&Other { how, millis }, options).await,
        };
        load.ledger.enqueued(id.unwrap());
    }
}

/// Runs workers one after the other, each stopped at a random moment, and a last one to the end.
async fn round(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (backend, load) = (Arc::new(MemoryBackend::new()), Load::default());
    enqueue(&backend, &load, &mut random).await;
    for _ in 0..3 {
        let worker = builder(&backend, &load, &mut random).build().await.unwrap();
        let moment = Duration::from_millis(random.u64(0..1200));
        if random.u8(..5) == 0 {
            // A program that is cut off.
            let _ = tokio::time::timeout(moment, worker.run()).await;
            continue;
        }
        let stop = tokio::time::sleep(moment);
        let start = Instant::now();
        let report = worker.run_until(stop).await.unwrap();
        let took = start.elapsed().saturating_sub(moment);
        assert!(took <= DRAIN + Duration::from_secs(1), "seed {seed}: the drain took {took:?}: {report:?}");
        let in_hand: usize = backend.queue_names().iter().map(|queue| backend.unsettled(queue)).sum();
        assert_eq!(in_hand, 0, "seed {seed}: everything is settled or handed back");
    }
    let last = builder(&backend, &load, &mut random).concurrency(12).build().await.unwrap();
    let handle = last.handle();
    let all_ended = until("every job has ended", || load.ledger.ended() == JOBS);
    last.run_until(all_ended).await.unwrap();
    assert_eq!(load.ledger.len(), JOBS);
    load.ledger.assert_balanced(&[]);
    assert_eq!(handle.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn every_run_is_back_within_its_limit_and_nothing_is_lost() {
    for seed in 0..ROUNDS {
        round(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_on_several_threads_either() {
    let rounds = (0..24).map(|seed| tokio::spawn(round(10_000 + seed)));
    for round in rounds.collect::<Vec<_>>() {
        round.await.unwrap();
    }
}
