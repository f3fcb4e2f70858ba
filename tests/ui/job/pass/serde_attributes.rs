// M16
#![deny(warnings)]

use std::collections::BTreeMap;

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
pub enum Set {
    Work,
}

macro_rules! twins {
    ($($(#[$attribute:meta])* $kind:ident $job:ident $body:tt)*) => {
        mod jobs {
            use super::*;
            $(#[derive(Serialize, Deserialize, Job)] #[job(queue = Set::Work)] $(#[$attribute])* pub $kind $job $body)*
        }
        mod plain {
            use super::*;
            $(#[derive(Serialize, Deserialize)] $(#[$attribute])* pub $kind $job $body)*
        }
    };
}

twins! {
    #[serde(rename_all = "SCREAMING-KEBAB-CASE", default, deny_unknown_fields)]
    #[derive(Default)]
    struct Renamed { pub first_field: u8, pub second_field: String }

    #[serde(tag = "kind")]
    enum Tagged { One { n: u8 }, Two }

    #[serde(tag = "t", content = "c")]
    enum Adjacent { One(u8, u8), Two }

    #[serde(untagged)]
    enum Untagged { Number(u64), Text(String) }

    struct Flat { #[serde(flatten)] pub rest: BTreeMap<String, u8>, #[serde(skip)] pub skipped: u8 }
}

fn assert_same<J: Job>(job: J, plain: impl Serialize) {
    let envelope = queuey::Envelope::new(&job).expect("it is JSON");
    assert_eq!(envelope.payload.get(), serde_json::to_string(&plain).expect("it is JSON"));
    assert!(envelope.decode::<J>().is_ok());
}

fn main() {
    assert_same(
        jobs::Renamed { first_field: 1, second_field: "x".into() },
        plain::Renamed { first_field: 1, second_field: "x".into() },
    );
    assert_same(jobs::Tagged::One { n: 1 }, plain::Tagged::One { n: 1 });
    assert_same(jobs::Tagged::Two, plain::Tagged::Two);
    assert_same(jobs::Adjacent::One(1, 2), plain::Adjacent::One(1, 2));
    assert_same(jobs::Adjacent::Two, plain::Adjacent::Two);
    assert_same(jobs::Untagged::Number(7), plain::Untagged::Number(7));
    assert_same(jobs::Untagged::Text("x".into()), plain::Untagged::Text("x".into()));
    let rest = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
    assert_same(jobs::Flat { rest: rest.clone(), skipped: 3 }, plain::Flat { rest, skipped: 3 });
}
