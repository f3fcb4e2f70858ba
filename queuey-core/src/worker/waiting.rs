//! Deliveries that were received and wait for their turn: fair between queues, in order within each, and past those
//! whose handler is at its own limit. Pure.

use std::collections::VecDeque;

use tokio::time::Instant;

/// The waiting room. `T` is what waits.
pub(crate) struct WaitingRoom<T> {
    queues: Vec<Lanes<T>>,
    /// The queues that have something waiting, next turn first.
    turns: VecDeque<usize>,
    /// Those that are to run alone, over all queues.
    alone: VecDeque<Entry<T>>,
    next_number: u64,
}

/// One queue: a lane for each limited handler, and one for all others; each twice, for those that go first have their own.
/// So every lane is in the order of arrival.
struct Lanes<T> {
    lanes: Vec<(Lane, VecDeque<Entry<T>>)>,
    waiting: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lane {
    limit: Option<usize>,
    first: bool,
}

struct Entry<T> {
    number: u64,
    /// When it has waited too long.
    overdue: Instant,
    item: T,
}

/// Where an arrival belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) queue: usize,
    /// Its handler's own limit.
    pub(crate) limit: Option<usize>,
    /// Whether it is to run alone.
    pub(crate) alone: bool,
    /// Whether it goes before all that wait on its queue.
    pub(crate) first: bool,
    pub(crate) overdue: Instant,
}

impl<T> WaitingRoom<T> {
    pub(crate) fn new(queues: usize) -> Self {
        WaitingRoom {
            queues: (0..queues).map(|_| Lanes { lanes: Vec::new(), waiting: 0 }).collect(),
            turns: VecDeque::new(),
            alone: VecDeque::new(),
            next_number: 0,
        }
    }

    pub(crate) fn enter(&mut self, arrival: Arrival, item: T) {
        let entry = Entry { number: self.next_number, overdue: arrival.overdue, item };
        self.next_number += 1;
        if arrival.alone {
            self.alone.push_back(entry);
            return;
        }
        let queue = &mut self.queues[arrival.queue];
        queue.lane(Lane { limit: arrival.limit, first: arrival.first }).push_back(entry);
        queue.waiting += 1;
        if queue.waiting == 1 {
            self.turns.push_back(arrival.queue);
        }
    }

    /// Whether something waits to run alone.
    pub(crate) fn has_alone(&self) -> bool {
        !self.alone.is_empty()
    }

    /// The next one that is to run alone, among those that `may_start`.
    pub(crate) fn next_alone(&mut self, may_start: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.alone.iter().position(|entry| may_start(&entry.item))?;
        self.alone.remove(at).map(|entry| entry.item)
    }

    /// Drops those that are to run alone and are `over`.
    pub(crate) fn drop_alone(&mut self, over: impl Fn(&T) -> bool) {
        self.alone.retain(|entry| !over(&entry.item));
    }

    /// The next one of the queue whose turn it is, among those that `may_start` by their limit.
    pub(crate) fn next(&mut self, may_start: impl Fn(usize) -> bool) -> Option<T> {
        for _ in 0..self.turns.len() {
            let turn = self.turns.pop_front()?;
            let queue = &mut self.queues[turn];
            let taken = queue.take(&may_start);
            if queue.waiting > 0 {
                self.turns.push_back(turn);
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// When the first of those that wait now will have waited too long.
    pub(crate) fn first_overdue(&self) -> Option<Instant> {
        self.heads().map(|entry| entry.overdue).min()
    }

    /// Takes out all that have waited too long.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<T> {
        let mut overdue = Vec::new();
        let alone = std::iter::once(&mut self.alone);
        let lanes = self.queues.iter_mut().flat_map(|queue| queue.lanes.iter_mut().map(|(_, lane)| lane));
        for lane in alone.chain(lanes) {
            while lane.front().is_some_and(|entry| entry.overdue <= now) {
                overdue.extend(lane.pop_front().map(|entry| entry.item));
            }
        }
        self.recount();
        overdue
    }

    /// Takes out everything.
    pub(crate) fn clear(&mut self) -> Vec<T> {
        let mut all: Vec<T> = self.alone.drain(..).map(|entry| entry.item).collect();
        for queue in &mut self.queues {
            all.extend(queue.lanes.iter_mut().flat_map(|(_, lane)| lane.drain(..)).map(|entry| entry.item));
        }
        self.recount();
        all
    }

    fn recount(&mut self) {
        for queue in &mut self.queues {
            queue.waiting = queue.lanes.iter().map(|(_, lane)| lane.len()).sum();
        }
        let queues = &self.queues;
        self.turns.retain(|turn| queues[*turn].waiting > 0);
    }

    fn heads(&self) -> impl Iterator<Item = &Entry<T>> {
        let busy = self.turns.iter().flat_map(|turn| &self.queues[*turn].lanes);
        busy.filter_map(|(_, lane)| lane.front()).chain(self.alone.front())
    }
}

impl<T> Lanes<T> {
    fn lane(&mut self, wanted: Lane) -> &mut VecDeque<Entry<T>> {
        let at = self.lanes.iter().position(|(lane, _)| *lane == wanted).unwrap_or_else(|| {
            self.lanes.push((wanted, VecDeque::new()));
            self.lanes.len() - 1
        });
        &mut self.lanes[at].1
    }

    /// The oldest among the lanes that may start, of those that go first if there are any.
    fn take(&mut self, may_start: impl Fn(usize) -> bool) -> Option<T> {
        let startable = self.lanes.iter_mut().filter(|(lane, _)| lane.limit.is_none_or(&may_start));
        let oldest = startable
            .filter_map(|(lane, entries)| {
                entries.front().map(|head| (!lane.first, head.number)).map(|key| (key, entries))
            })
            .min_by_key(|(key, _)| *key);
        let entry = oldest?.1.pop_front()?;
        self.waiting -= 1;
        Some(entry.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn arrival(queue: usize) -> Arrival {
        Arrival {
            queue,
            limit: None,
            alone: false,
            first: false,
            overdue: Instant::now() + Duration::from_secs(60),
        }
    }

    fn drain(room: &mut WaitingRoom<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| room.next(|_| true)).collect()
    }

    #[test]
    fn queues_take_turns_and_each_keeps_its_order() {
        let mut room = WaitingRoom::new(3);
        for (queue, item) in [(0, "a1"), (0, "a2"), (0, "a3"), (1, "b1"), (2, "c1"), (2, "c2")] {
            room.enter(arrival(queue), item);
        }
        assert_eq!(drain(&mut room), ["a1", "b1", "c1", "a2", "c2", "a3"]);
        assert!(room.first_overdue().is_none());
    }

    #[test]
    fn a_handler_at_its_limit_holds_up_nobody_else() {
        let mut room = WaitingRoom::new(1);
        room.enter(Arrival { limit: Some(7), ..arrival(0) }, "limited");
        room.enter(arrival(0), "free");
        assert_eq!(room.next(|limit| limit != 7), Some("free"));
        assert_eq!(room.next(|limit| limit != 7), None);
        assert_eq!(room.next(|_| true), Some("limited"));
    }

    #[test]
    fn one_that_goes_first_overtakes_its_own_queue_only() {
        let mut room = WaitingRoom::new(2);
        room.enter(arrival(0), "a1");
        room.enter(arrival(1), "b1");
        room.enter(arrival(1), "b2");
        room.enter(Arrival { first: true, ..arrival(1) }, "b0");
        room.enter(Arrival { first: true, limit: Some(1), ..arrival(1) }, "b0 too");
        assert_eq!(drain(&mut room), ["a1", "b0", "b0 too", "b1", "b2"]);
    }

    #[test]
    fn those_that_run_alone_wait_apart() {
        let mut room = WaitingRoom::new(1);
        room.enter(Arrival { alone: true, ..arrival(0) }, "alone");
        assert!(room.has_alone());
        assert_eq!(room.next(|_| true), None);
        assert_eq!(room.next_alone(|_| false), None);
        assert_eq!(room.next_alone(|_| true), Some("alone"));
        room.enter(Arrival { alone: true, ..arrival(0) }, "lost");
        room.drop_alone(|_| true);
        assert!(!room.has_alone());
    }

    #[test]
    fn what_has_waited_too_long_is_taken_out() {
        let mut room = WaitingRoom::new(2);
        let now = Instant::now();
        room.enter(Arrival { overdue: now, ..arrival(0) }, "old");
        room.enter(Arrival { overdue: now, alone: true, ..arrival(0) }, "old and alone");
        room.enter(arrival(1), "new");
        assert_eq!(room.first_overdue(), Some(now));
        assert_eq!(room.take_overdue(now).len(), 2);
        assert_eq!(room.clear(), ["new"]);
        assert!(drain(&mut room).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_queue_waits_more_than_one_round(arrivals in prop::collection::vec((0..4_usize, prop::option::of(0..2_usize)), 0..60)) {
            let mut room = WaitingRoom::new(4);
            for (number, (queue, limit)) in arrivals.iter().enumerate() {
                room.enter(Arrival { limit: *limit, ..arrival(*queue) }, (*queue, number));
            }
            let order: Vec<_> = std::iter::from_fn(|| room.next(|_| true)).collect();
            prop_assert_eq!(order.len(), arrivals.len());
            for queue in 0..4 {
                let own: Vec<_> = order.iter().filter(|(q, _)| *q == queue).map(|(_, n)| *n).collect();
                prop_assert!(own.is_sorted());
                let at: Vec<_> = (0..order.len()).filter(|i| order[*i].0 == queue).collect();
                prop_assert!(at.windows(2).all(|pair| pair[1] - pair[0] <= 4));
            }
        }
    }
}
