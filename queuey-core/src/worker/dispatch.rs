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
        attempt::{self, Prepared},
        in_hand::InHand,
        judge::{Case, Verdict, judge},
        plan::{Plan, QueuePlan},
        receive::Ticket,
        redelivery::{Admission, admit},
        settle::{Desk, carry_out},
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

/// Finds the handler, admits the delivery, runs the job, judges and settles.
pub(crate) async fn dispatch(plan: Arc<Plan>, work: Work) {
    let Work { delivery, in_hand, slot, ticket: _ticket } = work;
    let queue = &plan.queues[in_hand.queue];
    let desk = Desk { plan: &plan, queue, max_attempts: queue.config.retry.max_attempts };

    let Some(registered) = plan.registry.find(&delivery.envelope().job_type) else {
        drop(slot);
        let reason = format!("no handler for job `{}` in this worker", delivery.envelope().job_type);
        return carry_out(desk, delivery, Verdict::dead(DeadLetterCause::NoHandler, reason)).await;
    };

    let desk = Desk { max_attempts: registered.policy.max_attempts, ..desk };
    let Some(delivery) = admitted(desk, delivery).await else { return };

    let signals = Signals { shutdown: plan.shutdown.clone(), cut_off: None, delivery: Some(in_hand.clone()) };
    let (attempt, delivery) = match attempt::prepare(registered, queue.name, delivery.envelope(), signals) {
        Prepared::Over(attempt) => (attempt, delivery),
        Prepared::Ready(ready) => {
            let _running = Running::begin(&queue.counters);
            in_hand.hold(delivery);
            let attempt = ready.run(&plan.layers).await;
            // A shutdown that took the delivery back has handed it back: what the run came to is void.
            let Some(delivery) = in_hand.take() else { return };
            (attempt, delivery)
        }
    };
    drop(slot);

    let case = Case {
        envelope: delivery.envelope(),
        policy: &attempt.policy,
        max_deferrals: registered.max_deferrals,
        deferral_priority: queue.config.deferral_priority(),
        stopping: plan.shutdown.is_cancelled(),
        age: delivery.envelope().age(),
        random: fastrand::f64(),
    };
    let desk = Desk { max_attempts: attempt.policy.max_attempts, ..desk };
    let verdict = judge(&case, attempt.outcome);

    carry_out(desk, delivery, verdict).await;
}

/// The delivery, if it is to run now. Else it became a copy that comes next, or a dead letter.
async fn admitted(desk: Desk<'_>, delivery: Box<dyn Delivery>) -> Option<Box<dyn Delivery>> {
    match admit(&*delivery, desk.queue.config.redelivery_limit) {
        Admission::Run => Some(delivery),
        Admission::Copy => copied(desk.queue, delivery).await,
        Admission::GiveUp { count } => {
            let reason = format!("delivered {count} times without being settled");
            carry_out(desk, delivery, Verdict::dead(DeadLetterCause::Redelivered, reason)).await;
            None
        }
    }
}

/// Replaces a redelivery by a copy that counts it. Where that can't be done now, the delivery itself is run.
async fn copied(queue: &QueuePlan, delivery: Box<dyn Delivery>) -> Option<Box<dyn Delivery>> {
    let next = delivery.envelope().redelivered();
    match delivery.settle(Settlement::Redeliver { next }).await {
        Ok(()) => None,
        Err(SettleError { error, delivery: Some(delivery) }) => {
            warn!(error = with_sources(&error), "redelivery can't be counted now: run all the same");
            Some(delivery)
        }
        Err(SettleError { error, delivery: None }) => {
            warn!(error = with_sources(&error), "redelivery lost before it started");
            count(&queue.counters.settle_failures);
            None
        }
    }
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
