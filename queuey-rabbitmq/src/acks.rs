//! What tells the broker how deliveries ended: one writer per consumer channel, so that the order is that of settling.

use lapin::{
    Channel,
    options::{BasicAckOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions},
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

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
    /// Starts the writer of a channel. It ends, and `ended` fires, when the last delivery of the channel is gone.
    pub(crate) fn start(
        channel: Channel,
        prefetch: u16,
        lost: CancellationToken,
    ) -> (Self, CancellationToken) {
        // Every delivery is ended once, and the broker lets no more than the prefetch be out.
        let (commands, received) = mpsc::channel(usize::from(prefetch) + 1);
        let ended = CancellationToken::new();
        let writer = Writer { channel, prefetch, lost, _ended: ended.clone().drop_guard() };
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

struct Writer {
    channel: Channel,
    prefetch: u16,
    lost: CancellationToken,
    _ended: DropGuard,
}

impl Writer {
    async fn write_all(self, mut commands: mpsc::Receiver<Command>) {
        while let Some(command) = commands.recv().await {
            match command {
                Command::End { tag, end, written } => {
                    let done = !self.lost.is_cancelled() && self.write(tag, end).await.is_ok();
                    if !done {
                        self.lost.cancel();
                    }
                    if let Some(written) = written {
                        let _ = written.send(done);
                    }
                }
                Command::Flush(answer) => {
                    // Setting the prefetch to what it is changes nothing, and is answered in its turn.
                    let _ = self.channel.basic_qos(self.prefetch, BasicQosOptions::default()).await;
                    let _ = answer.send(());
                }
            }
        }
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
