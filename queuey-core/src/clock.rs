//! The wall clock, as everything in this crate reads it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
///
/// Under tokio's paused clock the time a test has skipped is added, so that the age of a job and its delays
/// tell the same story.
pub(crate) fn now_ms() -> u64 {
    millis_since_epoch(now())
}

/// The wall clock as a [`SystemTime`]; see [`now_ms`].
pub(crate) fn now() -> SystemTime {
    let (std_now, tokio_now) = (Instant::now(), tokio::time::Instant::now().into_std());
    let wall = SystemTime::now();
    match tokio_now.checked_duration_since(std_now) {
        Some(skipped) => wall.checked_add(skipped).unwrap_or(wall),
        None => wall.checked_sub(std_now.saturating_duration_since(tokio_now)).unwrap_or(wall),
    }
}

/// Milliseconds since the Unix epoch, rounded up; zero before it.
pub(crate) fn millis_since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// This much from now; what is past all reckoning is in thirty years.
pub(crate) fn after(duration: Duration) -> tokio::time::Instant {
    let now = tokio::time::Instant::now();
    now.checked_add(duration).unwrap_or(now + Duration::from_secs(30 * 365 * 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_carries_the_wall_clock_with_it() {
        let before = now_ms();
        tokio::time::advance(Duration::from_secs(3600)).await;
        let passed = now_ms() - before;
        assert!((3_599_000..3_660_000).contains(&passed), "{passed}");
    }
}
