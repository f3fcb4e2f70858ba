#![deny(warnings)]

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU8, Ordering},
    },
};

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum Set {
    Work,
}

macro_rules! jobs {
    ($($job:ident),*) => {
        $(#[derive(Serialize, Deserialize, Job)] #[job(queue = Set::Work)] struct $job { number: u8 })*
    };
}

jobs!(Alone, Context, Many, Patterns, Twice, Elided);

#[derive(Clone)]
struct Mailer;

#[derive(Clone, Copy)]
struct Limits(u8, u8);

static RUNS: AtomicU8 = AtomicU8::new(0);

#[handler]
async fn alone(job: Alone) {
    RUNS.fetch_add(job.number, Ordering::Relaxed);
}

#[handler]
async fn context(mut job: Context, ctx: JobContext) {
    job.number += ctx.attempt as u8;
    RUNS.fetch_add(job.number, Ordering::Relaxed);
}

#[handler]
async fn many(
    job: Many,
    State(Mailer): State<Mailer>,
    ctx: JobContext,
    State(shared): State<Arc<Mutex<HashMap<u8, String>>>>,
    again: JobContext,
    State(function): State<fn(u8) -> u8>,
    State((text, number)): State<(String, u16)>,
) -> Result<(), JobError> {
    assert_eq!(ctx.job_id, again.job_id);
    shared.lock().unwrap().insert(job.number, text);
    RUNS.fetch_add(function(job.number) + number as u8, Ordering::Relaxed);
    Ok(())
}

#[handler]
async fn patterns(
    Patterns { number }: Patterns,
    #[allow(unused_variables)] ctx: JobContext,
    State(Limits(low, _)): State<Limits>,
) {
    RUNS.fetch_add(number + low, Ordering::Relaxed);
}

#[handler]
async fn twice(_: Twice, State(one): State<Limits>, two: State<Limits>) {
    RUNS.fetch_add(one.0 + two.0.0, Ordering::Relaxed);
}

#[handler]
async fn elided(_: Elided, State(text): State<Cow<'_, str>>) {
    RUNS.fetch_add(text.len() as u8, Ordering::Relaxed);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> queuey::Result<()> {
    let backend = Arc::new(MemoryBackend::new());
    let producer = Producer::<Set>::new(backend.clone()).await?;
    producer.enqueue(&Alone { number: 1 }).await?;
    producer.enqueue(&Context { number: 1 }).await?;
    producer.enqueue(&Many { number: 1 }).await?;
    producer.enqueue(&Patterns { number: 1 }).await?;
    producer.enqueue(&Twice { number: 1 }).await?;
    producer.enqueue(&Elided { number: 1 }).await?;
    let shared = Arc::new(Mutex::new(HashMap::<u8, String>::new()));
    let worker = Worker::<Set>::builder(backend)
        .discover_handlers()
        .state(Mailer)
        .state(shared.clone())
        .state((|number| number * 10) as fn(u8) -> u8)
        .state(("text".to_owned(), 5_u16))
        .state(Limits(3, 4))
        .state(Cow::Borrowed("four"))
        .build()
        .await?;
    let handle = worker.handle();
    let done = async {
        while handle.stats().succeeded < 6 {
            tokio::task::yield_now().await;
        }
    };
    worker.run_until(done).await?;
    assert_eq!(RUNS.load(Ordering::Relaxed), 1 + 2 + 15 + 4 + 6 + 4);
    assert_eq!(shared.lock().unwrap()[&1], "text");
    Ok(())
}
