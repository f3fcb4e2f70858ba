//! A model of the broker and of the client library between it and us, in every order that they allow.

use std::collections::{HashMap, HashSet, VecDeque};

use proptest::prelude::*;

use super::*;

/// What comes over the wire.
#[derive(Debug, Clone, Copy)]
enum Frame {
    /// The next return, where one is due.
    Return,
    /// The confirm of one that is there, after the returns that must come before.
    Confirm(prop::sample::Index),
}

/// Messages are published, then frames come, then all confirms are looked at; before each of them come more.
#[derive(Debug, Clone)]
struct Round {
    /// Which messages are for a queue that is missing.
    missing: Vec<bool>,
    before: Vec<Frame>,
    during: Vec<Vec<Frame>>,
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let frame = prop_oneof![
        1 => Just(Frame::Return),
        3 => any::<prop::sample::Index>().prop_map(Frame::Confirm),
    ];
    prop::collection::vec(frame, 0..3)
}

fn round() -> impl Strategy<Value = Round> {
    let missing = prop::collection::vec(any::<bool>(), 0..5);
    let during = prop::collection::vec(frames(), 0..5);
    (missing, frames(), during).prop_map(|(missing, before, during)| Round { missing, before, during })
}

/// The broker, and the client library: a return waits for the next confirm that resolves, whichever that is.
#[derive(Default)]
struct World {
    missing: Vec<bool>,
    unconfirmed: Vec<usize>,
    /// Messages that are to be returned, in the order of their publishes.
    to_return: VecDeque<usize>,
    waiting: VecDeque<usize>,
    resolved: HashMap<usize, Option<usize>>,
}

impl World {
    fn publish(&mut self, missing: bool) -> usize {
        let number = self.missing.len();
        self.missing.push(missing);
        self.unconfirmed.push(number);
        if missing {
            self.to_return.push_back(number);
        }
        number
    }

    fn send_return(&mut self) {
        self.waiting.extend(self.to_return.pop_front());
    }

    fn confirm(&mut self, which: prop::sample::Index) {
        if !self.unconfirmed.is_empty() {
            self.confirm_at(which.index(self.unconfirmed.len()));
        }
    }

    fn confirm_at(&mut self, place: usize) {
        let number = self.unconfirmed.remove(place);
        while self.to_return.contains(&number) {
            self.send_return();
        }
        self.resolved.insert(number, self.waiting.pop_front());
    }

    fn see(&mut self, number: usize) -> Seen<usize> {
        match self.resolved.remove(&number) {
            Some(returned) => Seen::Confirmed { acked: true, returned },
            None => Seen::Open,
        }
    }

    fn receive(&mut self, frame: Frame) {
        match frame {
            Frame::Return => self.send_return(),
            Frame::Confirm(which) => self.confirm(which),
        }
    }
}

/// What everybody was told.
#[derive(Default)]
struct Told(HashMap<usize, Verdict>);

impl Told {
    fn tell(&mut self, number: usize, verdict: Verdict) {
        assert_eq!(self.0.insert(number, verdict), None, "{number} was told twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn no_message_is_said_to_have_arrived_that_was_returned(
        rounds in prop::collection::vec(round(), 1..8),
        dies in any::<bool>(),
    ) {
        let (mut world, mut matching, mut told) = (World::default(), Matching::new(), Told::default());
        for Round { missing, before, during } in rounds {
            missing.into_iter().for_each(|missing| matching.push(world.publish(missing)));
            before.into_iter().for_each(|frame| world.receive(frame));
            // The library resolves confirms while they are looked at.
            let mut during = during.into_iter();
            let see = |number: &mut usize| {
                during.next().into_iter().flatten().for_each(|frame| world.receive(frame));
                world.see(*number)
            };
            matching.look(see, |number, returned| number == returned);
            matching.tell(|number, verdict| told.tell(*number, verdict)).for_each(drop);
        }
        if !dies {
            while !world.unconfirmed.is_empty() {
                world.confirm_at(0);
            }
        }
        while matching.look(|number| world.see(*number), |number, returned| number == returned) {
            matching.tell(|number, verdict| told.tell(*number, verdict)).for_each(drop);
        }
        matching.tell(|number, verdict| told.tell(*number, verdict)).for_each(drop);
        prop_assert!(dies || matching.open() == 0);
        let left: HashSet<_> = matching.end(|number, verdict| told.tell(*number, verdict)).collect();
        prop_assert_eq!(told.0.len(), world.missing.len());
        prop_assert!(dies || left.is_empty(), "kept for ever: {:?}", left);
        for (number, missing) in world.missing.iter().enumerate() {
            match told.0[&number] {
                Verdict::Arrived => prop_assert!(!missing, "{number} was returned"),
                Verdict::Returned => prop_assert!(missing, "{number} was not returned"),
                Verdict::Unknown => prop_assert!(dies, "{number} is known"),
                Verdict::Refused => prop_assert!(false, "{number} was not refused"),
            }
        }
    }
}

/// Publishes by their number, and what a look at each will show.
fn look(matching: &mut Matching<usize>, shows: &[(usize, Seen<usize>)]) -> Vec<(usize, Verdict)> {
    let see = |number: &mut usize| match shows.iter().find(|(of, _)| of == number) {
        Some((_, Seen::Confirmed { acked, returned })) => {
            Seen::Confirmed { acked: *acked, returned: *returned }
        }
        Some((_, Seen::Lost)) => Seen::Lost,
        _ => Seen::Open,
    };
    matching.look(see, |number, returned| number == returned);
    let mut told = Vec::new();
    matching.tell(|number, verdict| told.push((*number, verdict))).for_each(drop);
    told
}

fn three() -> Matching<usize> {
    let mut matching = Matching::new();
    (0..3).for_each(|number| matching.push(number));
    matching
}

const ACKED: Seen<usize> = Seen::Confirmed { acked: true, returned: None };
const NACKED: Seen<usize> = Seen::Confirmed { acked: false, returned: None };

#[test]
fn a_slow_confirm_holds_nobody() {
    let mut matching = three();
    assert_eq!(look(&mut matching, &[(0, ACKED), (2, NACKED)]), [(2, Verdict::Refused)]);
    assert_eq!(look(&mut matching, &[]), [(0, Verdict::Arrived)]);
    assert_eq!(look(&mut matching, &[(1, ACKED)]), []);
    assert_eq!(look(&mut matching, &[]), [(1, Verdict::Arrived)]);
    assert_eq!(matching.end(|_, _| ()).count(), 0);
}

#[test]
fn a_confirm_says_nothing_until_all_were_looked_at_again() {
    let mut matching = three();
    assert_eq!(look(&mut matching, &[(0, ACKED)]), []);
    assert_eq!(look(&mut matching, &[]), [(0, Verdict::Arrived)]);
}

#[test]
fn a_return_whose_publish_is_open_keeps_the_others_in_doubt() {
    let mut matching = three();
    let carrying = Seen::Confirmed { acked: true, returned: Some(1) };
    assert_eq!(look(&mut matching, &[(0, carrying)]), [(1, Verdict::Returned)]);
    assert_eq!(look(&mut matching, &[]), []);
    assert_eq!(look(&mut matching, &[(1, ACKED)]), [], "its confirm has only come during the look");
    assert_eq!(look(&mut matching, &[]), [(0, Verdict::Arrived)]);
    assert_eq!(look(&mut matching, &[(2, Seen::Lost)]), []);
    let mut told = Vec::new();
    assert_eq!(matching.end(|number, verdict| told.push((*number, verdict))).collect::<Vec<_>>(), [2]);
    assert_eq!(told, [(2, Verdict::Unknown)]);
}
