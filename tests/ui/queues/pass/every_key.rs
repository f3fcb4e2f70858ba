use std::time::Duration;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[queues(prefix = "myapp", crate = "queuey")]
enum Set {
    Emails,
    #[queue(
        name = "img",
        prefetch = 10,
        durable = false,
        message_ttl = "30s",
        max_priority = 0,
        kind = "classic",
        redelivery_limit = 0,
        dead_letter_expired = true,
        max_deferrals = 50,
        retry(
            max_attempts = 5,
            backoff = "exponential",
            base = "1s",
            factor = 2.5,
            max = "5m",
            jitter = true,
            give_up_after = "30m"
        )
    )]
    ImageResize,
    #[queue(kind = "quorum", ack_timeout = "2h", redelivery_limit = 3, retry(backoff = "none"))]
    Reports,
    #[queue(retry(backoff = "steps", delays = ["1s", "10s", "1m"], max_attempts = 9, jitter = 0.25))]
    HTTPCalls,
    #[queue(retry())]
    Defaults,
}

fn main() {
    let config = |queue: Set| queue.config();
    assert_eq!(config(Set::Emails), QueueConfig::new("myapp.emails"));
    let retry = RetryPolicy::new(
        5,
        Backoff::Exponential { base: Duration::from_secs(1), factor: 2.5, max: Duration::from_secs(300) },
    )
    .give_up_after(Duration::from_secs(1800));
    assert_eq!(
        config(Set::ImageResize),
        QueueConfig::new("myapp.img")
            .prefetch(10)
            .durable(false)
            .message_ttl(Duration::from_secs(30))
            .max_priority(0)
            .redelivery_limit(0)
            .dead_letter_expired(true)
            .max_deferrals(50)
            .retry(retry)
    );
    assert_eq!(
        config(Set::Reports),
        QueueConfig::new("myapp.reports")
            .kind(QueueKind::Quorum)
            .ack_timeout(Duration::from_secs(7200))
            .redelivery_limit(3)
            .retry(RetryPolicy::new(3, Backoff::None))
    );
    assert_eq!(Set::HTTPCalls.name(), "myapp.http_calls");
    assert_eq!(config(Set::HTTPCalls).retry.schedule().len(), 8);
    assert_eq!(config(Set::HTTPCalls).retry.jitter, Jitter::Proportional(0.25));
    assert_eq!(config(Set::Defaults).retry, RetryPolicy::exponential(3));
}
