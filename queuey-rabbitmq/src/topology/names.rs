//! The names of the queues that belong to a queue, and the times that hold queues can keep.

use std::time::Duration;

/// The longest `x-message-ttl` and `x-expires` in use here: 32 bits of milliseconds.
pub const MAX_TTL_MS: u32 = u32::MAX;

/// The longest hold: `x-expires` is twice that, and stays a 32-bit number.
pub const MAX_DEFERRAL_MS: u32 = u32::MAX / 2;

/// The shortest hold. A hold queue lives for twice its time after its last declare, and with less than that a publish
/// could not be trusted to reach it in time.
pub(crate) const MIN_HOLD_MS: u32 = 100;

/// The name of the queue that keeps the dead letters of `queue`; the suffix is `.dead` unless configured.
///
/// ```
/// assert_eq!(queuey_rabbitmq::topology::dead_queue_name("emails", ".dead"), "emails.dead");
/// ```
#[must_use]
pub fn dead_queue_name(queue: &str, suffix: &str) -> String {
    format!("{queue}{suffix}")
}

/// The name of the queue that holds jobs for `queue` for this long; the suffix is `.deferred` unless configured.
///
/// ```
/// assert_eq!(
///     queuey_rabbitmq::topology::deferred_queue_name("emails", ".deferred", 30_000),
///     "emails.deferred.30000"
/// );
/// ```
#[must_use]
pub fn deferred_queue_name(queue: &str, suffix: &str, ttl_ms: u32) -> String {
    format!("{queue}{suffix}.{ttl_ms}")
}

/// How long a job is held that asks for `delay`: rounded up to the granularity (zero counts as a millisecond), at least
/// one granularity and 100 ms. `None` for what no hold queue can keep.
///
/// ```
/// use std::time::Duration;
/// use queuey_rabbitmq::topology::deferred_ttl_ms;
///
/// let second = Duration::from_secs(1);
/// assert_eq!(deferred_ttl_ms(Duration::from_millis(1_001), second), Some(2_000));
/// assert_eq!(deferred_ttl_ms(Duration::ZERO, second), Some(1_000));
/// assert_eq!(deferred_ttl_ms(Duration::from_secs(30 * 86_400), second), None);
/// ```
#[must_use]
pub fn deferred_ttl_ms(delay: Duration, granularity: Duration) -> Option<u32> {
    let millis = |duration: Duration| duration.as_nanos().div_ceil(1_000_000);
    let granularity = millis(granularity).max(1);
    let steps = millis(delay).div_ceil(granularity).max(1);
    let shortest = u128::from(MIN_HOLD_MS).div_ceil(granularity);
    let ttl = steps.max(shortest).checked_mul(granularity)?;
    u32::try_from(ttl).ok().filter(|ttl| *ttl <= MAX_DEFERRAL_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_are_rounded_up_to_the_granularity() {
        let ms = Duration::from_millis;
        for (delay, granularity, ttl) in [
            (ms(0), ms(1_000), Some(1_000)),
            (ms(1), ms(1_000), Some(1_000)),
            (ms(1_000), ms(1_000), Some(1_000)),
            (Duration::from_nanos(1_000_000_001), ms(1_000), Some(2_000)),
            (ms(1), ms(0), Some(100)),
            (ms(101), ms(0), Some(101)),
            (ms(1), ms(30), Some(120)),
            (ms(2_147_483_000), ms(1_000), Some(2_147_483_000)),
            (ms(2_147_483_647), ms(1), Some(2_147_483_647)),
            (ms(2_147_483_647), ms(1_000), None),
            (ms(2_147_483_648), ms(1), None),
            (Duration::MAX, ms(1), None),
            (ms(1), Duration::MAX, None),
        ] {
            assert_eq!(deferred_ttl_ms(delay, granularity), ttl, "{delay:?} {granularity:?}");
        }
    }

    proptest! {
        #[test]
        fn a_hold_is_never_shorter_than_asked_and_a_multiple(delay in 0..3_000_000_000_000_000_u64, granularity in 0..100_000_u64) {
            let (delay, granularity) = (Duration::from_micros(delay), Duration::from_millis(granularity));
            match deferred_ttl_ms(delay, granularity) {
                Some(ttl) => {
                    let held = Duration::from_millis(ttl.into());
                    let step = u32::try_from(granularity.as_millis().max(1)).unwrap();
                    prop_assert!(held >= delay && (MIN_HOLD_MS..=MAX_DEFERRAL_MS).contains(&ttl) && ttl % step == 0);
                    prop_assert!(held < delay + granularity + Duration::from_millis(u64::from(MIN_HOLD_MS) + 1));
                }
                None => prop_assert!(delay + granularity > Duration::from_millis(MAX_DEFERRAL_MS.into())),
            }
        }
    }
}
