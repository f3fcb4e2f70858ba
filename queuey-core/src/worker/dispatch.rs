//! One delivery from start to end.

use std::sync::Arc;

use tracing::{info, warn};

use crate::{
    backend::{Delivery, SettleError},
    context::Signals,
    dead_letter::DeadLetterCause,
    error::with_sources,
    settlement::Settlement,
    worker::{
        attempt::{self, Attempt, Prepared},
        in_hand::InHand,
        judge::{Case, Verdict, judge},
        plan::Plan,
        receive::Ticket,
        redelivery::{Admission, admit},
        registry::Registered,
        settle::{Desk, carry_out, hand_back},
        slots::Slot,
        stats::{Counters, count},
    },
};

/// A delivery that is to start, and what it holds while it is under way.
pub(crate) struct Work {
    pub(crate) delivery: Box<dyn Delivery>,
    pub(crate) in_hand: Arc<InHand>,
    /// A place to run; given back before the delivery is settled.
    pub(crate) slot: Slot,
    /// Its place in the prefetch; given back when all is done.
    pub(crate) ticket: Ticket,
}

/// How a delivery that started came to its end.
pub(crate) enum Ended {
    /// Its job ran and was settled.
    Ran,
    /// A copy takes its place; the slot was taken for both.
    Copied(Slot),
    /// It ended without a run, or what the run came to is void.
    Unrun,
}

/// Finds the handler, admits the delivery, runs the job, judges and settles.
pub(crate) async fn dispatch(plan: Arc<Plan>, work: Work) -> Ended {
    let Work { delivery, in_hand, slot, ticket: _ticket } = work;
    let desk = Desk::new(&plan, in_hand.queue);
    let Some(registered) = plan.registry.find(&delivery.envelope().job_type) else {
        drop(slot);
        return unhandled(desk, delivery).await;
    };
    let desk = desk.under(&registered.policy);
    let (delivery, slot) = match admitted(desk, delivery, slot).await {
        Admitted::Runs(delivery, slot) => (delivery, slot),
        Admitted::Ends(ended) => return ended,
    };
    let Some((attempt, delivery)) = attempted(desk, registered, &in_hand, delivery).await else {
        return Ended::Unrun;
    };
    drop(slot);
    let desk = desk.under(&attempt.policy);
    let verdict = judged(desk, registered, &*delivery, attempt);
    carry_out(desk, delivery, verdict).await;
    Ended::Ran
}

async fn unhandled(desk: Desk<'_>, delivery: Box<dyn Delivery>) -> Ended {
    let reason = format!("no handler for job `{}` in this worker", delivery.envelope().job_type);
    carry_out(desk, delivery, Verdict::dead(DeadLetterCause::NoHandler, reason)).await;
    Ended::Unrun
}

/// What an admission came to.
enum Admitted {
    Runs(Box<dyn Delivery>, Slot),
    Ends(Ended),
}

async fn admitted(desk: Desk<'_>, delivery: Box<dyn Delivery>, slot: Slot) -> Admitted {
    match admit(&*delivery, desk.queue.config.redelivery_limit) {
        Admission::Run => Admitted::Runs(delivery, slot),
        Admission::Copy => copied(desk, delivery, slot).await,
        Admission::GiveUp { count } => {
            drop(slot);
            let reason = format!("delivered {count} times without being settled");
            carry_out(desk, delivery, Verdict::dead(DeadLetterCause::Redelivered, reason)).await;
            Admitted::Ends(Ended::Unrun)
        }
    }
}

/// Replaces a redelivery by a copy that counts it. Where that can't be done now, the delivery itself is run.
async fn copied(desk: Desk<'_>, delivery: Box<dyn Delivery>, slot: Slot) -> Admitted {
    let next = delivery.envelope().redelivered();
    let (error, delivery) = match delivery.settle(Settlement::Redeliver { next }).await {
        Ok(()) => return Admitted::Ends(Ended::Copied(slot)),
        Err(SettleError { error, delivery }) => (with_sources(&error), delivery),
    };
    let Some(delivery) = delivery else {
        warn!(error, "redelivery lost before it started");
        count(&desk.queue.counters.settle_failures);
        return Admitted::Ends(Ended::Unrun);
    };
    if desk.plan.shutdown.is_cancelled() {
        // Nothing starts after the stop.
        drop(slot);
        hand_back(desk.queue, delivery).await;
        return Admitted::Ends(Ended::Unrun);
    }
    warn!(error, "redelivery can't be counted now: run all the same");
    Admitted::Runs(delivery, slot)
}

/// Runs the job. A shutdown that took the delivery back has handed it back: then what the run came to is void.
async fn attempted<'a>(
    desk: Desk<'a>,
    registered: &'a Registered,
    in_hand: &Arc<InHand>,
    delivery: Box<dyn Delivery>,
) -> Option<(Attempt<'a>, Box<dyn Delivery>)> {
    let shutdown = desk.plan.shutdown.clone();
    let signals = Signals { shutdown, cut_off: None, delivery: Some(in_hand.clone()) };
    match attempt::prepare(registered, desk.queue.name, &*delivery, signals) {
        Prepared::Over(attempt) => Some((attempt, delivery)),
        Prepared::Ready(ready) => {
            let _running = Running::begin(&desk.queue.counters);
            in_hand.hold(delivery);
            let attempt = ready.run(&desk.plan.layers).await;
            Some((attempt, in_hand.take()?))
        }
    }
}

fn judged(desk: Desk<'_>, registered: &Registered, delivery: &dyn Delivery, attempt: Attempt<'_>) -> Verdict {
    let case = Case {
        envelope: delivery.envelope(),
        policy: &attempt.policy,
        max_deferrals: registered.max_deferrals,
        deferral_priority: desk.queue.config.deferral_priority(),
        stopping: desk.plan.shutdown.is_cancelled(),
        age: delivery.envelope().age(),
        random: fastrand::f64(),
    };
    judge(&case, attempt.outcome)
}

/// Counts a run from its start to its end, however it ends.
struct Running<'a>(&'a Counters);

impl<'a> Running<'a> {
    fn begin(counters: &'a Counters) -> Self {
        info!("job started");
        count(&counters.started);
        Running(counters)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        count(&self.0.ended);
    }
}
