//! Brokers that will not have us: refused for a while or for good, and what that costs them and us.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use queuey::{
    Backend, ConnectionEvent, DeliveryStream, Error, QueueConfig, RabbitMqBackend, RabbitMqOptions,
};
use queuey_tests::{Admin, Node, Proxy, eventually, shared_broker, unique};

use crate::scene::{Events, SECOND, SLACK, clear, connect, drain, is_long, job};

/// A worker's share of a fleet: a backend with a queue of its own, consumed.
struct Member {
    backend: Arc<RabbitMqBackend>,
    events: Events,
    config: QueueConfig,
    stream: DeliveryStream,
}

impl Member {
    async fn join(url: &str, label: &str, number: usize) -> Self {
        let (backend, events) = connect(url, RabbitMqOptions::default()).await;
        let config = QueueConfig::new(unique("access", &format!("{label}.{number}")));
        backend.declare(std::slice::from_ref(&config)).await.unwrap();
        let stream = backend.consume(&config).await.unwrap();
        Member { backend, events, config, stream }
    }

    /// When its connections were dialled again since `start`.
    fn attempts(&self, start: Instant) -> Vec<Instant> {
        let dialled = |event: &ConnectionEvent| matches!(event, ConnectionEvent::Reconnecting { .. });
        let all = self.events.all().into_iter();
        all.filter(|(at, event)| *at >= start && dialled(event)).map(|(at, _)| at).collect()
    }

    async fn reason(&self) -> String {
        self.backend.health().await.reconnecting.map(|reconnecting| reconnecting.reason).unwrap_or_default()
    }

    /// A job goes through from end to end.
    async fn works(&mut self, label: &str) {
        self.backend.publish(&job(&self.config, label), None).await.unwrap();
        assert_eq!(drain(&mut self.stream, 1).await, [label]);
    }
}

/// How often a connection may be dialled in this time: at once, then after at least half of 500 ms, 1 s, 2 s… up to 30 s.
fn most_attempts(time: Duration) -> usize {
    let mut left = time;
    let mut attempts = 1;
    let mut wait = Duration::from_millis(250);
    while let Some(rest) = left.checked_sub(wait) {
        left = rest;
        attempts += 1;
        wait = (wait * 2).min(15 * SECOND);
    }
    attempts
}

#[test]
fn the_first_minute_has_no_more_than_twenty_attempts() {
    assert!(most_attempts(60 * SECOND) <= 20);
}

fn members() -> usize {
    if is_long() { 20 } else { 5 }
}

/// How long the broker refuses.
fn trouble() -> Duration {
    if is_long() { 60 * SECOND } else { 5 * SECOND }
}

async fn fleet(url: &str, label: &str) -> Vec<Member> {
    let mut fleet = Vec::new();
    for number in 0..members() {
        fleet.push(Member::join(url, label, number).await);
    }
    fleet
}

/// Waits out the trouble; its reason shows in the health of everyone, and nobody dials more often than the backoff has it.
async fn endure(fleet: &[Member], start: Instant, reason: &str) {
    eventually(reason, || async {
        let mut reasons = Vec::new();
        for member in fleet {
            reasons.push(member.reason().await);
        }
        start.elapsed() >= trouble() && reasons.iter().all(|found| found.contains(reason))
    })
    .await;
    let mut last = BTreeSet::new();
    for member in fleet {
        let attempts = member.attempts(start);
        // Two connections each.
        let most = 2 * most_attempts(start.elapsed());
        assert!((2..=most).contains(&attempts.len()), "{} attempts, {most} are the most", attempts.len());
        last.extend(attempts.last().map(|at| at.duration_since(start).as_millis() / 10));
    }
    assert!(last.len() > 1, "all of them dialled at one time: {last:?}");
}

async fn all_work(fleet: &mut [Member]) {
    eventually("all are back", || async {
        for member in &*fleet {
            let health = member.backend.health().await;
            if !health.connected || health.consuming != [member.config.name.clone()] {
                return false;
            }
        }
        true
    })
    .await;
    for member in fleet {
        member.works("after").await;
    }
}

/// At a first start no attempt is made twice.
async fn is_refused(url: &str, wanted: impl Fn(&Error) -> bool) -> String {
    let start = Instant::now();
    let error = RabbitMqBackend::connect(url).await.expect_err("connected");
    assert!(wanted(&error), "{error:?}");
    assert!(start.elapsed() < 12 * SECOND + SLACK);
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_a_changed_password_is_told_and_dialled_with_patience() {
    let Some(node) = Node::start().await else { return };
    node.ctl(&["add_user", "mailer", "first"]).await;
    node.ctl(&["set_permissions", "mailer", ".*", ".*", ".*"]).await;
    let url = node.url().replace("guest:guest", "mailer:first");
    let mut fleet = fleet(&url, "password").await;
    node.ctl(&["change_password", "mailer", "second"]).await;
    let start = Instant::now();
    node.ctl(&["close_all_connections", "password changed"]).await;
    endure(&fleet, start, "refused the login").await;
    let said = is_refused(&url, |error| matches!(error, Error::AccessRefused { .. })).await;
    assert!(said.contains("check user and password") && !said.contains("first"), "{said}");
    node.ctl(&["change_password", "mailer", "first"]).await;
    all_work(&mut fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_a_deleted_virtual_host_is_told_and_dialled_with_patience() {
    let Some(node) = Node::start().await else { return };
    let make = async || {
        node.ctl(&["add_vhost", "mails"]).await;
        node.ctl(&["set_permissions", "-p", "mails", "guest", ".*", ".*", ".*"]).await;
    };
    make().await;
    let url = node.url().replace("%2f", "mails");
    let mut fleet = fleet(&url, "host").await;
    let start = Instant::now();
    node.ctl(&["delete_vhost", "mails"]).await;
    endure(&fleet, start, "refused the virtual host").await;
    let said = is_refused(&url, |error| matches!(error, Error::Backend(_))).await;
    assert!(said.contains("refused the virtual host"), "{said}");
    make().await;
    all_work(&mut fleet).await;
}

/// A network that fails in one way, and is mended.
async fn outlasts(label: &str, fail: impl AsyncFnOnce(&Proxy)) {
    let Some(url) = shared_broker() else { return };
    let proxy = Proxy::start(&url).await;
    let mut fleet = fleet(proxy.url(), label).await;
    let start = Instant::now();
    fail(&proxy).await;
    proxy.cut();
    endure(&fleet, start, "could not connect to the broker").await;
    is_refused(proxy.url(), |error| matches!(error, Error::Backend(_))).await;
    proxy.accept_new().await;
    all_work(&mut fleet).await;
    let admin = Admin::new(&url);
    for member in &fleet {
        clear(&member.backend, &admin, &[&member.config.name], &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_a_broker_that_closes_at_once_is_dialled_with_patience() {
    outlasts("closes", async |proxy| proxy.close_new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_a_broker_that_is_gone_is_dialled_with_patience() {
    outlasts("gone", async |proxy| proxy.refuse_new().await).await;
}
