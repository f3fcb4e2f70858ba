//! A client that writes its frames by hand, to send what no library would.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

/// Publishes a message whose `type` is no UTF-8, which the client library can't read.
pub(crate) fn publish_unreadable(url: &str, queue: &str) {
    let place = url.strip_prefix("amqp://").unwrap();
    let (login, place) = place.split_once('@').unwrap_or(("guest:guest", place));
    let (user, password) = login.split_once(':').unwrap();
    let (host, vhost) = place.split_once('/').unwrap_or((place, "%2f"));
    let mut socket = TcpStream::connect(host).unwrap();
    socket.write_all(b"AMQP\0\0\x09\x01").unwrap();
    read(&mut socket);
    let response = format!("\0{user}\0{password}");
    let start_ok = [&[0, 10, 0, 11, 0, 0, 0, 0][..], &short("PLAIN"), &long(&response), &short("en_US")];
    write(&mut socket, METHOD, 0, &start_ok.concat());
    read(&mut socket);
    write(&mut socket, METHOD, 0, &[0, 10, 0, 31, 7, 255, 0, 2, 0, 0, 0, 0]);
    let open = [&[0, 10, 0, 40][..], &short(&vhost.replace("%2f", "/")), &[0, 0]];
    write(&mut socket, METHOD, 0, &open.concat());
    read(&mut socket);
    write(&mut socket, METHOD, 1, &[0, 20, 0, 10, 0]);
    read(&mut socket);
    write(&mut socket, METHOD, 1, &[&[0, 60, 0, 40, 0, 0, 0][..], &short(queue), &[0]].concat());
    // Of the properties only the type, one byte long.
    write(&mut socket, HEADER, 1, &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0x20, 1, 0xff]);
    write(&mut socket, BODY, 1, b"x");
    write(&mut socket, METHOD, 1, &[0, 20, 0, 40, 0, 200, 0, 0, 0, 0, 0]);
    read(&mut socket);
}

fn short(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn long(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
}

fn write(socket: &mut TcpStream, kind: u8, channel: u16, payload: &[u8]) {
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let frame = [&[kind], &channel.to_be_bytes()[..], &size, payload, &[0xce]].concat();
    socket.write_all(&frame).unwrap();
}

/// Reads one frame, whatever it is.
fn read(socket: &mut TcpStream) {
    let mut head = [0; 7];
    socket.read_exact(&mut head).unwrap();
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    socket.read_exact(&mut vec![0; size as usize + 1]).unwrap();
}
