//! The frames that were seen, and the faults that wait for one.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::frame::{Direction, Frame};

/// What happens at a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut, and nothing of the frame gets through.
    CutBefore,
    /// The connection is cut when half of its bytes are through.
    CutWithin,
    /// All of it gets through, and nothing behind it in either direction; the connection is cut when the frame had time to
    /// be handled.
    CutAfter,
    /// The frame, and all behind it in its direction, wait for so long.
    Stall(Duration),
}

/// How many frames are listed. Beyond, they are only counted, so that a long run can go through a proxy as well.
const LISTED: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Record(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    frames: Vec<Frame>,
    counts: HashMap<(usize, Direction, &'static str), usize>,
    planned: HashMap<Frame, Fault>,
    struck: Vec<(Frame, Fault)>,
}

impl Record {
    pub(super) fn plan(&self, frame: Frame, fault: Fault) {
        self.known().planned.insert(frame, fault);
    }

    pub(super) fn frames(&self) -> Vec<Frame> {
        self.known().frames.clone()
    }

    pub(super) fn struck(&self) -> Vec<(Frame, Fault)> {
        self.known().struck.clone()
    }

    /// Counts a frame. Gives the fault that was planned for it, once.
    pub(super) fn meet(&self, connection: usize, direction: Direction, name: &'static str) -> Option<Fault> {
        let mut known = self.known();
        let count = known.counts.entry((connection, direction, name)).or_default();
        *count += 1;
        let frame = Frame { connection, direction, name, ordinal: *count };
        if known.frames.len() < LISTED {
            known.frames.push(frame);
        }
        let fault = known.planned.remove(&frame)?;
        known.struck.push((frame, fault));
        Some(fault)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
