//! P02 and P10: old and new releases side by side.

use super::*;
use queuey::Envelope;
use serde_json::value::RawValue;

pub(crate) async fn p02_a_job_this_worker_does_not_know_is_kept(world: World) {
    // P02: job type this worker does not know.
    queue_set!(Set { Work: |queue| queue.prefetch(2).retry(RetryPolicy::fixed(5, Duration::from_secs(1))) });
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "old")]
    struct Old;
    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "new")]
    struct New;
    let v1 = || {
        Worker::<Set>::builder(world.backend.clone()).handler(FnHandler::<Old, _>::new(async |_, _| Ok(())))
    };
    let v2 = || v1().handler(FnHandler::<New, _>::new(async |_, _| Ok(())));
    let (first, second) = (Running::start(v1()).await, Running::start(v2()).await);
    let producer = producer::<Set>(&world).await;
    for _ in 0..20 {
        producer.enqueue(&Old).await.unwrap();
        producer.enqueue(&New).await.unwrap();
    }
    until("all 40 are handled or kept", || first.ended() + second.ended() == 40).await;
    let kept = first.stats().dead.get("no-handler").copied().unwrap_or(0);
    let dead = world.operator.dead(Set::Work.name()).await;
    assert_eq!(dead.len() as u64, kept);
    let v1_did = first.stats().succeeded;
    first.stop().await;
    for letter in dead {
        assert_eq!(letter.reason, "no handler for job `new` in this worker");
        let envelope = Envelope::from_bytes(&letter.body).unwrap();
        assert_eq!(envelope.attempt, 1, "no attempt is spent");
        world.backend.publish(&envelope, None).await.unwrap();
    }
    until("the replay is done", || v1_did + second.stats().succeeded + kept_by(&second) >= 40).await;
    second.stop().await;
}

fn kept_by(worker: &Running) -> u64 {
    worker.stats().dead.get("no-handler").copied().unwrap_or(0)
}

/// Puts a payload on the queue as another release would have.
async fn publish_as(world: &World, job: &str, queue: &str, payload: &str) {
    let payload = RawValue::from_string(payload.to_owned()).unwrap();
    world.backend.publish(&Envelope::raw(job, queue, payload), None).await.unwrap();
}

pub(crate) async fn p10_a_payload_of_another_release_runs_or_is_kept_undamaged(world: World) {
    // P10: payload shape changes between deploys.
    queue_set!(Set { Work: |queue| queue.retry(RetryPolicy::fixed(5, Duration::from_secs(1))) });
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Job)]
    #[job(queue = Set::Work, name = "order")]
    struct Order {
        id: u32,
        #[serde(default)]
        gift: bool,
        #[serde(alias = "user")]
        customer: String,
        kind: Kind,
    }
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Online,
        Shop,
    }
    let handled: Log<Order> = Log::default();
    let handler = FnHandler::<Order, _>::with(handled.clone(), async |handled, job, _ctx| {
        note(&handled, job);
        Ok(())
    });
    let worker = Running::start(Worker::<Set>::builder(world.backend.clone()).handler(handler)).await;
    let queue = Set::Work.name();
    let readable = [
        r#"{"id":1,"gift":true,"customer":"ada","kind":"Online"}"#,
        r#"{"id":2,"customer":"ada","kind":"Shop"}"#,
        r#"{"id":3,"user":"ada","kind":"Shop","removed":[1,2]}"#,
    ];
    let unreadable = [
        r#"{"id":4,"kind":"Shop"}"#,
        r#"{"id":5,"customer":"ada","kind":"Kiosk"}"#,
        r#"{"id":"6","customer":"ada","kind":"Shop"}"#,
        "null",
    ];
    for payload in readable.iter().chain(&unreadable) {
        publish_as(&world, Order::NAME, queue, payload).await;
    }
    worker.until_ended(7).await;
    let mut ids: Vec<u32> = noted(&handled).iter().map(|order| order.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3]);
    let stats = worker.stats();
    assert_eq!((stats.dead["decode"], stats.retried), (4, 0), "what can't be read is not tried again");
    let mut kept: Vec<String> = world
        .operator
        .dead(queue)
        .await
        .iter()
        .map(|letter| Envelope::from_bytes(&letter.body).unwrap().payload.get().to_owned())
        .collect();
    kept.sort_unstable();
    let mut expected = unreadable.map(str::to_owned);
    expected.sort_unstable();
    assert_eq!(kept, expected);
    worker.stop().await;
}
