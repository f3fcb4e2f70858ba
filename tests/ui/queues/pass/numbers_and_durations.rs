// M12: oddly written, and read with its true value.
use std::time::Duration;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum Set {
    #[queue(prefetch = 0x10, redelivery_limit = 1_000, max_priority = 0b101, message_ttl = "1h30m")]
    Odd,
    #[queue(message_ttl = " 5s ", retry())]
    Blanks,
    #[queue(message_ttl = 90, retry(factor = 3, base = 1, max = 1))]
    Bare,
    #[queue(message_ttl = "1d 2 h 3m 4 s 5ms")]
    All,
    #[queue(message_ttl = "4294967295ms")]
    Longest,
    #[queue()]
    Empty,
    #[queue]
    #[queue(prefetch = 1)]
    #[queue(name = "many")]
    Several,
}

fn main() {
    let ttl = |queue: Set| queue.config().message_ttl.map(|ttl| ttl.as_millis());
    let odd = Set::Odd.config();
    assert_eq!((odd.prefetch, odd.redelivery_limit, odd.max_priority), (16, Some(1000), Some(5)));
    assert_eq!(ttl(Set::Odd), Some(5_400_000));
    assert_eq!(ttl(Set::Blanks), Some(5_000));
    assert_eq!(ttl(Set::Bare), Some(90_000));
    assert_eq!(ttl(Set::All), Some(93_784_005));
    assert_eq!(ttl(Set::Longest), Some(4_294_967_295));
    assert_eq!(Set::Bare.config().retry.schedule(), [Duration::from_secs(1); 2]);
    assert_eq!((Set::Several.name(), Set::Several.config().prefetch), ("many", 1));
    assert_eq!(Set::Empty.config(), QueueConfig::new("empty"));
}
