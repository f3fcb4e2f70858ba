// M11: a where-clause without parameters is kept.
#![deny(warnings)]

use std::time::Duration;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum Set {
    #[queue(retry(max_attempts = 7))]
    Work,
}

type Alias = Set;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
struct Unit;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Alias::Work)]
struct Tuple(u8, Option<String>);

#[derive(Serialize, Deserialize, Job)]
#[job(queue = crate::Set::Work, name = "braces", timeout = "1m", max_deferrals = 0, retry())]
struct Braces {
    list: Vec<u8>,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
#[job(name = "two attributes")]
enum Choice {
    One,
    Two { number: u8 },
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Work)]
struct Bounded
where
    u8: Copy;

/// A queue set may be a job of its own queue, and have variants with the names of the trait's items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Queues, Job)]
#[job(queue = Self::Queue)]
enum Both {
    Queue,
    #[queue(name = "other")]
    NAME,
}

fn main() {
    assert_eq!(Unit::NAME, concat!(module_path!(), "::Unit"));
    assert_eq!((Unit::timeout(), Unit::max_deferrals(), Unit::retry_policy()), (None, None, None));
    assert_eq!((Tuple::QUEUE, Choice::NAME), (Set::Work, "two attributes"));
    assert_eq!((Braces::NAME, Braces::timeout()), ("braces", Some(Duration::from_secs(60))));
    assert_eq!(Braces::retry_policy(), Some(RetryPolicy::exponential(3)));
    assert_eq!(Braces::max_deferrals(), Some(0));
    assert_eq!((Both::QUEUE, Both::all().len()), (Both::Queue, 2));
    let _ = (
        Unit,
        Tuple(1, None),
        Braces { list: vec![] },
        Choice::One,
        Choice::Two { number: 1 },
        Bounded,
        Both::NAME,
    );
}
