//! One connection through the proxy: bytes are passed on frame by frame, until an end closes or somebody cuts.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
};

use super::{
    Shared,
    frame::{Direction, Head, head},
    record::Fault,
};

/// A connection under way. It counts as open as long as this lives.
pub(super) struct Line {
    shared: Arc<Shared>,
    number: usize,
    cuts: watch::Receiver<()>,
    /// Whether nothing is passed on any more, since the last frame before a cut is through.
    sealed: AtomicBool,
}

impl Line {
    pub(super) fn new(shared: Arc<Shared>, number: usize) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        // Every cut from now on is seen, though the line may not run yet.
        let cuts = shared.cuts.subscribe();
        Line { shared, number, cuts, sealed: AtomicBool::new(false) }
    }

    /// Joins a client with the broker until both have closed, or it is cut.
    pub(super) async fn run(self, client: TcpStream) {
        let mut cuts = self.cuts.clone();
        tokio::select! {
            // Why it ended is the business of the two ends.
            _ = self.join(client) => {}
            _ = cuts.changed() => {}
        }
    }

    async fn join(&self, mut client: TcpStream) -> io::Result<()> {
        prepare(&client)?;
        let mut broker = TcpStream::connect(&self.shared.broker).await?;
        prepare(&broker)?;
        let (from_client, to_client) = client.split();
        let (from_broker, to_broker) = broker.split();
        tokio::try_join!(
            self.pass(Direction::ToBroker, from_client, to_broker),
            self.pass(Direction::ToClient, from_broker, to_client),
        )?;
        Ok(())
    }

    async fn pass(&self, direction: Direction, mut from: ReadHalf<'_>, to: WriteHalf<'_>) -> io::Result<()> {
        let mut stalled = self.shared.stalled.subscribe();
        let mut way = Way { line: self, direction, to, bytes: Vec::new(), foreign: false };
        loop {
            way.bytes.reserve(64 << 10);
            let read = from.read_buf(&mut way.bytes).await?;
            // What came since the stall began waits here; behind it the kernel's buffers fill, as on a network that is gone.
            let _ = stalled.wait_for(|stalled| !stalled).await;
            if read == 0 {
                return way.to.shutdown().await;
            }
            if self.sealed.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            way.pass_frames().await?;
        }
    }

    /// Lets the receiver of the last frame handle it. A reset makes a client forget what it has read and not looked at.
    async fn seal(&self) {
        self.sealed.store(true, Ordering::SeqCst);
        // In steps: a process that was held up runs its other tasks between them.
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Dropped before both ends have closed, it is reset: its peer sees a crash and no orderly end.
    stream.set_zero_linger()
}

/// One direction of a line.
struct Way<'a> {
    line: &'a Line,
    direction: Direction,
    to: WriteHalf<'a>,
    /// What is not passed on yet.
    bytes: Vec<u8>,
    /// Whether this is not AMQP; then all is passed on as it comes.
    foreign: bool,
}

impl Way<'_> {
    /// Passes all whole frames on, in one write unless a fault strikes.
    async fn pass_frames(&mut self) -> io::Result<()> {
        let mut whole = 0;
        while whole < self.bytes.len() && !self.foreign {
            match head(&self.bytes[whole..]) {
                Head::Part => break,
                Head::Foreign => self.foreign = true,
                Head::Frame(name, length) => {
                    if let Some(fault) = self.line.shared.record.meet(self.line.number, self.direction, name)
                    {
                        self.write(whole).await?;
                        self.strike(fault, length).await?;
                        whole = 0;
                    }
                    whole += length;
                }
            }
        }
        self.write(if self.foreign { self.bytes.len() } else { whole }).await
    }

    async fn write(&mut self, count: usize) -> io::Result<()> {
        self.to.write_all(&self.bytes[..count]).await?;
        self.bytes.drain(..count);
        Ok(())
    }

    /// An error here ends the line, and so resets both streams.
    async fn strike(&mut self, fault: Fault, length: usize) -> io::Result<()> {
        let through = match fault {
            Fault::Stall(time) => {
                tokio::time::sleep(time).await;
                return Ok(());
            }
            Fault::CutBefore => 0,
            Fault::CutWithin => length / 2,
            Fault::CutAfter => length,
        };
        self.write(through).await?;
        if fault == Fault::CutAfter {
            self.line.seal().await;
        }
        Err(io::Error::other("cut at a frame"))
    }
}
