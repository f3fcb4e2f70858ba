// M08
#![deny(warnings)]

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum Set {
    #[deprecated = "use Mails"]
    OldMails,
    Mails,
}

#[derive(Serialize, Deserialize, Job)]
#[allow(deprecated)]
#[job(queue = Set::OldMails)]
struct OldSend;

#[allow(deprecated)]
#[deprecated]
#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::OldMails)]
struct OlderSend;

#[handler]
async fn send(_: OldSend) {}

/// A handler may be deprecated too, and may take what is.
#[handler]
#[deprecated]
#[allow(deprecated)]
async fn send_older(_: OlderSend) {}

fn main() {
    let _ = OldSend;
    assert_eq!(Set::all().len(), 2);
    assert_eq!(Set::from_name("old_mails").map(|queue| queue.name()), Some("old_mails"));
}
