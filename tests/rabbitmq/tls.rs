//! `amqps://`: with a certificate that is trusted, and with those that are not.
//!
//! The certificates are good for a hundred years. `authority.pem` signed itself with `openssl req -x509`, and with
//! `openssl x509 -req` the broker's, whose only name is `localhost`.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use queuey::{Backend, Error, QueueConfig, RabbitMqBackend, RabbitMqOptions};
use queuey_tests::{Admin, Node, unique};

use crate::scene::{SECOND, SLACK, clear, connect, drain, job};

/// What the test in a process of its own is given.
const URL: &str = "QUEUEY_TEST_TLS_URL";

/// Why a connect fails, with all its sources.
async fn refusal(url: &str) -> String {
    let options = RabbitMqOptions::default().connect_timeout(5 * SECOND);
    let start = Instant::now();
    let error = RabbitMqBackend::with_options(url, options).await.expect_err("connected");
    assert!(start.elapsed() < Duration::from_secs(5) + SLACK);
    assert!(matches!(error, Error::Backend(_)), "{error:?}");
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    assert!(!text.contains("guest"), "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_the_system_trusts_is_trusted_and_nobody_else() {
    if let Ok(url) = std::env::var(URL) {
        return jobs_go_over_tls(&url).await;
    }
    let options = Node::options().tls(include_str!("tls/broker.pem"), include_str!("tls/broker.key"));
    let Some(node) = options.start().await else { return };
    let text = refusal(&node.tls_url()).await;
    assert!(text.contains("certificate"), "{text}");
    for word in ["localhost", "could not connect"] {
        assert!(text.contains(word), "{text}");
    }
    // TLS to who does not speak it, and the other way round.
    refusal(&node.url().replace("amqp://", "amqps://").replace("127.0.0.1", "localhost")).await;
    let text = refusal(&node.tls_url().replace("amqps://", "amqp://")).await;
    // It closes at once, and what it says about that may come through before.
    assert!(text.contains("`amqps://`") || text.contains("reset"), "{text}");

    // `SSL_CERT_FILE` names whom the system trusts. The environment of a process can't be changed while others read it, so
    // what goes on from here has a process of its own.
    let authority = Path::new(env!("CARGO_MANIFEST_DIR")).join("rabbitmq/tls/authority.pem");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "tls::whom_the_system_trusts_is_trusted_and_nobody_else"]);
    child.env(URL, node.tls_url()).env("SSL_CERT_FILE", authority);
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// What the child does, whose system trusts the node's authority.
async fn jobs_go_over_tls(url: &str) {
    let (backend, events) = connect(url, RabbitMqOptions::default()).await;
    let config = QueueConfig::new(unique("tls", "jobs"));
    backend.declare(std::slice::from_ref(&config)).await.unwrap();
    let mut stream = backend.consume(&config).await.unwrap();
    let large = "x".repeat(1_000_000);
    for label in ["small", &large] {
        backend.publish(&job(&config, label), None).await.unwrap();
    }
    backend.publish(&job(&config, "held"), Some(SECOND)).await.unwrap();
    assert_eq!(drain(&mut stream, 3).await, ["small", &large, "held"]);
    assert_eq!(events.lost(), 0);
    // Whoever is not called `localhost` is not who the certificate speaks of.
    let text = refusal(&url.replace("localhost", "127.0.0.1")).await;
    assert!(text.contains("certificate") && text.contains("127.0.0.1"), "{text}");
    drop(stream);
    clear(&backend, &Admin::new(url), &[&config.name], &[SECOND]).await;
}
