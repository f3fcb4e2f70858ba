//! What tells the broker how deliveries ended: one writer per consumer channel, so that the order is that of settling.

use std::{collections::VecDeque, time::Duration};

use lapin::{
    Channel,
    options::{BasicAckOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a delivery is kept that was dropped unsettled: where its stream is dropped as well, it goes elsewhere.
const GIVE_UP_PAUSE: Duration = Duration::from_millis(200);

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

enum Command {
    End {
        tag: u64,
        end: End,
        written: Option<oneshot::Sender<bool>>,
    },
    /// Asks the broker something, so that its answer tells that all before has come through.
    Flush(oneshot::Sender<()>),
}

/// Where deliveries of one channel are ended.
pub(crate) struct Acks {
    commands: mpsc::Sender<Command>,
    /// Lets one flush in at a time, so that there is always room for the ends.
    flushing: tokio::sync::Mutex<()>,
}

impl Acks {
    /// Starts the writer of a channel. It ends, and the token fires, when the last delivery of the channel is gone.
    pub(crate) fn start(channel: Channel, prefetch: u16, signals: Signals) -> (Self, CancellationToken) {
        // Every delivery is ended once, and the broker lets no more than the prefetch be out.
        let (commands, received) = mpsc::channel(usize::from(prefetch) + 1);
        let ended = CancellationToken::new();
        let given_up = VecDeque::new();
        let writer = Writer { channel, prefetch, signals, given_up, _ended: ended.clone().drop_guard() };
        tokio::spawn(writer.write_all(received));
        (Acks { commands, flushing: tokio::sync::Mutex::default() }, ended)
    }

    /// Ends a delivery; false where the channel is gone, and the broker will hand the delivery out again.
    pub(crate) async fn end(&self, tag: u64, end: End) -> bool {
        let (written, was_written) = oneshot::channel();
        let sent = self.commands.send(Command::End { tag, end, written: Some(written) }).await;
        sent.is_ok() && was_written.await.unwrap_or(false)
    }

    /// Ends a delivery without waiting for it.
    pub(crate) fn end_now(&self, tag: u64, end: End) {
        // It fails only when the channel is gone.
        let _ = self.commands.try_send(Command::End { tag, end, written: None });
    }

    /// Resolves when all that was ended before has reached the broker, or the channel is gone.
    pub(crate) async fn flush(&self) {
        let _one = self.flushing.lock().await;
        let (answer, answered) = oneshot::channel();
        if self.commands.send(Command::Flush(answer)).await.is_ok() {
            let _ = answered.await;
        }
    }
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

struct Writer {
    channel: Channel,
    prefetch: u16,
    signals: Signals,
    /// Deliveries that nobody settled, and when they go back.
    given_up: VecDeque<(u64, Instant)>,
    _ended: DropGuard,
}

impl Writer {
    async fn write_all(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let due = self.given_up.front().map(|(_, due)| *due);
            let command = tokio::select! {
                biased;
                command = commands.recv() => command,
                () = at(due) => {
                    self.write_given_up().await;
                    continue;
                }
            };
            match command {
                Some(Command::End { tag, end: End::GiveUp, .. }) => {
                    self.given_up.push_back((tag, Instant::now() + GIVE_UP_PAUSE));
                }
                Some(Command::End { tag, end, written }) => {
                    let done = self.write_one(tag, end).await;
                    if let Some(written) = written {
                        let _ = written.send(done);
                    }
                }
                Some(Command::Flush(answer)) => {
                    self.write_given_up().await;
                    // Setting the prefetch to what it is changes nothing, and is answered in its turn.
                    let _ = self.channel.basic_qos(self.prefetch, BasicQosOptions::default()).await;
                    let _ = answer.send(());
                }
                None => return self.write_given_up().await,
            }
        }
    }

    async fn write_given_up(&mut self) {
        while let Some((tag, _)) = self.given_up.pop_front() {
            self.write_one(tag, End::GiveUp).await;
        }
    }

    async fn write_one(&self, tag: u64, end: End) -> bool {
        if matches!(end, End::HandBack | End::GiveUp) && self.signals.dropped.is_cancelled() {
            // Before the subscription has ended, it would only come here again, and be counted once more.
            tokio::select! {
                () = self.signals.quiet.cancelled() => {}
                () = self.signals.lost.cancelled() => {}
            }
        }
        let done = !self.signals.lost.is_cancelled() && self.write(tag, end).await.is_ok();
        if !done {
            self.signals.lost.cancel();
        }
        done
    }

    async fn write(&self, tag: u64, end: End) -> lapin::Result<()> {
        match end {
            End::Ack => self.channel.basic_ack(tag, BasicAckOptions::default()).await,
            End::HandBack => {
                let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
                self.channel.basic_nack(tag, options).await
            }
            End::GiveUp => self.channel.basic_reject(tag, BasicRejectOptions { requeue: true }).await,
            End::Reject => self.channel.basic_reject(tag, BasicRejectOptions { requeue: false }).await,
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
