//! One delivery from start to end.

use std::sync::Arc;

use tracing::{info, warn};
use uuid::Uuid;

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

/// A slot that is kept for the copy of a redelivery that is to run alone.
pub(crate) struct Reserved {
    pub(crate) job_id: Uuid,
    pub(crate) slot: Slot,
}

/// Finds the handler, admits the delivery, runs the job, judges and settles.
pub(crate) async fn dispatch(plan: Arc<Plan>, work: Work) -> Option<Reserved> {
    let Work { delivery, in_hand, slot, ticket: _ticket } = work;
    let queue = &plan.queues[in_hand.queue];
    let desk = Desk { plan: &plan, queue, max_attempts: queue.config.retry.max_attempts };

    let Some(registered) = plan.registry.find(&delivery.envelope().job_type) else {
        drop(slot);
        let reason = format!("no handler for job `{}` in this worker", delivery.envelope().job_type);
        carry_out(desk, delivery, Verdict::dead(DeadLetterCause::NoHandler, reason)).await;
        return None;
    };

    let desk = Desk { max_attempts: registered.policy.max_attempts, ..desk };
    let delivery = match admitted(desk, delivery).await {
        Admitted::Runs(delivery) => delivery,
        Admitted::Copied => return slot.is_alone().then_some(Reserved { job_id: in_hand.job_id, slot }),
        Admitted::Ended => return None,
    };

    let signals = Signals { shutdown: plan.shutdown.clone(), cut_off: None, delivery: Some(in_hand.clone()) };
    let (attempt, delivery) = match attempt::prepare(registered, queue.name, delivery.envelope(), signals) {
        Prepared::Over(attempt) => (attempt, delivery),
        Prepared::Ready(ready) => {
            let _running = Running::begin(&queue.counters);
            in_hand.hold(delivery);
            let attempt = ready.run(&plan.layers).await;
            // A shutdown that took the delivery back has handed it back: what the run came to is void.
            let delivery = in_hand.take()?;
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
    None
}

/// What an admission came to.
enum Admitted {
    /// It runs now.
    Runs(Box<dyn Delivery>),
    /// A copy that counts it comes next.
    Copied,
    /// It is out of this worker's hands.
    Ended,
}

async fn admitted(desk: Desk<'_>, delivery: Box<dyn Delivery>) -> Admitted {
    match admit(&*delivery, desk.queue.config.redelivery_limit) {
        Admission::Run => Admitted::Runs(delivery),
        Admission::Copy => copied(desk.queue, delivery).await,
        Admission::GiveUp { count } => {
            let reason = format!("delivered {count} times without being settled");
            carry_out(desk, delivery, Verdict::dead(DeadLetterCause::Redelivered, reason)).await;
            Admitted::Ended
        }
    }
}

/// Replaces a redelivery by a copy that counts it. Where that can't be done now, the delivery itself is run.
async fn copied(queue: &QueuePlan, delivery: Box<dyn Delivery>) -> Admitted {
    let next = delivery.envelope().redelivered();
    match delivery.settle(Settlement::Redeliver { next }).await {
        Ok(()) => Admitted::Copied,
        Err(SettleError { error, delivery: Some(delivery) }) => {
            warn!(error = with_sources(&error), "redelivery can't be counted now: run all the same");
            Admitted::Runs(delivery)
        }
        Err(SettleError { error, delivery: None }) => {
            warn!(error = with_sources(&error), "redelivery lost before it started");
            count(&queue.counters.settle_failures);
            Admitted::Ended
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
