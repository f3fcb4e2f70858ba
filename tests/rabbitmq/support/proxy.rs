//! The proxy passes everything on unharmed, and fails exactly where it is told to.

use std::time::{Duration, Instant};

use lapin::BasicProperties;
use queuey_tests::{Admin, Fault, Frame, Proxy, eventually, shared_broker, unique, until};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{Client, declare};

/// A proxy, an operator on the straight way, and a queue.
struct Setting {
    proxy: Proxy,
    admin: Admin,
    queue: String,
}

impl Setting {
    async fn new(name: &str) -> Option<Self> {
        let url = shared_broker()?;
        let (admin, queue) = (Admin::new(&url), unique("proxy", name));
        declare(&admin, &queue).await;
        Some(Setting { proxy: Proxy::start(&url).await, admin, queue })
    }

    async fn client(&self) -> Client {
        Client::connect(self.proxy.url()).await.unwrap()
    }

    fn plan(&self, frame: &str, fault: Fault) {
        self.proxy.plan(frame.parse().unwrap(), fault);
    }

    async fn bodies(&self) -> Vec<Vec<u8>> {
        self.admin.take_all(&self.queue).await.into_iter().map(|message| message.body).collect()
    }

    async fn end(&self) {
        self.admin.delete(&self.queue).await;
    }
}

#[tokio::test]
async fn every_byte_passes_in_its_order() {
    let Some(setting) = Setting::new("unharmed").await else { return };
    let through = Admin::new(setting.proxy.url());
    let bodies: Vec<Vec<u8>> = [0, 1, 4_000, 131_064, 131_065, 2 << 20]
        .into_iter()
        .map(|length: usize| (0..length).map(|at| (at % 251) as u8).collect())
        .collect();
    for body in &bodies {
        through.publish(&setting.queue, body, BasicProperties::default()).await;
    }
    let messages = through.take_all(&setting.queue).await;
    assert!(messages.into_iter().map(|message| message.body).eq(bodies));
    assert_eq!((setting.proxy.connections(), setting.proxy.open()), (1, 1));
    setting.end().await;
}

#[tokio::test]
async fn frames_are_named_both_ways_and_on_each_connection() {
    let Some(setting) = Setting::new("named").await else { return };
    for _ in 0..2 {
        let client = setting.client().await;
        for body in [b"a", b"b"] {
            assert!(client.publish(&setting.queue, body).await.unwrap());
        }
    }
    let names: Vec<_> = setting.proxy.frames().iter().map(Frame::to_string).collect();
    let opening = [
        "1>protocol.header#1",
        "1<connection.start#1",
        "1>connection.start-ok#1",
        "1<connection.tune#1",
        "1>connection.tune-ok#1",
        "1>connection.open#1",
        "1<connection.open-ok#1",
        "1>channel.open#1",
        "1<channel.open-ok#1",
        "1>confirm.select#1",
        "1<confirm.select-ok#1",
        "1>basic.publish#1",
        "1>content.header#1",
        "1>content.body#1",
        "1<basic.ack#1",
        "1>basic.publish#2",
    ];
    assert_eq!(names[..opening.len()], opening);
    assert!(names.iter().any(|name| name == "2<basic.ack#2"), "{names:?}");
    setting.end().await;
}

#[tokio::test]
async fn a_cut_towards_the_broker_is_where_it_was_planned() {
    let Some(setting) = Setting::new("cut_there").await else { return };
    // Many times, for a reset might overtake what was passed on before it.
    for round in 0..5 {
        for (frame, fault, arrives) in [
            ("basic.publish#2", Fault::CutBefore, false),
            ("basic.publish#2", Fault::CutAfter, false),
            ("content.header#2", Fault::CutWithin, false),
            ("content.body#2", Fault::CutBefore, false),
            ("content.body#2", Fault::CutWithin, false),
            ("content.body#2", Fault::CutAfter, true),
        ] {
            let frame = format!("{}>{frame}", setting.proxy.connections() + 1);
            setting.plan(&frame, fault);
            let client = setting.client().await;
            assert!(client.publish(&setting.queue, b"before").await.unwrap());
            assert!(client.publish(&setting.queue, b"at the cut").await.is_err());
            until("cut", || setting.proxy.open() == 0).await;
            let expected = 1 + u32::from(arrives);
            let arrived = async || setting.admin.ready(&setting.queue).await == expected;
            eventually(&format!("{expected} after {fault:?} of {frame}, round {round}"), arrived).await;
            setting.bodies().await;
        }
    }
    assert_eq!(setting.proxy.struck().len(), 5 * 6);
    setting.end().await;
}

#[tokio::test]
async fn a_cut_towards_the_client_is_where_it_was_planned() {
    let Some(setting) = Setting::new("cut_here").await else { return };
    for round in 0..5 {
        for (fault, answered) in
            [(Fault::CutBefore, false), (Fault::CutWithin, false), (Fault::CutAfter, true)]
        {
            let frame = format!("{}<basic.ack#1", setting.proxy.connections() + 1);
            setting.plan(&frame, fault);
            let client = setting.client().await;
            let confirmed = client.publish(&setting.queue, b"body").await;
            assert_eq!(confirmed.is_ok(), answered, "{fault:?} of {frame}, round {round}: {confirmed:?}");
            until("the client knows", || !client.connection.status().connected()).await;
            assert_eq!(setting.bodies().await, [b"body"]);
        }
    }
    setting.end().await;
}

#[tokio::test]
async fn a_cut_ends_all_connections_and_new_ones_are_taken() {
    let Some(setting) = Setting::new("cut_all").await else { return };
    let clients = [setting.client().await, setting.client().await];
    assert_eq!(setting.proxy.open(), 2);
    setting.proxy.cut();
    until("both know", || clients.iter().all(|client| !client.connection.status().connected())).await;
    until("both are gone", || setting.proxy.open() == 0).await;
    assert!(setting.client().await.publish(&setting.queue, b"body").await.unwrap());
    assert_eq!(setting.proxy.connections(), 3);
    setting.end().await;
}

#[tokio::test]
async fn a_stall_holds_all_back_and_loses_nothing() {
    let Some(setting) = Setting::new("stall").await else { return };
    let client = setting.client().await;
    setting.proxy.stall();
    let publishing = client.publish(&setting.queue, b"body");
    tokio::pin!(publishing);
    // What goes the straight way arrives meanwhile.
    tokio::select! {
        confirmed = &mut publishing => panic!("{confirmed:?} through a stalled proxy"),
        () = setting.admin.publish(&setting.queue, b"straight", BasicProperties::default()) => {}
    }
    assert_eq!(setting.bodies().await, [b"straight"]);
    setting.proxy.resume();
    assert!(publishing.await.unwrap());
    assert_eq!(setting.bodies().await, [b"body"]);
    setting.end().await;
}

#[tokio::test]
async fn a_connection_can_be_cut_while_it_stalls() {
    let Some(setting) = Setting::new("stalled_cut").await else { return };
    let client = setting.client().await;
    setting.proxy.stall();
    let publishing = client.publish(&setting.queue, b"body");
    tokio::pin!(publishing);
    tokio::select! {
        confirmed = &mut publishing => panic!("{confirmed:?} through a stalled proxy"),
        _ = setting.bodies() => {}
    }
    setting.proxy.cut();
    assert!(publishing.await.is_err());
    assert!(setting.bodies().await.is_empty());
    setting.end().await;
}

#[tokio::test]
async fn a_frame_waits_as_long_as_planned_and_what_is_behind_it_too() {
    let Some(setting) = Setting::new("stalled_frame").await else { return };
    let stall = Duration::from_millis(300);
    for frame in ["1>content.body#1", "2<basic.ack#1"] {
        setting.plan(frame, Fault::Stall(stall));
        let client = setting.client().await;
        let start = Instant::now();
        let (one, two) = tokio::join!(
            client.publish(&setting.queue, b"stalled"),
            client.publish(&setting.queue, b"behind"),
        );
        assert!(one.unwrap() && two.unwrap());
        assert!(start.elapsed() >= stall, "{frame}: {:?}", start.elapsed());
        assert_eq!(setting.bodies().await, [&b"stalled"[..], b"behind"]);
    }
    assert_eq!(setting.proxy.struck().len(), 2);
    setting.end().await;
}

#[tokio::test]
async fn new_connections_are_closed_or_refused_as_told() {
    let Some(setting) = Setting::new("door").await else { return };
    let client = setting.client().await;
    setting.proxy.close_new();
    assert!(Client::connect(setting.proxy.url()).await.is_err());
    let taken = setting.proxy.connections();
    assert!(taken >= 2, "{taken}");
    setting.proxy.refuse_new().await;
    assert!(Client::connect(setting.proxy.url()).await.is_err());
    assert_eq!(setting.proxy.connections(), taken);
    // Who is in, stays in.
    assert!(client.publish(&setting.queue, b"body").await.unwrap());
    setting.proxy.accept_new().await;
    assert!(setting.client().await.publish(&setting.queue, b"body").await.unwrap());
    assert_eq!(setting.proxy.connections(), taken + 1);
    setting.end().await;
}

#[tokio::test]
async fn what_is_not_amqp_passes_as_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(&format!("amqps://{}", listener.local_addr().unwrap())).await;
    let echo = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let (mut from, mut to) = client.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap()
    });
    let (_, address) = proxy.url().split_once("://").unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    // The second part looks like the beginning of a frame.
    for part in [&[0x16, 3, 1, 0, 200, 1, 0, 0][..], &[1, 0, 1, 0, 0, 0, 9]] {
        client.write_all(part).await.unwrap();
        let mut back = vec![0; part.len()];
        client.read_exact(&mut back).await.unwrap();
        assert_eq!(back, part);
    }
    client.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(echo.await.unwrap(), 15);
    until("closed", || proxy.open() == 0).await;
}

#[tokio::test]
async fn without_a_broker_behind_it_a_connection_is_reset() {
    let proxy = Proxy::start("amqp://127.0.0.1:1").await;
    assert!(Client::connect(proxy.url()).await.is_err());
    assert!(proxy.connections() > 0);
    until("gone", || proxy.open() == 0).await;
}
