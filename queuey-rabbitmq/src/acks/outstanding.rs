//! Which frames end which deliveries: a run of acknowledgements is one frame, all else is one by one. Pure.

use std::collections::BTreeMap;

/// How a delivery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is done, or its successor is there.
    Ack,
    /// It goes back to its queue, and a quorum queue does not count that where it makes the difference.
    HandBack,
    /// It goes back to its queue as one that nobody settled, which a quorum queue counts.
    GiveUp,
    /// It is rejected, for a dead-letter policy to take it.
    Reject,
}

impl End {
    /// Whether the broker hands the delivery out again.
    pub(super) fn goes_back(self) -> bool {
        matches!(self, End::HandBack | End::GiveUp)
    }
}

/// A frame that ends one delivery, or with `multiple` every outstanding one up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) tag: u64,
    pub(super) end: End,
    pub(super) multiple: bool,
}

impl Frame {
    fn one(tag: u64, end: End) -> Self {
        Frame { tag, end, multiple: false }
    }
}

/// The delivery tags of a channel that no frame has ended yet. The broker counts them up, so one that ends tells of all
/// below it; one that never ends, for the client library kept its delivery to itself, is outstanding for ever.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// The last tag of each range, by its first. None is empty, so there are no more of them than deliveries out.
    ranges: BTreeMap<u64, u64>,
    /// The highest tag that is known.
    highest: u64,
}

impl Outstanding {
    pub(super) fn new() -> Self {
        Outstanding { ranges: BTreeMap::new(), highest: 0 }
    }

    /// The frames for deliveries that have ended, in whatever order those did. All must be written before the next are
    /// asked for; among themselves their order makes no difference, for a run covers nothing but its own deliveries.
    pub(super) fn end(&mut self, ended: impl IntoIterator<Item = (u64, End)>) -> Vec<Frame> {
        let (mut acked, mut frames) = (Vec::new(), Vec::new());
        for (tag, end) in ended {
            self.hear_of(tag);
            match end {
                End::Ack => acked.push(tag),
                end => frames.push(Frame::one(tag, end)),
            }
        }
        acked.sort_unstable();
        let run = self.tags().zip(&acked).take_while(|(outstanding, acked)| outstanding == *acked).count();
        let others = frames.iter().map(|frame| frame.tag);
        acked.iter().copied().chain(others).for_each(|tag| self.settle(tag));
        let (run, stragglers) = acked.split_at(run);
        frames.extend(stragglers.iter().map(|&tag| Frame::one(tag, End::Ack)));
        frames.extend(run.last().map(|&tag| Frame { tag, end: End::Ack, multiple: run.len() > 1 }));
        frames
    }

    fn hear_of(&mut self, tag: u64) {
        if tag > self.highest {
            self.ranges.insert(self.highest + 1, tag);
            self.highest = tag;
        }
    }

    /// All of them, from the lowest.
    fn tags(&self) -> impl Iterator<Item = u64> {
        self.ranges.iter().flat_map(|(&first, &last)| first..=last)
    }

    fn settle(&mut self, tag: u64) {
        let Some((&first, &last)) = self.ranges.range(..=tag).next_back() else { return };
        if tag > last {
            return;
        }
        self.ranges.remove(&first);
        if first < tag {
            self.ranges.insert(first, tag - 1);
        }
        if tag < last {
            self.ranges.insert(tag + 1, last);
        }
    }
}

#[cfg(test)]
mod tests;
