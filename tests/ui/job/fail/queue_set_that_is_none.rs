use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AppQueues {
    Emails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Emails)]
struct SendEmail;

fn main() {}
