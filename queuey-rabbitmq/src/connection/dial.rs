//! Makes a connection, within a time that holds for all of it.
//!
//! A connect of the client library that hangs goes on when its future is dropped, on a thread of its own. So the socket
//! is opened here and kept within reach: shutting it ends that thread.

use std::{
    io,
    net::Shutdown,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use lapin::{
    Connection, ConnectionProperties,
    tcp::{AsyncTcpStream, TLSConfig},
    uri::AMQPScheme,
};
use queuey_core::{Error, Result};
use socket2::{SockRef, Socket as RawSocket};
use tokio_util::sync::CancellationToken;

use crate::{
    address::Address,
    error::{Failure, of_dial},
};

/// How to dial.
#[derive(Debug, Clone)]
pub(crate) struct Dialler {
    pub(crate) addresses: Arc<[Address]>,
    pub(crate) name: String,
    pub(crate) timeout: Duration,
    pub(crate) heartbeat: u16,
}

/// A connection that was made, and its socket.
pub(crate) struct Dialled {
    pub(crate) connection: Connection,
    pub(crate) socket: Socket,
}

impl Dialler {
    /// Tries the addresses in turn.
    ///
    /// # Errors
    ///
    /// What the last one failed with.
    pub(crate) async fn dial(&self) -> Result<Dialled> {
        let mut last = Error::NotConnected;
        for address in self.addresses.iter() {
            match self.dial_one(address).await {
                Ok(dialled) => return Ok(dialled),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn dial_one(&self, address: &Address) -> Result<Dialled> {
        let runtime = lapin::runtime::default_runtime()
            .map_err(|error| Failure::caused("there is no runtime to connect on", error))?;
        let properties = ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let socket = Socket::default();
        let opened = socket.clone();
        let guard = ShutOnDrop(Some(socket));
        let uri = address.uri(self.heartbeat);
        let dialling = Connection::connector(
            uri,
            runtime,
            async move |uri, runtime| {
                let (host, port) = (uri.authority.host, uri.authority.port);
                let addresses = runtime.to_socket_addrs((host.clone(), port));
                let opening = async {
                    let stream = AsyncTcpStream::connect(&runtime, addresses).await?;
                    if let AsyncTcpStream::Plain(plain) = &stream {
                        opened.keep(SockRef::from(plain.get_ref()).try_clone()?)?;
                    }
                    match uri.scheme {
                        AMQPScheme::AMQP => Ok(stream),
                        AMQPScheme::AMQPS => stream.into_tls(&host, TLSConfig::default()).await,
                    }
                };
                tokio::select! {
                    stream = opening => stream.map_err(lapin::Error::from),
                    () = opened.shut.cancelled() => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                }
            },
            properties,
        );
        match tokio::time::timeout(self.timeout, dialling).await {
            Ok(Ok(connection)) => Ok(Dialled { connection, socket: guard.disarm() }),
            Ok(Err(error)) => Err(of_dial(&address.shown(), &error)),
            Err(_) => Err(Failure::plain(format!(
                "no connection to the broker at {} within {:?}",
                address.shown(),
                self.timeout
            ))),
        }
    }
}

/// The socket of a connection, to shut it whatever the client library does.
#[derive(Clone, Default)]
pub(crate) struct Socket {
    raw: Arc<Mutex<Option<RawSocket>>>,
    shut: CancellationToken,
}

impl Socket {
    fn keep(&self, raw: RawSocket) -> io::Result<()> {
        let mut kept = self.raw.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shut.is_cancelled() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        *kept = Some(raw);
        Ok(())
    }

    /// Ends the connection at once.
    pub(crate) fn shut(&self) {
        self.shut.cancel();
        if let Some(raw) = self.raw.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It may be gone already.
            let _ = raw.shutdown(Shutdown::Both);
        }
    }
}

/// Shuts a socket whose dial came to nothing, or was given up.
struct ShutOnDrop(Option<Socket>);

impl ShutOnDrop {
    fn disarm(mut self) -> Socket {
        self.0.take().unwrap_or_default()
    }
}

impl Drop for ShutOnDrop {
    fn drop(&mut self) {
        if let Some(socket) = &self.0 {
            socket.shut();
        }
    }
}
