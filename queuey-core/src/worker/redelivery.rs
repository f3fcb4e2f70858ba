//! What a delivery that was handed out before is owed: a count that survives the worker, an end, and no neighbours to
//! take down. Pure.

use crate::backend::Delivery;

/// How a delivery that is about to start goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It runs.
    Run,
    /// A copy with a higher count takes its place, so that a crash is not forgotten.
    Copy,
    /// It came back this often, which is more than its limit.
    GiveUp { count: u32 },
}

/// Decides by the queue's `redelivery_limit`.
pub(crate) fn admit(delivery: &dyn Delivery, limit: Option<u32>) -> Admission {
    let Some(limit) = limit else { return Admission::Run };
    match count(delivery) {
        count if count > limit => Admission::GiveUp { count },
        _ if delivery.redelivered() && delivery.delivery_count().is_none() => Admission::Copy,
        _ => Admission::Run,
    }
}

/// Whether it may be this job that kills its workers: from half of the limit on it runs alone. Past the limit it does
/// not run at all.
pub(crate) fn runs_alone(delivery: &dyn Delivery, limit: Option<u32>) -> bool {
    let count = count(delivery);
    limit.is_some_and(|limit| (1..=limit).contains(&count) && u64::from(count) * 2 >= u64::from(limit))
}

/// How often it was handed out before and never settled: as the broker counts, else as its envelope says, with the
/// one time that is not on it yet.
fn count(delivery: &dyn Delivery) -> u32 {
    delivery
        .delivery_count()
        .unwrap_or_else(|| delivery.envelope().redeliveries.saturating_add(u32::from(delivery.redelivered())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxFuture, backend::SettleError, envelope::Envelope, settlement::Settlement};

    struct Given(Envelope, bool, Option<u32>);

    impl Delivery for Given {
        fn envelope(&self) -> &Envelope {
            &self.0
        }
        fn redelivered(&self) -> bool {
            self.1
        }
        fn delivery_count(&self) -> Option<u32> {
            self.2
        }
        fn settle(self: Box<Self>, _: Settlement) -> BoxFuture<'static, Result<(), SettleError>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[test]
    fn a_redelivery_is_copied_isolated_from_half_its_limit_and_ended_past_it() {
        use Admission::{Copy, GiveUp, Run};
        let table = [
            (0, false, None, Some(20), Run, false),
            (0, true, None, Some(20), Copy, false),
            (8, true, None, Some(20), Copy, false),
            (9, true, None, Some(20), Copy, true),
            (10, false, None, Some(20), Run, true),
            (19, true, None, Some(20), Copy, true),
            (20, false, None, Some(20), Run, true),
            (20, true, None, Some(20), GiveUp { count: 21 }, false),
            (0, true, None, Some(1), Copy, true),
            (1, true, None, Some(1), GiveUp { count: 2 }, false),
            (99, true, None, None, Run, false),
            (0, true, Some(5), Some(20), Run, false),
            (0, true, Some(10), Some(20), Run, true),
            (0, true, Some(21), Some(20), GiveUp { count: 21 }, false),
            (u32::MAX, true, None, Some(u32::MAX), Copy, true),
        ];
        for (redeliveries, redelivered, counted, limit, admission, alone) in table {
            let mut envelope = Envelope::raw("job", "q", Default::default());
            envelope.redeliveries = redeliveries;
            let delivery = Given(envelope, redelivered, counted);
            let said = format!("{redeliveries} {redelivered} {counted:?} {limit:?}");
            assert_eq!(admit(&delivery, limit), admission, "{said}");
            assert_eq!(runs_alone(&delivery, limit), alone, "{said}");
        }
    }
}
