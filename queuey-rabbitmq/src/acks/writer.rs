//! The task that alone ends deliveries on a channel: it takes what has ended and waits, and writes that in few frames.

use std::{collections::VecDeque, time::Duration};

use futures_util::future::join_all;
use lapin::{
    Channel,
    options::{BasicAckOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions},
};
use tokio::{
    sync::{OwnedMutexGuard, mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::outstanding::{End, Frame, Outstanding};

/// How long a delivery is kept that was dropped unsettled: where its stream is dropped as well, it goes elsewhere.
const GIVE_UP_PAUSE: Duration = Duration::from_millis(200);

/// What a writer is told.
pub(super) enum Command {
    End(Ended),
    Flush(Flush),
}

/// A delivery that has ended.
pub(super) struct Ended {
    pub(super) tag: u64,
    pub(super) end: End,
    /// Who waits to hear whether that was written.
    pub(super) waiting: Option<oneshot::Sender<bool>>,
}

/// Asks the broker something, so that its answer tells that all before has come through.
pub(super) struct Flush {
    pub(super) answer: oneshot::Sender<()>,
    /// There is one at a time, whoever still waits for it.
    pub(super) _turn: OwnedMutexGuard<()>,
}

/// What a writer has to know of its channel.
#[derive(Clone)]
pub(crate) struct Signals {
    /// The channel is gone.
    pub(crate) lost: CancellationToken,
    /// Nobody wants deliveries any more.
    pub(crate) dropped: CancellationToken,
    /// The broker delivers nothing more.
    pub(crate) quiet: CancellationToken,
}

pub(super) struct Writer {
    channel: Channel,
    prefetch: u16,
    signals: Signals,
    outstanding: Outstanding,
    /// Deliveries that nobody settled, and when they go back.
    given_up: VecDeque<(u64, Instant)>,
    _ended: DropGuard,
}

impl Writer {
    /// A writer whose token fires when it has ended.
    pub(super) fn new(channel: Channel, prefetch: u16, signals: Signals, ended: &CancellationToken) -> Self {
        Writer {
            channel,
            prefetch,
            signals,
            outstanding: Outstanding::new(),
            given_up: VecDeque::new(),
            _ended: ended.clone().drop_guard(),
        }
    }

    /// Writes until nobody is left who could end a delivery.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        // More at once would have the broker wait for room in the prefetch.
        let most = usize::from(self.prefetch / 4).max(1);
        let mut batch = Vec::with_capacity(most);
        loop {
            let due = self.given_up.front().map(|(_, due)| *due);
            tokio::select! {
                biased;
                () = at(due) => self.end_given_up(|due| due <= Instant::now()).await,
                received = commands.recv_many(&mut batch, most) => {
                    if received == 0 {
                        return self.end_given_up(|_| true).await;
                    }
                    gather(&mut commands, &mut batch, most).await;
                    self.carry_out(batch.drain(..)).await;
                }
            }
        }
    }

    async fn carry_out(&mut self, commands: impl Iterator<Item = Command>) {
        let (mut done, mut back, mut flush) = (Vec::new(), Vec::new(), None);
        for command in commands {
            match command {
                Command::Flush(asked) => flush = Some(asked),
                Command::End(Ended { tag, end: End::GiveUp, .. }) => {
                    self.given_up.push_back((tag, Instant::now() + GIVE_UP_PAUSE));
                }
                Command::End(ended) if ended.end.goes_back() => back.push(ended),
                Command::End(ended) => done.push(ended),
            }
        }
        // Going back may have to wait, which is nothing to those that are done.
        self.end(done).await;
        self.end(back).await;
        if let Some(flush) = flush {
            self.flush().await;
            let _ = flush.answer.send(());
        }
    }

    async fn flush(&mut self) {
        self.end_given_up(|_| true).await;
        // Setting the prefetch to what it is changes nothing, and is answered in its turn.
        let _ = self.channel.basic_qos(self.prefetch, BasicQosOptions::default()).await;
    }

    async fn end_given_up(&mut self, is_due: impl Fn(Instant) -> bool) {
        let due = self.given_up.iter().take_while(|(_, due)| is_due(*due)).count();
        let due = self.given_up.drain(..due);
        let ended = due.map(|(tag, _)| Ended { tag, end: End::GiveUp, waiting: None }).collect();
        self.end(ended).await;
    }

    async fn end(&mut self, ended: Vec<Ended>) {
        let frames = self.outstanding.end(ended.iter().map(|ended| (ended.tag, ended.end)));
        let written = self.write(&frames).await;
        for waiting in ended.into_iter().filter_map(|ended| ended.waiting) {
            let _ = waiting.send(written);
        }
    }

    async fn write(&self, frames: &[Frame]) -> bool {
        let back = frames.iter().any(|frame| frame.end.goes_back());
        if back && self.signals.dropped.is_cancelled() {
            // Before the subscription has ended, it would only come here again, and be counted once more.
            tokio::select! {
                () = self.signals.quiet.cancelled() => {}
                () = self.signals.lost.cancelled() => {}
            }
        }
        if self.signals.lost.is_cancelled() {
            return false;
        }
        // Joined, so that they share a write to the socket.
        let written = join_all(frames.iter().map(|frame| self.write_one(frame))).await;
        let done = written.iter().all(Result::is_ok);
        if !done {
            self.signals.lost.cancel();
        }
        done
    }

    async fn write_one(&self, &Frame { tag, end, multiple }: &Frame) -> lapin::Result<()> {
        match end {
            End::Ack => self.channel.basic_ack(tag, BasicAckOptions { multiple }).await,
            End::HandBack => self.channel.basic_nack(tag, BasicNackOptions { multiple, requeue: true }).await,
            End::GiveUp => self.channel.basic_reject(tag, BasicRejectOptions { requeue: true }).await,
            End::Reject => self.channel.basic_reject(tag, BasicRejectOptions { requeue: false }).await,
        }
    }
}

/// Gives those that are about to end a delivery their turn, for as long as more come: what they end goes into the same
/// frame.
async fn gather(commands: &mut mpsc::Receiver<Command>, batch: &mut Vec<Command>, most: usize) {
    while batch.len() < most {
        let before = batch.len();
        tokio::task::yield_now().await;
        while batch.len() < most
            && let Ok(command) = commands.try_recv()
        {
            batch.push(command);
        }
        if batch.len() == before {
            return;
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
