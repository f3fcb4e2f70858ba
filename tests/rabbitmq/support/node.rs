//! A node of a test's own comes back from whatever the test does to it, and goes with the test.

use lapin::BasicProperties;
use queuey_tests::{Admin, Node, broker_version, unique, until};
use tokio::net::TcpStream;

use super::{Client, declare};

#[tokio::test]
async fn a_crash_and_a_stop_keep_durable_messages_and_the_url() {
    let Some(node) = Node::start().await else { return };
    let (admin, queue) = (Admin::new(node.url()), unique("node", "durable"));
    declare(&admin, &queue).await;
    for (way, body) in [("crash", b"1"), ("stop", b"2")] {
        let client = Client::connect(node.url()).await.unwrap();
        admin.publish(&queue, body, BasicProperties::default().with_delivery_mode(2)).await;
        match way {
            "crash" => node.kill9().await,
            _ => node.stop().await,
        }
        until(way, || !client.connection.status().connected()).await;
        assert!(TcpStream::connect(address(&node)).await.is_err());
        node.restart().await;
    }
    let bodies: Vec<_> = admin.take_all(&queue).await.into_iter().map(|message| message.body).collect();
    assert_eq!(bodies, [b"1", b"2"]);
}

#[tokio::test]
async fn it_has_the_version_and_the_configuration_that_were_asked_for() {
    let options = Node::options().conf("consumer_timeout = 5000\nheartbeat = 7");
    let options = options.advanced("[{rabbit, [{channel_tick_interval, 1000}]}].");
    let Some(node) = options.start().await else { return };
    let keys = ["consumer_timeout", "heartbeat", "channel_tick_interval"];
    let keys = keys.map(|key| format!("application:get_env(rabbit, {key})")).join(", ");
    node.kill9().await;
    node.restart().await;
    let values = node.ctl(&["eval", &format!("[{keys}].")]).await;
    assert_eq!(values.trim(), "[{ok,5000},{ok,7},{ok,1000}]");
    let version = node.ctl(&["version"]).await;
    assert!(broker_version() == "host" || version.starts_with(&broker_version()), "{version}");
}

#[tokio::test]
async fn a_memory_alarm_holds_publishes_up_until_it_ends() {
    let Some(node) = Node::start().await else { return };
    let (admin, queue) = (Admin::new(node.url()), unique("node", "alarm"));
    declare(&admin, &queue).await;
    let client = Client::connect(node.url()).await.unwrap();
    node.memory_alarm(true).await;
    let publishing = async { client.publish(&queue, b"late").await.unwrap() };
    tokio::pin!(publishing);
    let blocked = async { until("blocked", || client.connection.status().blocked()).await };
    tokio::select! {
        _ = &mut publishing => panic!("confirmed during the alarm"),
        () = blocked => {}
    }
    assert_eq!(admin.ready(&queue).await, 0);
    node.memory_alarm(false).await;
    assert!(publishing.await);
    assert_eq!(admin.ready(&queue).await, 1);
}

#[tokio::test]
async fn nodes_run_side_by_side_and_end_with_their_test() {
    let (one, other) = tokio::join!(Node::start(), Node::start());
    let (Some(one), Some(other)) = (one, other) else { return };
    assert_ne!(address(&one), address(&other));
    let (gone, folder) = (address(&one), one.folder().to_owned());
    assert!(folder.join("log/node.log").exists());
    drop(one);
    // Neither the server is left nor its epmd.
    for port in [port(&gone), port(&gone) + 21_000] {
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "{port}");
    }
    assert!(!folder.exists());
    assert!(TcpStream::connect(address(&other)).await.is_ok());
}

fn address(node: &Node) -> String {
    let (_, address) = node.url().split_once('@').unwrap();
    address.trim_end_matches("/%2f").to_owned()
}

fn port(address: &str) -> u16 {
    address.rsplit(':').next().unwrap().parse().unwrap()
}
