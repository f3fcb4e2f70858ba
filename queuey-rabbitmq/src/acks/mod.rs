//! What tells the broker how deliveries ended: one writer per consumer channel, which acknowledges many in one frame.

use std::sync::Arc;

use lapin::Channel;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

mod outstanding;
mod writer;

pub(crate) use outstanding::End;
pub(crate) use writer::Signals;

use writer::{Command, Ended, Flush, Writer};

/// Where deliveries of one channel are ended, each once.
pub(crate) struct Acks {
    commands: mpsc::Sender<Command>,
    /// Lets one flush in at a time, so that there is always room for the ends.
    flushing: Arc<Mutex<()>>,
}

impl Acks {
    /// Starts the writer of a channel. It ends, and the token fires, when the last delivery of the channel is gone.
    pub(crate) fn start(channel: Channel, prefetch: u16, signals: Signals) -> (Self, CancellationToken) {
        // Every delivery is ended once, and the broker lets no more than the prefetch be out: with one more place for a
        // flush there is always room.
        let (commands, received) = mpsc::channel(usize::from(prefetch) + 1);
        let ended = CancellationToken::new();
        tokio::spawn(Writer::new(channel, prefetch, signals, &ended).run(received));
        (Acks { commands, flushing: Arc::default() }, ended)
    }

    /// Ends a delivery; false where the channel is gone, and the broker will hand the delivery out again. It is ended though
    /// nobody waits for the answer.
    pub(crate) async fn end(&self, tag: u64, end: End) -> bool {
        let (waiting, written) = oneshot::channel();
        self.tell(Ended { tag, end, waiting: Some(waiting) }) && written.await.unwrap_or(false)
    }

    /// Ends a delivery without waiting for it.
    pub(crate) fn end_now(&self, tag: u64, end: End) {
        self.tell(Ended { tag, end, waiting: None });
    }

    /// Resolves when all that was ended before has reached the broker, or the channel is gone.
    pub(crate) async fn flush(&self) {
        let _turn = self.flushing.clone().lock_owned().await;
        let (answer, answered) = oneshot::channel();
        if self.commands.try_send(Command::Flush(Flush { answer, _turn })).is_ok() {
            let _ = answered.await;
        }
    }

    /// It fails only when the channel is gone.
    fn tell(&self, ended: Ended) -> bool {
        self.commands.try_send(Command::End(ended)).is_ok()
    }
}
