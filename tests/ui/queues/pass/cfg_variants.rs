// M09
#![deny(warnings)]

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
#[cfg_attr(all(), queues(prefix = "on"))]
#[cfg_attr(any(), queues(prefix = "off"))]
enum Set {
    #[cfg(any())]
    Gone,
    First,
    #[cfg(all())]
    #[cfg_attr(any(), queue(prefetch = 2))]
    #[cfg_attr(all(), queue(prefetch = 3))]
    Paired,
    #[cfg(not(all()))]
    #[queue(prefetch = 0)]
    Paired,
    #[cfg(all())]
    Last,
}

#[cfg(any())]
#[handler]
async fn gone(_: Nothing) {}

#[cfg_attr(any(), derive(Nonsense))]
#[derive(Serialize, Deserialize)]
#[cfg_attr(all(), derive(Job), job(queue = Set::Paired))]
struct Send;

#[cfg_attr(all(), handler(timeout = "5s"))]
#[cfg_attr(any(), handler(timeout = 0))]
async fn send(_: Send) {}

fn main() {
    assert_eq!(Set::all(), [Set::First, Set::Paired, Set::Last]);
    assert_eq!(Set::Paired.config().prefetch, 3);
    assert_eq!(Set::Last.name(), "on.last");
    let _ = Send;
}
