//! S03, S06 and S09: a worker comes to its end in time, and loses nothing.

use super::*;
use tokio::time::Instant;

/// Declares the queue, the job and the handler of a case: a task sleeps as long as it says, and notes begin and end.
macro_rules! tasks {
    () => {
        queue_set!(Set { Work: |queue| queue.prefetch(10) });

        #[derive(Serialize, Deserialize, Job)]
        #[job(queue = Set::Work)]
        struct Task {
            seconds: u64,
        }

        #[allow(unused, reason = "not every case sleeps")]
        fn sleeper(log: &Log<&'static str>) -> impl JobHandler<Job = Task> + use<> {
            FnHandler::<Task, _>::with(log.clone(), async |log, job: Task, _ctx| {
                note(&log, "begun");
                tokio::time::sleep(Duration::from_secs(job.seconds)).await;
                note(&log, "ended");
                Ok(())
            })
        }

        #[allow(unused, reason = "not every case has jobs")]
        async fn enqueue(world: &World, seconds: &[u64]) {
            let producer = producer::<Set>(world).await;
            for seconds in seconds {
                producer.enqueue(&Task { seconds: *seconds }).await.unwrap();
            }
        }

        fn builder(world: &World) -> WorkerBuilder<Set> {
            Worker::<Set>::builder(world.backend.clone())
        }
    };
}

pub(crate) async fn s03_an_idle_worker_stops_at_once(world: World) {
    // S03 (a): idle worker.
    tasks!();
    let log = Log::default();
    let worker = Running::start(builder(&world).handler(sleeper(&log))).await;
    enqueue(&world, &[0]).await;
    worker.until_ended(1).await;
    let start = Instant::now();
    let report = worker.stop().await;
    assert!(start.elapsed() < Duration::from_secs(1) + world.slack);
    assert_eq!((report.returned, report.aborted.len()), (0, 0));
}

pub(crate) async fn s03_a_job_that_never_ends_is_cut_off_at_the_deadline(world: World) {
    // S03 (b): a job that never ends, and S06: abandoned work must really stop.
    tasks!();
    #[derive(Clone, Default)]
    struct Seen {
        ticks: Log<()>,
        cancelled: Log<Instant>,
        dropped: Log<Instant>,
    }
    struct Guard(Log<Instant>);
    impl Drop for Guard {
        fn drop(&mut self) {
            note(&self.0, Instant::now());
        }
    }
    let seen = Seen::default();
    let handler = FnHandler::<Task, _>::with(seen.clone(), async |seen: Seen, _job, ctx: JobContext| {
        let _guard = Guard(seen.dropped.clone());
        let (cancelled, at) = (ctx.cancelled(), seen.cancelled.clone());
        tokio::spawn(async move {
            cancelled.await;
            note(&at, Instant::now());
        });
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            note(&seen.ticks, ());
        }
    });
    enqueue(&world, &[0]).await;
    let worker =
        Running::start(builder(&world).shutdown_timeout(Duration::from_secs(1)).handler(handler)).await;
    until("it runs", || noted(&seen.ticks).len() > 2).await;
    let start = Instant::now();
    let report = worker.stop().await;
    assert!(
        start.elapsed() >= Duration::from_secs(1) && start.elapsed() < Duration::from_secs(2) + world.slack
    );
    assert_eq!(report.aborted.len(), 1);
    let ticks = noted(&seen.ticks).len();
    let (cancelled, dropped) = (noted(&seen.cancelled), noted(&seen.dropped));
    assert_eq!((cancelled.len(), dropped.len()), (1, 1));
    assert!(cancelled[0] < dropped[0], "the hint comes before the end");
    // A second worker takes the job over.
    let log = Log::default();
    let second = Running::start(builder(&world).handler(sleeper(&log))).await;
    second.until_ended(1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(noted(&seen.ticks).len(), ticks, "nothing goes on after run() has returned");
    assert_eq!(second.stats().started, 1);
    second.stop().await;
}

pub(crate) async fn running_jobs_finish_and_waiting_ones_go_back(world: World) {
    // S04: prefetched but not started.
    tasks!();
    let log = Log::default();
    enqueue(&world, &[1; 20]).await;
    let worker = || builder(&world).concurrency(2).handler(sleeper(&log));
    let first = Running::start(worker()).await;
    until("two run", || noted(&log).len() == 2).await;
    queuey_tests::eventually("the prefetch is full", || async {
        world.operator.ready(Set::Work.name()).await == 10
    })
    .await;
    let report = first.stop().await;
    assert_eq!((report.finished, report.aborted.len()), (2, 0));
    assert!((1..=8).contains(&report.returned), "the rest of the prefetch: {}", report.returned);
    let second = Running::start(worker()).await;
    second.until_ended(18).await;
    assert_eq!(noted(&log).iter().filter(|entry| **entry == "ended").count(), 20, "each once");
    second.stop().await;
}

pub(crate) async fn a_failure_after_the_stop_is_handed_back_and_spends_no_attempt(world: World) {
    tasks!();
    let log: Log<u32> = Log::default();
    let handler = || {
        FnHandler::<Task, _>::with(log.clone(), async |log: Log<_>, _job, ctx: JobContext| {
            note(&log, ctx.attempt);
            if noted(&log).len() == 1 {
                ctx.cancelled().await;
                return Err(JobError::retryable_msg("interrupted"));
            }
            Ok(())
        })
    };
    enqueue(&world, &[0]).await;
    let worker = Running::start(builder(&world).handler(handler())).await;
    until("it runs", || noted(&log).len() == 1).await;
    let handle = worker.handle.clone();
    worker.stop().await;
    assert_eq!((handle.stats().requeued, handle.stats().dead_total()), (1, 0));
    let worker = Running::start(builder(&world).handler(handler())).await;
    worker.until_ended(1).await;
    assert_eq!(noted(&log), [1, 1]);
    worker.stop().await;
}

pub(crate) async fn s09_a_stop_works_at_any_time_and_from_anywhere(world: World) {
    // S09: impatient operator.
    tasks!();
    let log = Log::default();
    // Before run().
    let worker = builder(&world).handler(sleeper(&log)).build().await.unwrap();
    worker.handle().shutdown();
    assert!(worker.handle().is_shutdown());
    assert_eq!(worker.run().await.unwrap(), queuey::RunReport::default());
    // From ten tasks at once, and again.
    let worker = Running::start(builder(&world).handler(sleeper(&log))).await;
    let stops = (0..10).map(|_| {
        let handle = worker.handle.clone();
        tokio::spawn(async move { handle.shutdown() })
    });
    for stop in stops.collect::<Vec<_>>() {
        stop.await.unwrap();
    }
    worker.handle.shutdown();
    let start = Instant::now();
    worker.stop().await;
    assert!(start.elapsed() < Duration::from_secs(1) + world.slack);
    // From inside a handler, and from the hook of a dead letter.
    let handle: Arc<std::sync::OnceLock<WorkerHandle>> = Arc::default();
    for fatal in [false, true] {
        let state = (handle.clone(), fatal);
        type State = (Arc<std::sync::OnceLock<WorkerHandle>>, bool);
        let handler = FnHandler::<Task, _>::with(state, async |(handle, fatal): State, _job, _ctx| {
            if fatal {
                return Err(JobError::fatal_msg("the hook stops it"));
            }
            handle.get().expect("set before the job").shutdown();
            Ok(())
        });
        let hook = handle.clone();
        let worker = builder(&world)
            .handler(handler)
            .on_dead_letter(FnDeadLetterHook::new(move |_| {
                hook.get().expect("set before the job").shutdown();
                std::future::ready(())
            }))
            .build()
            .await
            .unwrap();
        // The first worker's handle stops the first, and that of the second is set anew.
        let own = worker.handle();
        let _ = handle.set(own.clone());
        enqueue(&world, &[0]).await;
        if fatal {
            let stop = async { until("given up", || own.stats().dead_total() == 1).await };
            worker.run_until(stop).await.unwrap();
        } else {
            worker.run().await.unwrap();
        }
    }
}

pub(crate) async fn s09_a_run_that_is_dropped_gives_everything_back(world: World) {
    // S09: drop the run future instead of calling shutdown.
    tasks!();
    let log = Log::default();
    enqueue(&world, &[60; 15]).await;
    let worker = Running::start(builder(&world).concurrency(3).handler(sleeper(&log))).await;
    until("three run", || noted(&log).len() == 3).await;
    worker.cut_off().await;
    let quick = Log::default();
    let handler = FnHandler::<Task, _>::with(quick.clone(), async |quick, _job, _ctx| {
        note(&quick, ());
        Ok(())
    });
    let second = Running::start(builder(&world).handler(handler)).await;
    second.until_ended(15).await;
    assert_eq!(noted(&quick).len(), 15);
    second.stop().await;
}

pub(crate) async fn a_worker_whose_backend_closes_ends_with_an_error(world: World) {
    tasks!();
    let log = Log::default();
    let worker = Running::start(builder(&world).handler(sleeper(&log))).await;
    enqueue(&world, &[3600]).await;
    until("it runs", || !noted(&log).is_empty()).await;
    world.backend.close().await.unwrap();
    let handle = worker.handle.clone();
    tokio::time::timeout(Duration::from_secs(40), async {
        let error = worker.join().await.expect_err("it ended well");
        assert!(
            matches!(&error, queuey::Error::ConsumerStopped(queue) if *queue == Set::Work.name()),
            "{error}"
        );
    })
    .await
    .expect("within the drain limit");
    assert!(handle.is_shutdown());
}

pub(crate) async fn a_worker_that_stops_before_it_runs_closes_its_backend_too(world: World) {
    tasks!();
    let log = Log::default();
    let worker =
        builder(&world).handler(sleeper(&log)).close_backend_on_shutdown(true).build().await.unwrap();
    worker.handle().shutdown();
    worker.run().await.unwrap();
    assert!(!world.backend.health().await.connected);
}

pub(crate) async fn what_a_handler_spawned_is_told_when_the_run_is_dropped(world: World) {
    tasks!();
    let told = Log::default();
    let handler = FnHandler::<Task, _>::with(told.clone(), async |told: Log<()>, _job, ctx: JobContext| {
        tokio::spawn(async move {
            ctx.cancelled().await;
            note(&told, ());
        });
        std::future::pending().await
    });
    enqueue(&world, &[0]).await;
    let worker = Running::start(builder(&world).handler(handler)).await;
    until("it runs", || worker.stats().in_flight == 1).await;
    worker.cut_off().await;
    until("it was told", || !noted(&told).is_empty()).await;
}
