//! Jobs that take their process down, as far as one process can show it; and handlers that block their thread.

use std::time::Duration;

use queuey_tests::{Running, queue_set, until};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_job_that_aborts_is_dead_lettered_at_its_limit_and_its_slow_neighbours_finish() {
    queue_set!(Set { Work: |queue| queue.redelivery_limit(6) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Task {
        aborts: bool,
    }
    let (crash, finished) = (Log::<()>::default(), Log::<()>::default());
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await.unwrap();
    for number in 0..8 {
        producer.enqueue(&Task { aborts: number == 3 }).await.unwrap();
    }
    for crashes in 1.. {
        let state = (crash.clone(), finished.clone());
        let handler =
            FnHandler::<Task, _>::with(state, async |(crash, finished): (Log<()>, Log<()>), job: Task, _| {
                if job.aborts {
                    note(&crash, ());
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(Duration::from_secs(3)).await;
                note(&finished, ());
                Ok(())
            });
        let worker = Running::start(Worker::<Set>::builder(backend.clone()).handler(handler)).await;
        let dead = || backend.dead_letters(Set::Work.name()).len();
        until("it crashes again, or all is over", || {
            noted(&crash).len() == crashes || (dead() > 0 && noted(&finished).len() == 7)
        })
        .await;
        if noted(&crash).len() < crashes {
            worker.stop().await;
            break;
        }
        // The process is gone: every delivery in its hands comes back unsettled.
        worker.cut_off().await;
    }
    assert_eq!(noted(&crash).len(), 7, "its first run, and one for each redelivery within the limit");
    let dead = backend.dead_letters(Set::Work.name());
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].1, "delivered 7 times without being settled");
    assert!(dead[0].0.decode::<Task>().unwrap().aborts);
    assert_eq!(noted(&finished).len(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_is_handed_back_all_the_same() {
    // S03 (c): handler blocked in a thread sleep. A blocked thread can't be aborted; its job can be handed back.
    queue_set!(Set { Work });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work)]
    struct Blocks;
    let (begun, release) = (Log::<()>::default(), Arc::new(std::sync::Barrier::new(2)));
    let state = (begun.clone(), release.clone());
    type State = (Log<()>, Arc<std::sync::Barrier>);
    let handler = FnHandler::<Blocks, _>::with(state, async |(begun, release): State, _job, _ctx| {
        note(&begun, ());
        release.wait();
        Ok(())
    });
    let backend = Arc::new(MemoryBackend::new());
    Producer::<Set>::new(backend.clone()).await.unwrap().enqueue(&Blocks).await.unwrap();
    let builder = Worker::<Set>::builder(backend.clone()).shutdown_timeout(Duration::from_millis(100));
    let worker = Running::start(builder.handler(handler)).await;
    until("it blocks", || !noted(&begun).is_empty()).await;
    let report = worker.stop().await;
    // The thread is blocked still.
    assert_eq!(report.aborted.len(), 1);
    let pending = backend.pending(Set::Work.name());
    assert_eq!(pending.iter().map(|envelope| envelope.job_id).collect::<Vec<_>>(), report.aborted);
    tokio::task::spawn_blocking(move || release.wait()).await.unwrap();
    assert!(backend.acked().is_empty(), "what it came to is void");
}
