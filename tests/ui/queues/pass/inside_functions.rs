#![deny(warnings)]

use queuey::prelude::*;

fn one() -> (&'static str, &'static str) {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    enum Set {
        Mails,
    }

    #[derive(Serialize, Deserialize, Job)]
    #[job(queue = Set::Mails, name = "one")]
    struct Send;

    #[handler]
    async fn send(_: Send) {}

    let _ = Send;
    (Set::Mails.name(), Send::NAME)
}

fn main() {
    let closure = || {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
        #[queues(prefix = "two")]
        enum Set {
            Mails,
        }
        Set::Mails.name()
    };
    assert_eq!((one(), closure()), (("mails", "one"), "two.mails"));
}
