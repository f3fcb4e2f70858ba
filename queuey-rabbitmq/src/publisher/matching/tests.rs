//! A model of the broker and of the client library between it and us, in every order that they allow.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// What comes over the wire, by place in the batch.
#[derive(Debug, Clone, Copy)]
enum Frame {
    Return(usize),
    Confirm(usize),
}

#[derive(Debug, Clone)]
struct Script {
    /// Which publishes are for a queue that is missing.
    missing: Vec<bool>,
    frames: Vec<Frame>,
    /// How many frames come before the channel dies.
    dies: Option<usize>,
    /// At which place each look has arrived when more frames come, and how many those are.
    looks: Vec<(usize, usize)>,
}

/// Confirms in any order; each return before its confirm, and returns in the order of the publishes.
fn frames(missing: &[bool], confirms: &[usize], ahead: &[usize]) -> Vec<Frame> {
    let mut returns: VecDeque<usize> = (0..missing.len()).filter(|place| missing[*place]).collect();
    let mut frames = Vec::new();
    for (confirm, ahead) in confirms.iter().zip(ahead) {
        let due = returns.iter().position(|place| place == confirm).map_or(0, |at| at + 1);
        let sent = (due + ahead).min(returns.len());
        frames.extend(returns.drain(..sent).map(Frame::Return));
        frames.push(Frame::Confirm(*confirm));
    }
    frames
}

fn script() -> impl Strategy<Value = Script> {
    (1..10_usize).prop_flat_map(|publishes| {
        let order = Just((0..publishes).collect::<Vec<_>>()).prop_shuffle();
        let missing = prop::collection::vec(any::<bool>(), publishes);
        let ahead = prop::collection::vec(0..3_usize, publishes);
        let dies = prop::option::weighted(0.3, 0..2 * publishes);
        let looks = prop::collection::vec((0..publishes, 1..4_usize), 2 * publishes);
        (order, missing, ahead, dies, looks).prop_map(|(order, missing, ahead, dies, looks)| {
            let frames = frames(&missing, &order, &ahead);
            Script { missing, frames, dies, looks }
        })
    })
}

fn key(place: usize) -> Key {
    (place.to_string().into(), "q".into())
}

/// The client library: a return waits for the next confirm that resolves, whichever that is.
#[derive(Default)]
struct Library {
    waiting: VecDeque<usize>,
    resolved: HashMap<usize, Option<usize>>,
}

impl Library {
    fn receive(&mut self, frame: Frame) {
        match frame {
            Frame::Return(place) => self.waiting.push_back(place),
            Frame::Confirm(place) => drop(self.resolved.insert(place, self.waiting.pop_front())),
        }
    }

    fn look(&mut self, place: usize, publishes: usize, matching: &mut Matching) {
        if let Some(carried) = self.resolved.remove(&place) {
            if let Some(returned) = carried {
                matching.returned(&key(returned), (0..publishes).map(key));
            }
            matching.confirmed(place, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn no_message_is_said_to_have_arrived_that_was_returned(script in script()) {
        let publishes = script.missing.len();
        let (mut library, mut matching) = (Library::default(), Matching::new(publishes));
        let mut told: HashMap<usize, Verdict> = HashMap::new();
        let mut frames = script.frames.iter().take(script.dies.unwrap_or(usize::MAX));
        for (at, coming) in &script.looks {
            // The library resolves confirms while they are looked at.
            let look = matching.look_again();
            for place in 0..publishes {
                if place == *at {
                    frames.by_ref().take(*coming).for_each(|frame| library.receive(*frame));
                }
                if matching.is_open(place) {
                    library.look(place, publishes, &mut matching);
                }
            }
            told.extend(matching.after_look(look));
        }
        frames.for_each(|frame| library.receive(*frame));
        for place in 0..publishes {
            if matching.is_open(place) {
                library.look(place, publishes, &mut matching);
            }
            if matching.is_open(place) {
                matching.lost(place);
            }
        }
        told.extend(matching.at_the_end());
        prop_assert_eq!(told.len(), publishes);
        for (place, missing) in script.missing.iter().enumerate() {
            match told[&place] {
                Verdict::Arrived => prop_assert!(!missing, "{place} was returned"),
                Verdict::Returned => prop_assert!(missing, "{place} was not returned"),
                Verdict::Unknown => prop_assert!(script.dies.is_some(), "{place} is known"),
                Verdict::Refused => prop_assert!(false, "{place} was not refused"),
            }
        }
    }
}

#[test]
fn a_slow_confirm_holds_nobody() {
    let mut matching = Matching::new(3);
    matching.confirmed(0, true);
    matching.confirmed(2, false);
    let look = matching.look_again();
    assert_eq!(matching.after_look(look), [(0, Verdict::Arrived), (2, Verdict::Refused)]);
    let look = matching.look_again();
    assert_eq!(matching.after_look(look), []);
    matching.confirmed(1, true);
    assert_eq!(matching.at_the_end(), [(1, Verdict::Arrived)]);
}

#[test]
fn a_confirm_says_nothing_until_all_were_looked_at_again() {
    let mut matching = Matching::new(2);
    let look = matching.look_again();
    matching.confirmed(0, true);
    assert_eq!(matching.after_look(look), []);
}

#[test]
fn a_return_whose_publish_is_open_keeps_the_others_in_doubt() {
    let mut matching = Matching::new(3);
    matching.returned(&key(1), (0..3).map(key));
    matching.confirmed(0, true);
    let look = matching.look_again();
    assert_eq!(matching.after_look(look), [(1, Verdict::Returned)]);
    let look = matching.look_again();
    matching.confirmed(1, true);
    assert_eq!(matching.after_look(look), [], "its confirm has only come during the look");
    let look = matching.look_again();
    assert_eq!(matching.after_look(look), [(0, Verdict::Arrived)]);
    matching.lost(2);
    assert_eq!(matching.at_the_end(), [(2, Verdict::Unknown)]);
}
