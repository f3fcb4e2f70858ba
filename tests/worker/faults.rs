//! A backend whose deliveries fail on purpose: the memory backend with its settling in the hands of the test.

use std::time::Duration;

use futures_util::StreamExt;
use queuey::{BoxFuture, Delivery, DeliveryStream, Envelope, Error, Health, Result, SettleError, Settlement};
use queuey_tests::{Running, queue_set, until};
use tokio_util::sync::CancellationToken;

use super::*;

/// What becomes of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is carried out.
    Passes,
    /// It can never succeed, and the delivery comes back.
    ComesBack,
    /// The delivery is lost.
    IsLost,
}

#[derive(Clone)]
struct Faulty {
    inner: MemoryBackend,
    fate: Arc<dyn Fn(&Settlement) -> Fate + Send + Sync>,
    /// Fires when every delivery handed out so far is lost.
    lost: Arc<Mutex<CancellationToken>>,
}

impl Faulty {
    fn new(fate: impl Fn(&Settlement) -> Fate + Send + Sync + 'static) -> Self {
        Faulty { inner: MemoryBackend::new(), fate: Arc::new(fate), lost: Arc::default() }
    }

    fn lose_all(&self) {
        std::mem::take(&mut *self.lost.lock().unwrap()).cancel();
    }
}

impl Backend for Faulty {
    fn declare<'a>(&'a self, queues: &'a [QueueConfig]) -> BoxFuture<'a, Result<()>> {
        self.inner.declare(queues)
    }
    fn publish<'a>(&'a self, envelope: &'a Envelope, delay: Option<Duration>) -> BoxFuture<'a, Result<()>> {
        self.inner.publish(envelope, delay)
    }
    fn defer<'a>(&'a self, envelope: &'a Envelope, delay: Duration) -> BoxFuture<'a, Result<()>> {
        self.inner.defer(envelope, delay)
    }
    fn consume<'a>(&'a self, queue: &'a QueueConfig) -> BoxFuture<'a, Result<DeliveryStream>> {
        Box::pin(async move {
            // It ignores the prefetch, as a careless backend may.
            let stream = self.inner.consume(&queue.clone().prefetch(u16::MAX)).await?;
            let faulty = self.clone();
            Ok(stream.map(move |item| item.map(|inner| wrap(inner, &faulty))).boxed())
        })
    }
    fn health(&self) -> BoxFuture<'_, Health> {
        self.inner.health()
    }
    fn close(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.close()
    }
}

fn wrap(inner: Box<dyn Delivery>, faulty: &Faulty) -> Box<dyn Delivery> {
    let lost = faulty.lost.lock().unwrap().clone();
    Box::new(FaultyDelivery { inner, faulty: faulty.clone(), lost })
}

struct FaultyDelivery {
    inner: Box<dyn Delivery>,
    faulty: Faulty,
    lost: CancellationToken,
}

impl Delivery for FaultyDelivery {
    fn envelope(&self) -> &Envelope {
        self.inner.envelope()
    }
    fn redelivered(&self) -> bool {
        self.inner.redelivered()
    }
    fn delivery_count(&self) -> Option<u32> {
        self.inner.delivery_count()
    }
    fn settle(self: Box<Self>, settlement: Settlement) -> BoxFuture<'static, Result<(), SettleError>> {
        Box::pin(async move {
            let error = Error::Refused { queue: "q".into() };
            match (self.faulty.fate)(&settlement) {
                Fate::Passes => self.inner.settle(settlement).await,
                Fate::ComesBack => Err(SettleError { error, delivery: Some(self) }),
                Fate::IsLost => Err(SettleError { error, delivery: None }),
            }
        })
    }
    fn lost(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.lost.clone().cancelled_owned())
    }
}

queue_set!(Set { Work: |queue| queue.prefetch(4) });

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
struct Task {
    fatal: bool,
}

async fn enqueue(backend: &Faulty, fatal: bool, count: usize) {
    let producer = Producer::<Set>::new(Arc::new(backend.clone())).await.unwrap();
    for _ in 0..count {
        producer.enqueue(&Task { fatal }).await.unwrap();
    }
}

fn builder(backend: &Faulty) -> WorkerBuilder<Set> {
    Worker::<Set>::builder(Arc::new(backend.clone())).handler(FnHandler::<Task, _>::new(async |job, _ctx| {
        if job.fatal { Err(JobError::fatal_msg("fatal")) } else { Ok(()) }
    }))
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_whose_copy_cannot_be_published_is_run_all_the_same() {
    let backend = Faulty::new(|settlement| match settlement {
        Settlement::Redeliver { .. } => Fate::ComesBack,
        _ => Fate::Passes,
    });
    enqueue(&backend, false, 1).await;
    drop(backend.consume(&Set::Work.config()).await.unwrap().next().await);
    let worker = Running::start(builder(&backend)).await;
    worker.until_ended(1).await;
    assert_eq!((worker.stats().started, worker.stats().succeeded), (1, 1));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delivery_lost_before_it_is_settled_is_counted() {
    let settled = std::sync::atomic::AtomicU32::new(0);
    let backend = Faulty::new(move |_| match settled.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0..3 => Fate::IsLost,
        _ => Fate::Passes,
    });
    enqueue(&backend, false, 3).await;
    let worker = Running::start(builder(&backend)).await;
    // The broker hands them out anew: each runs twice, the second time as a copy that counts the first.
    worker.until_ended(3).await;
    assert_eq!((worker.stats().started, worker.stats().settle_failures), (6, 3));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_that_cannot_be_published_keeps_the_job() {
    let backend = Faulty::new(|settlement| match settlement {
        Settlement::DeadLetter { .. } => Fate::ComesBack,
        _ => Fate::Passes,
    });
    enqueue(&backend, true, 1).await;
    let worker = Running::start(builder(&backend)).await;
    until("it was handed back", || worker.stats().requeued > 0).await;
    worker.stop().await;
    assert_eq!(backend.inner.pending(Set::Work.name()).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_comes_back_becomes_a_dead_letter_with_its_reason() {
    let backend = Faulty::new(|settlement| match settlement {
        Settlement::Ack => Fate::ComesBack,
        _ => Fate::Passes,
    });
    enqueue(&backend, false, 1).await;
    let causes: Log<DeadLetterCause> = Log::default();
    let hook = causes.clone();
    let worker =
        Running::start(builder(&backend).on_dead_letter(FnDeadLetterHook::new(move |dead: DeadLetter| {
            note(&hook, dead.cause);
            std::future::ready(())
        })))
        .await;
    worker.until_ended(1).await;
    assert_eq!(noted(&causes), [DeadLetterCause::Undeliverable]);
    let reason = &backend.inner.dead_letters(Set::Work.name())[0].1;
    assert!(reason.starts_with("what was to follow can never be published: the broker refused"), "{reason}");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_delivery_is_lost_is_told_and_one_that_waits_is_dropped() {
    let backend = Faulty::new(|_| Fate::Passes);
    enqueue(&backend, false, 3).await;
    let (begun, told) = (Log::<()>::default(), Log::<()>::default());
    let state = (begun.clone(), told.clone());
    let handler = FnHandler::<Task, _>::with(
        state,
        async |(begun, told): (Log<()>, Log<()>), _job, ctx: JobContext| {
            note(&begun, ());
            ctx.cancelled().await;
            note(&told, ());
            Ok(())
        },
    );
    let builder = Worker::<Set>::builder(Arc::new(backend.clone())).handler(handler).concurrency(1);
    let worker = Running::start(builder).await;
    until("one runs, two wait", || {
        !noted(&begun).is_empty() && backend.inner.unsettled(Set::Work.name()) == 3
    })
    .await;
    backend.lose_all();
    until("it was told", || !noted(&told).is_empty()).await;
    // The two that waited were dropped unstarted; the broker hands them out anew.
    until("the next one runs", || noted(&begun).len() == 2).await;
    assert_eq!(noted(&told).len(), 1);
    backend.lose_all();
    until("the next one was told", || noted(&told).len() >= 2).await;
    worker.cut_off().await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_ignores_the_prefetch_is_not_let_run_ahead() {
    let backend = Faulty::new(|_| Fate::Passes);
    enqueue(&backend, false, 100).await;
    let most: Log<usize> = Log::default();
    let state = (most.clone(), backend.inner.clone());
    let handler =
        FnHandler::<Task, _>::with(state, async |(most, inner): (Log<usize>, MemoryBackend), _job, _ctx| {
            tokio::time::sleep(Duration::from_millis(10)).await;
            note(&most, inner.unsettled(Set::Work.name()));
            Ok(())
        });
    let builder = Worker::<Set>::builder(Arc::new(backend.clone())).handler(handler).concurrency(2);
    let worker = Running::start(builder).await;
    worker.until_ended(100).await;
    // The prefetch is 4; one more may have come, for a stream is asked for its end while it is full.
    assert!(noted(&most).into_iter().max().unwrap() <= 5, "{:?}", noted(&most));
    worker.stop().await;
}
