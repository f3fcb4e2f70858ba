//! Logins and virtual hosts whose names hold what an address must encode.

use std::fmt::{Debug, Write};

use queuey::{Backend, Error, QueueConfig, RabbitMqBackend, RabbitMqOptions};
use queuey_tests::{Node, captured_at, eventually, unique};

use crate::scene::{SECOND, connect, drain, job};

const USER: &str = "a@b";
const PASSWORD: &str = "p@ss#/:%$?é";

const ENCODED_USER: &str = "a%40b";
const ENCODED_PASSWORD: &str = "p%40ss%23%2F%3A%25%24%3F%C3%A9";

/// Virtual hosts, and the paths that name them: `/` has two, and one is without a name.
const HOSTS: [(&str, &str); 5] = [("/", ""), ("/", "/%2f"), ("", "/"), ("a/b", "/a%2Fb"), ("ü", "/%C3%BC")];

/// All that was said, to be searched for what must not be in it.
#[derive(Default)]
struct Said(String);

impl Said {
    fn note(&mut self, what: &dyn Debug) {
        write!(self.0, "{what:?}\n{what:#?}\n").unwrap();
    }

    fn note_error(&mut self, error: &Error) {
        self.note(error);
        let mut source: Option<&dyn std::error::Error> = Some(error);
        while let Some(error) = source {
            write!(self.0, "{error}\n{error:?}\n").unwrap();
            source = error.source();
        }
    }

    /// As it is, encoded, and in pieces of which each would give away enough.
    #[track_caller]
    fn assert_no_password(&self, log: &str) {
        for secret in
            [PASSWORD, ENCODED_PASSWORD, "p@ss", "p%40ss", "ss#/", "ss%23", "?é", "%3F%C3%A9", "wrong-one"]
        {
            for (what, text) in [("said", self.0.as_str()), ("logged", log)] {
                let line = text.lines().find(|line| line.contains(secret));
                assert_eq!(line, None, "{secret:?} was {what}");
            }
        }
    }
}

/// A node that knows the user, and these virtual hosts.
async fn node(hosts: &[&str]) -> Option<Node> {
    let node = Node::start().await?;
    node.ctl(&["add_user", USER, PASSWORD]).await;
    for host in hosts {
        if *host != "/" {
            node.ctl(&["add_vhost", host]).await;
        }
        node.ctl(&["set_permissions", "-p", host, USER, ".*", ".*", ".*"]).await;
    }
    Some(node)
}

/// C14. A job goes from end to end on every virtual host, and what is shown of a backend holds no password.
#[tokio::test]
async fn an_encoded_address_leads_to_its_user_and_virtual_host() {
    let Some(node) = node(&["/", "", "a/b", "ü"]).await else { return };
    let port = port(&node);
    let mut said = Said::default();
    let (log, _guard) = captured_at(OURS);
    let mut backends = Vec::new();
    // The second is the first in IPv6.
    for at in ["127.0.0.1", "[::ffff:127.0.0.1]"] {
        for (host, path) in HOSTS {
            let url = format!("amqp://{ENCODED_USER}:{ENCODED_PASSWORD}@{at}:{port}{path}");
            let (backend, events) = connect(&url, RabbitMqOptions::default()).await;
            let config = QueueConfig::new(unique("addresses", &path.replace('/', "-")));
            backend.declare(std::slice::from_ref(&config)).await.unwrap();
            let mut stream = backend.consume(&config).await.unwrap();
            backend.publish(&job(&config, host), None).await.unwrap();
            assert_eq!(drain(&mut stream, 1).await, [host]);
            said.note(&backend);
            said.note(&backend.health().await);
            said.note(&events.all());
            backends.push((backend, host));
        }
    }
    let listed = node.ctl(&["-q", "list_connections", "--no-table-headers", "user", "vhost"]).await;
    let mut listed: Vec<_> = listed.lines().collect();
    // One for publishing, and one for consuming.
    let expected =
        backends.iter().flat_map(|(_, host)| [format!("{USER}\t{host}"), format!("{USER}\t{host}")]);
    let mut expected: Vec<_> = expected.collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    for (backend, _) in backends {
        backend.close().await.unwrap();
    }
    said.assert_no_password(&log.text());
}

/// C14. A refused login is told as such, at first and while reconnecting.
#[tokio::test]
async fn a_login_that_is_refused_is_told_without_the_password() {
    let Some(node) = node(&["ü"]).await else { return };
    let port = port(&node);
    let mut said = Said::default();
    let (log, _guard) = captured_at(OURS);
    let wrong = format!("amqp://{ENCODED_USER}:wrong-one@127.0.0.1:{port}");
    let error = RabbitMqBackend::connect(&wrong).await.expect_err("connected");
    assert!(matches!(error, Error::AccessRefused { .. }), "{error}");
    said.note_error(&error);
    let nowhere = format!("amqp://{ENCODED_USER}:{ENCODED_PASSWORD}@127.0.0.1:{port}/a%2Fc");
    let error = RabbitMqBackend::connect(&nowhere).await.expect_err("connected");
    said.note_error(&error);
    assert!(said.0.contains("percent-encoded"), "{}", said.0);

    let url = format!("amqp://{ENCODED_USER}:{ENCODED_PASSWORD}@127.0.0.1:{port}/%C3%BC");
    // An address that leads nowhere, tried after the first.
    let second = format!("amqp://{ENCODED_USER}:{ENCODED_PASSWORD}@127.0.0.1:1");
    let options = RabbitMqOptions::default().with_addresses([second]).publish_timeout(SECOND);
    said.note(&options);
    let (backend, events) = connect(&url, options).await;
    node.ctl(&["change_password", USER, "another"]).await;
    node.ctl(&["close_all_connections", "--global", "password changed"]).await;
    eventually("it is dialled again", || async {
        backend.health().await.reconnecting.is_some_and(|reconnecting| reconnecting.attempts >= 2)
    })
    .await;
    said.note(&backend.health().await);
    said.note_error(&backend.publish(&job(&QueueConfig::new("q"), "x"), None).await.expect_err("published"));
    node.ctl(&["change_password", USER, PASSWORD]).await;
    eventually("it is back", || async { backend.health().await.connected }).await;
    said.note(&events.all());
    backend.close().await.unwrap();
    assert!(log.lines_with(&["connecting to the broker again"]) > 0, "{}", log.text());
    said.assert_no_password(&log.text());
}

/// C14. What is not encoded is refused before anything is dialled, with a hint.
#[tokio::test]
async fn an_address_that_is_not_encoded_is_refused_with_a_hint() {
    // Nobody is asked.
    let at = "127.0.0.1:1";
    let mut said = Said::default();
    let (log, _guard) = captured_at(OURS);
    let (user, password) = (ENCODED_USER, ENCODED_PASSWORD);
    let mut urls = vec![
        format!("amqp://{USER}:{PASSWORD}@{at}"),
        format!("amqp://{USER}:{password}@{at}"),
        format!("amqp://{user}:{PASSWORD}@{at}"),
        format!("amqp://{user}:{password}@{at}//"),
        format!("amqp://{user}:{password}@{at}/a/b"),
        format!("amqp://{user}:{password}@{at}/ü"),
    ];
    // `:` and `$` may stand in a password as they are.
    urls.extend(["@", "#", "/", "%", "?", "é"].map(|odd| format!("amqp://{user}:p%40ss{odd}@{at}")));
    for url in &urls {
        let error = queuey::connect(url).await.err().expect("connected");
        assert!(matches!(error, Error::InvalidAddress { .. }), "{url}: {error}");
        assert!(error.to_string().contains("percent-encoded"), "{url}: {error}");
        said.note_error(&error);
        let options = RabbitMqOptions::default().with_addresses([url]);
        said.note(&options);
        let error =
            RabbitMqBackend::with_options("amqp://127.0.0.1:1", options).await.expect_err("connected");
        assert!(error.to_string().contains("percent-encoded"), "{url}: {error}");
        said.note_error(&error);
    }
    said.assert_no_password(&log.text());
}

/// What is ours of the log, at every level.
const OURS: &str = "trace,lapin=off,amq_protocol=off,hyper=off";

fn port(node: &Node) -> &str {
    let (_, rest) = node.url().rsplit_once(':').unwrap();
    rest.split_once('/').unwrap().0
}
