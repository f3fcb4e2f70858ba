#![deny(warnings)]

mod vendored {
    pub mod deep {
        pub use queuey as jobs;
    }
}

use queuey::{JobContext, handler};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, queuey::Queues)]
#[queues(crate = "crate::vendored::deep::jobs")]
enum Set {
    #[queue(retry())]
    Work,
}

#[derive(serde::Serialize, serde::Deserialize, queuey::Job)]
#[job(queue = Set::Work, crate = "vendored::deep::jobs")]
struct Work;

#[handler(crate = "::queuey")]
async fn work(_: Work, _: JobContext) {}

fn main() {
    let _ = (Work, <Set as queuey::QueueSet>::all());
}
