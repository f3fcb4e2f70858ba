//! Carries a verdict out: the hook hears of it, the delivery is settled, it is logged and counted.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tracing::{error, info, warn};

use crate::{
    BoxFuture,
    backend::{Delivery, SettleError},
    dead_letter::{DeadLetter, DeadLetterCause, Malformed},
    error::with_sources,
    retry::RetryPolicy,
    settlement::Settlement,
    worker::{
        attempt::message,
        judge::Verdict,
        plan::{Plan, QueuePlan},
        stats::count,
    },
};

/// How long a dead-letter hook is waited for.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a job is kept that nothing can become of, so that it does not go round without a pause.
const HAND_BACK_PAUSE: Duration = Duration::from_secs(5);

/// A deferral whose number is a multiple of this is worth a warning.
const MANY_DEFERRALS: u32 = 100;

/// Where a verdict is carried out.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) queue: &'a QueuePlan,
    /// What the job's policy allows, for the dead letter.
    pub(crate) max_attempts: u32,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(plan: &'a Plan, queue: usize) -> Self {
        let queue = &plan.queues[queue];
        Desk { plan, queue, max_attempts: queue.config.retry.max_attempts }
    }

    /// The same for a job under this policy.
    pub(crate) fn under(self, policy: &RetryPolicy) -> Self {
        Desk { max_attempts: policy.max_attempts.max(1), ..self }
    }
}

/// Carries a verdict out. One that can never succeed becomes a dead letter; a hand-back has another way.
pub(crate) async fn carry_out(desk: Desk<'_>, delivery: Box<dyn Delivery>, verdict: Verdict) {
    let is_hand_back = matches!(verdict.settlement, Settlement::Redeliver { .. });
    let Some((error, delivery)) = settle(desk, delivery, verdict).await else { return };
    if is_hand_back {
        warn!(error, "the job can't be published anew: the broker hands it out again, and counts that");
        return hand_back(desk.queue, delivery).await;
    }
    let reason = format!("what was to follow can never be published: {error}");
    let undeliverable = Verdict::dead(DeadLetterCause::Undeliverable, reason);
    let Some((error, delivery)) = settle(desk, delivery, undeliverable).await else { return };
    error!(error, "the dead letter can't be published either: the job is handed back in a while");
    tokio::select! {
        () = tokio::time::sleep(HAND_BACK_PAUSE) => {}
        () = desk.plan.shutdown.cancelled() => {}
    }
    hand_back(desk.queue, delivery).await;
}

/// Hands a delivery back as it is.
pub(crate) async fn hand_back(queue: &QueuePlan, delivery: Box<dyn Delivery>) {
    match delivery.settle(Settlement::Requeue).await {
        Ok(()) => count(&queue.counters.requeued),
        // Dropping a delivery that came back hands it back as well.
        Err(SettleError { error, .. }) => lost(queue, &with_sources(&error)),
    }
}

/// Settles once. Gives the delivery back where another settlement may still succeed.
async fn settle(
    desk: Desk<'_>,
    delivery: Box<dyn Delivery>,
    verdict: Verdict,
) -> Option<(String, Box<dyn Delivery>)> {
    if delivery.is_lost() {
        lost(desk.queue, "its channel is gone");
        return None;
    }
    announce(&verdict);
    if let Settlement::DeadLetter { cause, reason } = &verdict.settlement {
        let dead = DeadLetter {
            envelope: delivery.envelope().clone(),
            cause: *cause,
            reason: reason.clone(),
            max_attempts: desk.max_attempts,
        };
        tell_of_dead_letter(desk.plan, dead).await;
    }
    let counter = counter(desk.queue, &verdict.settlement);
    match delivery.settle(verdict.settlement).await {
        Ok(()) => {
            count(counter);
            None
        }
        Err(SettleError { error, delivery: Some(delivery) }) => Some((with_sources(&error), delivery)),
        Err(SettleError { error, delivery: None }) => {
            lost(desk.queue, &with_sources(&error));
            None
        }
    }
}

fn lost(queue: &QueuePlan, error: &str) {
    count(&queue.counters.settle_failures);
    error!(
        queue = queue.name,
        error, "delivery lost before it was settled: the broker will hand the job out again"
    );
}

fn counter<'a>(queue: &'a QueuePlan, settlement: &Settlement) -> &'a std::sync::atomic::AtomicU64 {
    let counters = &queue.counters;
    match settlement {
        Settlement::Ack => &counters.succeeded,
        Settlement::Discard => &counters.discarded,
        Settlement::Retry { .. } => &counters.retried,
        Settlement::Defer { .. } => &counters.deferred,
        Settlement::DeadLetter { cause, .. } => counters.dead(*cause),
        Settlement::Redeliver { .. } | Settlement::Requeue => &counters.requeued,
    }
}

/// Says in the log what becomes of the job; its span says which.
fn announce(Verdict { settlement, reason }: &Verdict) {
    match settlement {
        Settlement::Ack => info!("job succeeded"),
        Settlement::Discard => info!(reason, "job discarded"),
        Settlement::Retry { delay, .. } => warn!(reason, ?delay, "attempt failed, job will be retried"),
        Settlement::Defer { next, delay } if next.deferrals % MANY_DEFERRALS == 0 => {
            warn!(reason, ?delay, deferrals = next.deferrals, "job deferred many times");
        }
        Settlement::Defer { next, delay } => {
            info!(reason, ?delay, deferrals = next.deferrals, "job deferred");
        }
        Settlement::DeadLetter { cause, .. } => error!(%cause, reason, "job given up on: dead letter"),
        Settlement::Redeliver { .. } | Settlement::Requeue => info!(reason, "job handed back"),
    }
}

async fn tell_of_dead_letter(plan: &Plan, dead: DeadLetter) {
    if let Some(hook) = &plan.hook {
        guarded(|| hook.dead_letter(dead)).await;
    }
}

/// Reports a message that is no job.
pub(crate) async fn report_malformed(plan: &Plan, queue: &QueuePlan, malformed: Malformed) {
    count(&queue.counters.malformed);
    // The reason quotes the message, so it is left to the hook and the dead letter.
    let bytes = malformed.body.len();
    error!(queue = queue.name, bytes, "message is no job: put aside as a dead letter, with the reason");
    if let Some(hook) = &plan.hook {
        guarded(|| hook.malformed(malformed)).await;
    }
}

/// Awaits a hook. A panic or a timeout in it is logged, not obeyed.
async fn guarded<'a>(start: impl FnOnce() -> BoxFuture<'a, ()>) {
    let run = AssertUnwindSafe(async move {
        if tokio::time::timeout(HOOK_TIMEOUT, start()).await.is_err() {
            error!("dead-letter hook took longer than 30 s: gone on without it");
        }
    });
    if let Err(panic) = run.catch_unwind().await {
        error!(panic = message(panic), "dead-letter hook panicked: gone on without it");
    }
}
