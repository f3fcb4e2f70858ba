//! A broker of a test's own, to be killed, stopped and alarmed: `scripts/broker-node` runs it.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use uuid::Uuid;

use crate::broker::skip;

/// The version that nodes have in this run: `QUEUEY_BROKER_VERSION`, or 3.10. `host` is whatever the machine has.
pub fn broker_version() -> String {
    env::var("QUEUEY_BROKER_VERSION").unwrap_or_else(|_| "3.10".to_owned())
}

/// A running broker, or one that was stopped and can be restarted. It ends with this value, and its folder goes.
#[derive(Debug)]
pub struct Node {
    name: String,
    url: String,
    folder: PathBuf,
}

/// How a node is set up.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    conf: String,
    advanced: String,
}

impl NodeOptions {
    /// Lines for `rabbitmq.conf`, such as `heartbeat = 5`.
    pub fn conf(mut self, lines: &str) -> Self {
        self.conf = lines.to_owned();
        self
    }

    /// The whole `advanced.config`, in Erlang's terms.
    pub fn advanced(mut self, terms: &str) -> Self {
        self.advanced = terms.to_owned();
        self
    }

    /// Starts the node and waits until it takes connections; it takes some seconds. Where the machine has no such broker the
    /// test is skipped, which is printed: `let Some(node) = Node::start().await else { return };`.
    ///
    /// # Panics
    ///
    /// When the node does not start, or there is no such broker and `QUEUEY_NODE_REQUIRED` is set.
    pub async fn start(self) -> Option<Node> {
        let version = broker_version();
        if blocking(script(&["has", &version])).await.is_err() {
            skip("QUEUEY_NODE_REQUIRED", &format!("RabbitMQ {version} is not on this machine"));
            return None;
        }
        let name = format!("test-{}", Uuid::now_v7().simple());
        let folder = env::temp_dir().join(format!("queuey-{name}"));
        // Made first, so that whatever happens from here on is undone.
        let mut node = Node { name, url: String::new(), folder };
        node.url = node.boot(&version, &self).await;
        Some(node)
    }
}

impl Node {
    /// Starts a node with nothing set up; see [`NodeOptions::start`].
    pub async fn start() -> Option<Self> {
        NodeOptions::default().start().await
    }

    /// A node that is to be set up.
    pub fn options() -> NodeOptions {
        NodeOptions::default()
    }

    /// Where to connect to. It stays the same over restarts.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it writes; its log is in `log/node.log`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends it as a crash does, with SIGKILL.
    pub async fn kill9(&self) {
        self.run("kill9", &[]).await;
    }

    /// Stops it in order: clients are told.
    pub async fn stop(&self) {
        self.run("stop", &[]).await;
    }

    /// Starts it again after [`kill9`](Self::kill9) or [`stop`](Self::stop), with what it kept on disk.
    pub async fn restart(&self) {
        self.run("restart", &[]).await;
    }

    /// Runs `rabbitmqctl` on it and gives what that prints.
    pub async fn ctl(&self, arguments: &[&str]) -> String {
        self.run("ctl", arguments).await
    }

    /// Sets the memory alarm off, or ends it.
    pub async fn memory_alarm(&self, on: bool) {
        self.ctl(&["set_vm_memory_high_watermark", if on { "0.0000001" } else { "0.4" }]).await;
    }

    async fn boot(&self, version: &str, options: &NodeOptions) -> String {
        let folder = self.folder.to_str().expect("a folder's name is text");
        // Port 0 is any that is free.
        let mut start = script(&["start", version, &self.name, "0", folder]);
        // However this process ends, the node ends with it.
        start.env("OWNER", std::process::id().to_string());
        start.env("EXTRA_CONF", &options.conf).env("ADVANCED_CONF", &options.advanced);
        let printed = blocking(start).await.unwrap_or_else(|error| panic!("no node: {error}"));
        let url = printed.lines().find_map(|line| line.strip_prefix("AMQP_URL="));
        url.unwrap_or_else(|| panic!("no URL in {printed:?}")).to_owned()
    }

    async fn run(&self, command: &str, arguments: &[&str]) -> String {
        let mut script = script(&[command, &self.name]);
        script.args(arguments);
        blocking(script).await.unwrap_or_else(|error| panic!("{command} of {}: {error}", self.name))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It blocks for a moment: a runtime that is ending may run no task any more.
        let removed = script(&["remove", &self.name]).status();
        if !removed.is_ok_and(|status| status.success()) {
            eprintln!("the node {} in {} could not be removed", self.name, self.folder.display());
        }
    }
}

fn script(arguments: &[&str]) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/broker-node"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command apart from the runtime, and gives what it printed, or its error output.
async fn blocking(mut command: Command) -> Result<String, String> {
    let output = tokio::task::spawn_blocking(move || command.output());
    let output =
        output.await.expect("running a command does not panic").map_err(|error| error.to_string())?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
