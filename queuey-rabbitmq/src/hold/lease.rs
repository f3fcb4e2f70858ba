//! How long a hold queue is sure to live, and what that says of a message that was put there. Pure but for the clocks.
//!
//! A hold queue deletes itself, with all that waits in it, when twice its time has passed since it was last declared. A
//! message that reaches it within one time is released before that; a later one may be lost without a word. So a declare
//! is a lease, counted from the moment it was sent:
//!
//! ```text
//! declare sent          ½                      1                       1.8    2   (times)
//!      |--- trusted ----|--- declare again: it has lived if answered ---|-- ✗ --| gone
//! ```

use std::time::{Duration, Instant, SystemTime};

use crate::topology::MAX_DEFERRAL_MS;

/// A moment on both clocks: the one that never goes back, and the one that goes on while a machine is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Moment { steady: Instant::now(), wall: SystemTime::now() }
    }

    /// How long ago that is, at the most.
    pub(super) fn age(&self) -> Duration {
        self.steady.elapsed().max(self.wall.elapsed().unwrap_or_default())
    }
}

/// Whether a lease of this age is worth a publish: enough of it is left for the confirm to come in time.
pub(super) fn is_fresh(age: Duration, ttl_ms: u32) -> bool {
    age < time(ttl_ms) / 4
}

/// Whether a message is safe whose confirm came at this age of the lease.
pub(super) fn is_trusted(age: Duration, ttl_ms: u32) -> bool {
    age <= time(ttl_ms) / 2
}

/// Whether a queue that answered another declare at this age of the lease has lived throughout.
pub(super) fn has_lived(age: Duration, ttl_ms: u32) -> bool {
    age < time(ttl_ms) * 9 / 5
}

/// A hold that gives a slow connection more time; never a shorter one.
pub(super) fn longer(ttl_ms: u32) -> u32 {
    ttl_ms.saturating_mul(2).min(MAX_DEFERRAL_MS)
}

fn time(ttl_ms: u32) -> Duration {
    Duration::from_millis(ttl_ms.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bounds_are_a_quarter_a_half_and_nine_fifths() {
        let ms = Duration::from_millis;
        assert!(is_fresh(ms(249), 1_000) && !is_fresh(ms(250), 1_000));
        assert!(is_trusted(ms(500), 1_000) && !is_trusted(ms(501), 1_000));
        assert!(has_lived(ms(1_799), 1_000) && !has_lived(ms(1_800), 1_000));
        assert_eq!((longer(1_000), longer(MAX_DEFERRAL_MS)), (2_000, MAX_DEFERRAL_MS));
    }

    proptest! {
        #[test]
        fn what_is_trusted_is_released_before_its_queue_goes(age in 0..5_000_000_000_u64, ttl in 100..=MAX_DEFERRAL_MS) {
            let age = Duration::from_millis(age);
            let (release, gone) = (age + time(ttl), time(ttl) * 2);
            prop_assert!(!is_trusted(age, ttl) || release < gone);
            prop_assert!(!has_lived(age, ttl) || age < gone);
            prop_assert!(!is_fresh(age, ttl) || is_trusted(age, ttl));
            prop_assert!(longer(ttl) >= ttl && longer(ttl) <= MAX_DEFERRAL_MS);
        }
    }
}
