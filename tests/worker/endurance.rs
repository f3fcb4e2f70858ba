//! Ten thousand jobs that go wrong leave the worker as it was.

use queuey_tests::{Running, queue_set, until};

use super::*;

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn jobs_that_panic_time_out_or_panic_in_their_hook_leave_nothing_behind() {
    queue_set!(Set { Work: |queue| queue.prefetch(100) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, timeout = "1s")]
    struct Bad {
        number: u32,
    }
    let handler = FnHandler::<Bad, _>::new(async |job, _ctx| match job.number % 3 {
        0 => panic!("bad"),
        1 => std::future::pending().await,
        _ => Err(JobError::fatal_msg("its hook panics")),
    });
    let hook = FnDeadLetterHook::new(async |dead: DeadLetter| {
        if dead.cause == DeadLetterCause::Fatal {
            panic!("bad hook");
        }
    });
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    let builder =
        Worker::<Set>::builder(backend.clone()).handler(handler).on_dead_letter(hook).concurrency(10);
    let worker = Running::start(builder).await;
    until("the worker is idle", || backend.unsettled(Set::Work.name()) == 0).await;
    let before = tasks();
    for number in 0..10_000 {
        producer.enqueue(&Bad { number }).await.unwrap();
    }
    until("all have ended", || worker.ended() == 10_000).await;
    until("no task is left behind", || tasks() == before).await;
    let stats = worker.stats();
    assert_eq!((stats.in_flight, stats.dead["exhausted"], stats.dead["fatal"]), (0, 6_667, 3_333));
    assert_eq!(backend.dead_letters(Set::Work.name()).len(), 10_000);

    // All ten slots are still there.
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Good;
    worker.stop().await;
    let together = Arc::new(tokio::sync::Barrier::new(10));
    let handler = FnHandler::<Good, _>::with(together, async |together, _job, _ctx| {
        together.wait().await;
        Ok(())
    });
    let worker = Running::start(Worker::<Set>::builder(backend).handler(handler).concurrency(10)).await;
    for _ in 0..10 {
        producer.enqueue(&Good).await.unwrap();
    }
    worker.until_ended(10).await;
    worker.stop().await;
}
