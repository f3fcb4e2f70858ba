use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

use End::{Ack, GiveUp, HandBack, Reject};

fn run(tag: u64) -> Frame {
    Frame { tag, end: Ack, multiple: true }
}

fn one(tag: u64) -> Frame {
    Frame::one(tag, Ack)
}

/// A flush: what has ended, and the frames it comes to.
type Flush<'a> = (&'a [(u64, End)], &'a [Frame]);

#[test]
fn a_run_is_one_frame_and_all_else_is_one_by_one() {
    let table: &[(&str, &[Flush<'_>])] = &[
        ("nothing", &[(&[], &[])]),
        ("a lone one needs no run", &[(&[(1, Ack)], &[one(1)])]),
        ("a run ends in whatever order", &[(&[(3, Ack), (1, Ack), (2, Ack)], &[run(3)])]),
        ("runs follow each other", &[(&[(1, Ack), (2, Ack)], &[run(2)]), (&[(3, Ack), (4, Ack)], &[run(4)])]),
        (
            "stragglers wait for nobody",
            &[(&[(1, Ack), (2, Ack), (4, Ack), (6, Ack)], &[one(4), one(6), run(2)])],
        ),
        (
            "a run goes over what is settled and names what is not",
            &[
                (&[(3, Ack), (6, Ack)], &[one(3), one(6)]),
                (&[(1, Ack), (2, Ack), (4, Ack), (5, Ack)], &[run(5)]),
            ],
        ),
        (
            "the last of a run is alone again",
            &[(&[(2, Ack), (3, Ack)], &[one(2), one(3)]), (&[(1, Ack)], &[one(1)])],
        ),
        (
            "a hand-back is not run over in its own flush",
            &[(&[(1, Ack), (2, Ack), (3, HandBack), (4, Ack)], &[Frame::one(3, HandBack), one(4), run(2)])],
        ),
        (
            "once it is written it is passed",
            &[(&[(1, HandBack)], &[Frame::one(1, HandBack)]), (&[(2, Ack), (3, Ack)], &[run(3)])],
        ),
        (
            "what is not handed back yet is never run over",
            &[
                (&[(1, Ack), (3, Ack)], &[one(3), one(1)]),
                (&[(4, Ack), (5, Ack)], &[one(4), one(5)]),
                (&[(2, GiveUp)], &[Frame::one(2, GiveUp)]),
                (&[(6, Ack), (7, Ack)], &[run(7)]),
            ],
        ),
        (
            "a rejection ends the run",
            &[(&[(1, Ack), (2, Reject), (3, Ack)], &[Frame::one(2, Reject), one(3), one(1)])],
        ),
        (
            "a tag that never comes is never run over",
            &[
                (&[(1, Ack), (2, Ack)], &[run(2)]),
                (&[(4, Ack), (5, Ack)], &[one(4), one(5)]),
                (&[(6, Ack)], &[one(6)]),
            ],
        ),
        ("the last tag there can be", &[(&[(u64::MAX, Ack)], &[one(u64::MAX)])]),
    ];
    for (what, flushes) in table {
        let mut outstanding = Outstanding::new();
        for (ended, frames) in *flushes {
            assert_eq!(outstanding.end(ended.iter().copied()), *frames, "{what}");
        }
    }
}

/// The broker: it closes the channel for a tag it does not know, and remembers how each delivery was settled.
#[derive(Default)]
struct Broker {
    out: BTreeSet<u64>,
    settled: BTreeMap<u64, End>,
}

impl Broker {
    fn take(&mut self, frame: Frame) -> Result<(), String> {
        let Frame { tag, end, multiple } = frame;
        if !self.out.contains(&tag) {
            return Err(format!("406 unknown delivery tag {tag}"));
        }
        let covered: Vec<u64> = match multiple {
            true => self.out.range(..=tag).copied().collect(),
            false => vec![tag],
        };
        for tag in covered {
            self.out.remove(&tag);
            self.settled.insert(tag, end);
        }
        Ok(())
    }
}

/// What becomes of a delivery: its end, `None` where it is never seen.
fn fate() -> impl Strategy<Value = Option<End>> {
    prop_oneof![
        16 => Just(Some(Ack)),
        2 => Just(Some(HandBack)),
        1 => Just(Some(GiveUp)),
        1 => Just(Some(Reject)),
        1 => Just(None),
    ]
}

/// Deliveries in the order of their ends: each tag with its fate, moved by no more than a prefetch.
fn endings() -> impl Strategy<Value = Vec<(u64, Option<End>)>> {
    prop::collection::vec((fate(), 0..20_u64), 0..300).prop_map(|fates| {
        let mut endings: Vec<_> =
            (1..).zip(fates).map(|(tag, (fate, late))| (tag + late, tag, fate)).collect();
        endings.sort_unstable_by_key(|(at, ..)| *at);
        endings.into_iter().map(|(_, tag, fate)| (tag, fate)).collect()
    })
}

proptest! {
    /// The broker's word decides, in whatever order the frames of a flush are written.
    #[test]
    fn every_delivery_is_settled_once_and_as_it_ended(
        endings in endings(),
        flushes in prop::collection::vec(1..30_usize, 1..40),
        backwards in any::<bool>(),
    ) {
        let mut broker = Broker { out: endings.iter().map(|(tag, _)| *tag).collect(), ..Broker::default() };
        let ended: Vec<_> = endings.iter().filter_map(|&(tag, end)| Some((tag, end?))).collect();
        let (mut outstanding, mut rest, mut asked) = (Outstanding::new(), &ended[..], BTreeMap::new());
        for size in flushes.into_iter().cycle() {
            let flush;
            (flush, rest) = rest.split_at(size.min(rest.len()));
            asked.extend(flush.iter().copied());
            let mut frames = outstanding.end(flush.iter().copied());
            if backwards {
                frames.reverse();
            }
            for frame in frames {
                broker.take(frame).map_err(TestCaseError::fail)?;
            }
            // Not one that has not ended, and none left over.
            prop_assert_eq!(&broker.settled, &asked);
            prop_assert!(outstanding.ranges.len() <= 20 + endings.len() - ended.len());
            if rest.is_empty() {
                break;
            }
        }
        let never_seen = endings.iter().filter(|(_, end)| end.is_none()).map(|(tag, _)| *tag);
        prop_assert_eq!(broker.out, never_seen.collect());
    }

    #[test]
    fn in_order_a_flush_is_one_frame(sizes in prop::collection::vec(1..50_u64, 1..50)) {
        let (mut outstanding, mut next) = (Outstanding::new(), 1);
        for size in sizes {
            let frames = outstanding.end((next..next + size).map(|tag| (tag, Ack)));
            next += size;
            prop_assert_eq!(frames, [Frame { tag: next - 1, end: Ack, multiple: size > 1 }]);
        }
    }
}
