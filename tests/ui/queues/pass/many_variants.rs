#![deny(warnings)]

use queuey::prelude::*;

macro_rules! set {
    ($($queue:ident)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
        enum Set {
            $(#[queue(prefetch = 9, retry(max_attempts = 4))] $queue),*
        }
    };
}

set! {
    A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 C0 C1 C2 C3 C4 C5 C6 C7 C8 C9 D0 D1 D2 D3 D4 D5 D6 D7 D8 D9
    E0 E1 E2 E3 E4 E5 E6 E7 E8 E9 F0 F1 F2 F3 F4 F5 F6 F7 F8 F9 G0 G1 G2 G3 G4 G5 G6 G7 G8 G9 H0 H1 H2 H3 H4 H5 H6 H7 H8 H9
}

fn main() {
    assert_eq!(Set::all().len(), 80);
    for queue in Set::all() {
        assert_eq!(Set::from_name(queue.name()), Some(*queue));
        assert_eq!((queue.config().prefetch, queue.config().retry.max_attempts), (9, 4));
    }
    assert_eq!(Set::from_name("i0"), None);
}
