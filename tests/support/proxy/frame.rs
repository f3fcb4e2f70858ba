//! AMQP 0-9-1 frames, as far as their names: what a place in the traffic is called, and where the next frame ends.

use std::{fmt, str::FromStr};

/// Which way a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the broker.
    ToBroker,
    /// From the broker to the client.
    ToClient,
}

/// A frame of a scenario. Its ordinal is among the frames of its name on its connection in its direction, so that neither
/// heartbeats nor batches shift it. Written, and read, as `1>basic.publish#2` or `1<basic.ack#1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The connection, in the order in which the proxy took them, from 1.
    pub connection: usize,
    /// Which way it goes.
    pub direction: Direction,
    /// The method, or `content.header`, `content.body`, `heartbeat`, `protocol.header` or `other`.
    pub name: &'static str,
    /// Which of its name, from 1.
    pub ordinal: usize,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = match self.direction {
            Direction::ToBroker => '>',
            Direction::ToClient => '<',
        };
        write!(f, "{}{arrow}{}#{}", self.connection, self.name, self.ordinal)
    }
}

/// A text that names no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoFrame(String);

impl fmt::Display for NoFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} names no frame; one looks like 1>basic.publish#2", self.0)
    }
}

impl std::error::Error for NoFrame {}

impl FromStr for Frame {
    type Err = NoFrame;

    fn from_str(text: &str) -> Result<Self, NoFrame> {
        parse(text).ok_or_else(|| NoFrame(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Frame> {
    let at = text.find(['>', '<'])?;
    let direction = if text[at..].starts_with('>') { Direction::ToBroker } else { Direction::ToClient };
    let (name, ordinal) = text[at + 1..].split_once('#')?;
    let names = METHODS.iter().map(|&(_, _, name)| name).chain([HEADER, BODY, HEARTBEAT, PROTOCOL, OTHER]);
    Some(Frame {
        connection: text[..at].parse().ok()?,
        direction,
        name: { names }.find(|known| *known == name)?,
        ordinal: ordinal.parse().ok()?,
    })
}

/// What the bytes of one direction begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// A frame of this name and this length.
    Frame(&'static str, usize),
    /// The beginning of one.
    Part,
    /// Something that is not AMQP 0-9-1, TLS for example.
    Foreign,
}

/// The octets before the payload: type, channel, size.
const PREFIX: usize = 7;
const END: u8 = 0xCE;
/// Far above every frame that a broker agrees to: a longer one is not a frame.
const LONGEST: usize = 16 << 20;

/// Looks at the head of the bytes that are not passed on yet.
pub(super) fn head(bytes: &[u8]) -> Head {
    if bytes.first() == Some(&b'A') {
        return if bytes.len() < 8 { Head::Part } else { Head::Frame(PROTOCOL, 8) };
    }
    let Some(prefix) = bytes.get(..PREFIX) else { return Head::Part };
    let payload = u32::from_be_bytes([prefix[3], prefix[4], prefix[5], prefix[6]]) as usize;
    if !matches!(prefix[0], 1 | 2 | 3 | 8) || payload > LONGEST {
        return Head::Foreign;
    }
    let length = PREFIX + payload + 1;
    match bytes.get(length - 1) {
        None => Head::Part,
        Some(&END) => Head::Frame(name(prefix[0], &bytes[PREFIX..length - 1]), length),
        Some(_) => Head::Foreign,
    }
}

fn name(kind: u8, payload: &[u8]) -> &'static str {
    match (kind, payload) {
        (1, &[a, b, c, d, ..]) => {
            let (class, method) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            METHODS.iter().find(|known| (known.0, known.1) == (class, method)).map_or(OTHER, |known| known.2)
        }
        (2, _) => HEADER,
        (3, _) => BODY,
        (8, _) => HEARTBEAT,
        _ => OTHER,
    }
}

const HEADER: &str = "content.header";
const BODY: &str = "content.body";
const HEARTBEAT: &str = "heartbeat";
const PROTOCOL: &str = "protocol.header";
const OTHER: &str = "other";

/// Class, method and name, from the XML of AMQP 0-9-1 and RabbitMQ's extensions to it.
const METHODS: &[(u16, u16, &str)] = &[
    (10, 10, "connection.start"),
    (10, 11, "connection.start-ok"),
    (10, 20, "connection.secure"),
    (10, 21, "connection.secure-ok"),
    (10, 30, "connection.tune"),
    (10, 31, "connection.tune-ok"),
    (10, 40, "connection.open"),
    (10, 41, "connection.open-ok"),
    (10, 50, "connection.close"),
    (10, 51, "connection.close-ok"),
    (10, 60, "connection.blocked"),
    (10, 61, "connection.unblocked"),
    (10, 70, "connection.update-secret"),
    (10, 71, "connection.update-secret-ok"),
    (20, 10, "channel.open"),
    (20, 11, "channel.open-ok"),
    (20, 20, "channel.flow"),
    (20, 21, "channel.flow-ok"),
    (20, 40, "channel.close"),
    (20, 41, "channel.close-ok"),
    (40, 10, "exchange.declare"),
    (40, 11, "exchange.declare-ok"),
    (40, 20, "exchange.delete"),
    (40, 21, "exchange.delete-ok"),
    (50, 10, "queue.declare"),
    (50, 11, "queue.declare-ok"),
    (50, 20, "queue.bind"),
    (50, 21, "queue.bind-ok"),
    (50, 30, "queue.purge"),
    (50, 31, "queue.purge-ok"),
    (50, 40, "queue.delete"),
    (50, 41, "queue.delete-ok"),
    (50, 50, "queue.unbind"),
    (50, 51, "queue.unbind-ok"),
    (60, 10, "basic.qos"),
    (60, 11, "basic.qos-ok"),
    (60, 20, "basic.consume"),
    (60, 21, "basic.consume-ok"),
    (60, 30, "basic.cancel"),
    (60, 31, "basic.cancel-ok"),
    (60, 40, "basic.publish"),
    (60, 50, "basic.return"),
    (60, 60, "basic.deliver"),
    (60, 70, "basic.get"),
    (60, 71, "basic.get-ok"),
    (60, 72, "basic.get-empty"),
    (60, 80, "basic.ack"),
    (60, 90, "basic.reject"),
    (60, 110, "basic.recover"),
    (60, 111, "basic.recover-ok"),
    (60, 120, "basic.nack"),
    (85, 10, "confirm.select"),
    (85, 11, "confirm.select-ok"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["1>basic.publish#2", "12<basic.ack#1", "3>protocol.header#1", "1<heartbeat#30"] {
            assert_eq!(text.parse::<Frame>().unwrap().to_string(), text);
        }
        for text in
            ["", "1>basic.publish", "x<basic.ack#1", "1=basic.ack#1", "1>basic.pubish#1", "1>basic.ack#"]
        {
            let error = text.parse::<Frame>().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{text:?} names no frame; one looks like 1>basic.publish#2")
            );
        }
    }

    #[test]
    fn a_frame_ends_where_its_size_says() {
        let ack = [1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 80, END];
        let heartbeat = [8, 0, 0, 0, 0, 0, 0, END];
        let mut damaged = ack;
        damaged[11] = 0;
        let table: &[(&[u8], Head)] = &[
            (&[], Head::Part),
            (&ack[..6], Head::Part),
            (&ack[..11], Head::Part),
            (&ack, Head::Frame("basic.ack", 12)),
            (&[&ack[..], &heartbeat].concat(), Head::Frame("basic.ack", 12)),
            (&heartbeat, Head::Frame("heartbeat", 8)),
            (&[1, 0, 1, 0, 0, 0, 4, 0, 99, 0, 99, END], Head::Frame("other", 12)),
            (&[1, 0, 1, 0, 0, 0, 1, 0, END], Head::Frame("other", 9)),
            (b"AMQP\0\0\x09", Head::Part),
            (b"AMQP\0\0\x09\x01", Head::Frame("protocol.header", 8)),
            (&damaged, Head::Foreign),
            (&[1, 0, 1, 0xFF, 0, 0, 0], Head::Foreign),
            (&[0x16, 3, 1, 0, 0, 0, 0], Head::Foreign),
        ];
        for (bytes, expected) in table {
            assert_eq!(head(bytes), *expected, "{bytes:?}");
        }
    }
}
