//! A broker of a test's own, to be killed, stopped and alarmed: `scripts/broker-node` runs it.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
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
    tls_port: Option<u16>,
    folder: PathBuf,
}

/// How a node is set up.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    conf: String,
    advanced: String,
    /// The port that takes TLS, the certificate and its key, both in PEM.
    tls: Option<(u16, String, String)>,
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

    /// Takes TLS as well, with this certificate and its key in PEM; see [`Node::tls_url`].
    pub fn tls(mut self, certificate: &str, key: &str) -> Self {
        self.tls = Some((free_port(), certificate.to_owned(), key.to_owned()));
        self
    }

    /// What is in `rabbitmq.conf` besides the ordinary; the files it names are made.
    fn set_up(&self, folder: &Path) -> String {
        let Some((port, certificate, key)) = &self.tls else { return self.conf.clone() };
        // A place that goes with the node's own files.
        let place = folder.join("data/tls");
        fs::create_dir_all(&place).expect("the folder is made");
        let write = |name: &str, text: &str| {
            let file = place.join(name);
            fs::write(&file, text).expect("the file is written");
            file.display().to_string()
        };
        let (certificate, key) = (write("certificate.pem", certificate), write("key.pem", key));
        format!(
            "{}\nlisteners.ssl.1 = 127.0.0.1:{port}\nssl_options.cacertfile = {certificate}\nssl_options.certfile = {certificate}\nssl_options.keyfile = {key}\nssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false",
            self.conf
        )
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
        let tls_port = self.tls.as_ref().map(|tls| tls.0);
        let mut node = Node { name, url: String::new(), tls_port, folder };
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

    /// Where to connect to with TLS, under the name `localhost`.
    ///
    /// # Panics
    ///
    /// When it was not set up for [`tls`](NodeOptions::tls).
    pub fn tls_url(&self) -> String {
        let port = self.tls_port.expect("the node was set up for TLS");
        format!("amqps://guest:guest@localhost:{port}/%2f")
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
        start.env("EXTRA_CONF", options.set_up(&self.folder)).env("ADVANCED_CONF", &options.advanced);
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

/// A port below those that the kernel gives to clients, and above those that nodes choose for themselves.
fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (0..1000).map(|_| fastrand::u16(20_000..25_000)).find(free).expect("a port is free")
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
