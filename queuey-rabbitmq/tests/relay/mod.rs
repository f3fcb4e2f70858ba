//! A relay in front of the broker that can cut, stall and refuse.

use std::sync::Arc;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// What the relay does.
#[derive(Clone, Copy, Default)]
struct Mode {
    /// Counts up with every cut.
    cuts: u32,
    refuse: bool,
    /// Once this many more pieces have gone to the broker, none goes on in either direction.
    stall_after: Option<u32>,
}

pub(crate) struct Relay(Arc<watch::Sender<Mode>>);

impl Relay {
    /// Listens; gives the address that leads through it.
    pub(crate) async fn start(url: &str) -> (Self, String) {
        let (login, place) = url.rsplit_once('@').unwrap();
        let (broker, vhost) = place.split_once('/').unwrap_or((place, "%2f"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let through = format!("{login}@{}/{vhost}", listener.local_addr().unwrap());
        let mode = Arc::new(watch::channel(Mode::default()).0);
        tokio::spawn(accept(listener, broker.to_owned(), mode.clone()));
        (Relay(mode), through)
    }

    pub(crate) fn cut(&self) {
        self.0.send_modify(|mode| mode.cuts += 1);
    }

    pub(crate) fn refuse(&self, refuse: bool) {
        self.0.send_modify(|mode| mode.refuse = refuse);
    }

    pub(crate) fn stall_after(&self, pieces: u32) {
        self.0.send_modify(|mode| mode.stall_after = Some(pieces));
    }

    pub(crate) fn resume(&self) {
        self.0.send_modify(|mode| mode.stall_after = None);
    }
}

async fn accept(listener: TcpListener, broker: String, mode: Arc<watch::Sender<Mode>>) {
    while let Ok((client, _)) = listener.accept().await {
        if mode.borrow().refuse {
            continue;
        }
        let Ok(server) = TcpStream::connect(&broker).await else { continue };
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        for (mut from, mut to, counts) in [(from_client, to_server, true), (from_server, to_client, false)] {
            let mode = mode.clone();
            tokio::spawn(async move {
                let mut modes = mode.subscribe();
                let cuts = modes.borrow().cuts;
                let mut piece = vec![0; 64 * 1024];
                loop {
                    let size = tokio::select! {
                        size = from.read(&mut piece) => size.unwrap_or(0),
                        _ = modes.wait_for(|mode| mode.cuts != cuts) => return,
                    };
                    if size == 0 {
                        return;
                    }
                    let pass = modes.wait_for(|mode| mode.cuts != cuts || mode.stall_after != Some(0));
                    if pass.await.unwrap().cuts != cuts || to.write_all(&piece[..size]).await.is_err() {
                        return;
                    }
                    if counts {
                        mode.send_modify(|mode| {
                            mode.stall_after = mode.stall_after.map(|left| left.saturating_sub(1));
                        });
                    }
                }
            });
        }
    }
}
