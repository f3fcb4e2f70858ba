// M08

#![deny(deprecated)]

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum AppQueues {
    #[deprecated = "use Mails"]
    Emails,
    Mails,
}

#[derive(Serialize, Deserialize, Job)]
#[allow(deprecated)]
#[job(queue = AppQueues::Emails)]
struct Allowed;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails)]
struct SendEmail;

fn main() {}
