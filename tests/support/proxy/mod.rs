//! A network that fails on demand: a TCP proxy between a client and its broker.

mod frame;
mod record;
mod line;

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use frame::{Direction, Frame, NoFrame};
pub use record::Fault;

use line::Line;
use record::Record;

/// Passes connections on to a broker. When it is dropped, so are they.
///
/// It runs in the runtime that started it. Where no broker answers, it takes the connection and resets it.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    url: String,
    port: u16,
    door: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    /// Host and port of the broker.
    broker: String,
    record: Record,
    cuts: watch::Sender<()>,
    stalled: watch::Sender<bool>,
    /// Whether connections are closed as soon as they are taken.
    closing: AtomicBool,
    taken: AtomicUsize,
    open: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy to the broker of an AMQP URL.
    pub async fn start(broker: &str) -> Self {
        let (before, address, after) = split(broker);
        let shared = Arc::new(Shared {
            broker: address,
            record: Record::default(),
            cuts: watch::Sender::default(),
            stalled: watch::Sender::default(),
            closing: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
        });
        let (listener, port) = listen().await;
        let url = format!("{before}127.0.0.1:{port}{after}");
        let door = Mutex::new(Some(tokio::spawn(attend(listener, Arc::clone(&shared)))));
        Proxy { shared, url, port, door }
    }

    /// The URL that leads through this proxy; all else in it is as in the broker's.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many connections were taken so far, those that were closed at once too.
    pub fn connections(&self) -> usize {
        self.shared.taken.load(Ordering::SeqCst)
    }

    /// How many connections are passed on now.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Resets all connections, on both sides. New ones are taken.
    pub fn cut(&self) {
        self.shared.cuts.send_replace(());
    }

    /// Passes nothing on any more, in neither direction, and keeps the connections: a network that is gone. New connections
    /// are taken, and stall as well.
    pub fn stall(&self) {
        self.shared.stalled.send_replace(true);
    }

    /// Passes on again, first what came during the stall: a network that is back.
    pub fn resume(&self) {
        self.shared.stalled.send_replace(false);
    }

    /// Takes new connections and closes them at once. Those that are open stay.
    pub fn close_new(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
    }

    /// Does not listen any more: new connections are refused. Those that are open stay.
    pub async fn refuse_new(&self) {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(door) = door {
            door.abort();
            let _ = door.await;
        }
    }

    /// Takes new connections again, after [`close_new`](Self::close_new) or [`refuse_new`](Self::refuse_new).
    pub async fn accept_new(&self) {
        self.shared.closing.store(false, Ordering::SeqCst);
        self.refuse_new().await;
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await.expect("the port is still free");
        let door = tokio::spawn(attend(listener, Arc::clone(&self.shared)));
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = Some(door);
    }

    /// The frames so far, in the order in which they were passed on; the first hundred thousand of them.
    pub fn frames(&self) -> Vec<Frame> {
        self.shared.record.frames()
    }

    /// Lets a fault strike at a frame that is still to come, once.
    pub fn plan(&self, frame: Frame, fault: Fault) {
        self.shared.record.plan(frame, fault);
    }

    /// The faults that struck so far.
    pub fn struck(&self) -> Vec<(Frame, Fault)> {
        self.shared.record.struck()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(door) = self.door.get_mut().unwrap_or_else(PoisonError::into_inner) {
            door.abort();
        }
        self.cut();
    }
}

/// Takes connections for as long as it is let.
async fn attend(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, say: whoever has them must get a turn.
            tokio::task::yield_now().await;
            continue;
        };
        let number = shared.taken.fetch_add(1, Ordering::SeqCst) + 1;
        if !shared.closing.load(Ordering::SeqCst) {
            tokio::spawn(Line::new(Arc::clone(&shared), number).run(client));
        }
    }
}

/// Listens below the ports that the kernel gives to clients. Of those one might take the port of a proxy that refuses, or
/// meet itself there.
async fn listen() -> (TcpListener, u16) {
    for _ in 0..1000 {
        let port = fastrand::u16(10_000..20_000);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            return (listener, port);
        }
    }
    panic!("no free port");
}

/// What is before host and port in a URL, the two, and what is behind.
fn split(url: &str) -> (&str, String, &str) {
    let start = url.find("://").unwrap_or_else(|| panic!("no URL: {url:?}")) + 3;
    let end = url[start..].find(['/', '?']).map_or(url.len(), |path| start + path);
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let host = &url[start..end];
    let port = if url.starts_with("amqps") { 5671 } else { 5672 };
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
    (&url[..start], address, &url[end..])
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn host_and_port_are_found_in_a_url() {
        for (url, before, address, after) in [
            ("amqp://a:b@h:5/%2f?x=1", "amqp://a:b@", "h:5", "/%2f?x=1"),
            ("amqp://h", "amqp://", "h:5672", ""),
            ("amqps://a:p%40q@h/v", "amqps://a:p%40q@", "h:5671", "/v"),
            ("amqp://h:7?x=a@b", "amqp://", "h:7", "?x=a@b"),
        ] {
            assert_eq!(split(url), (before, address.to_owned(), after));
        }
    }
}
