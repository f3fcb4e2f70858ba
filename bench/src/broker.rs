//! The broker that everything is measured on: that of `AMQP_URL`, or a private one that ends with the run.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{self, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result, bail, ensure};
use uuid::Uuid;

use crate::{bare, measure::on_a_runtime, work::every_queue};

/// A broker; with this value it ends, if it is this run's.
pub(crate) struct Broker {
    url: String,
    kept: Arc<Kept>,
}

/// What is to be undone in the end.
enum Kept {
    /// Somebody else's: what this run made there is deleted.
    Elsewhere(String),
    Node(Node),
    /// In a container of this name.
    Container(String),
}

/// All that is to be undone, so that a signal can do it.
static KEPT: Mutex<Vec<Arc<Kept>>> = Mutex::new(Vec::new());

/// Ends every broker of this run; what is being started is waited for. The process is to exit then.
pub(crate) fn end_all() {
    let kept = kept();
    kept.iter().for_each(|one| one.end());
    // No more is to be started until the process is gone.
    std::mem::forget(kept);
}

fn kept() -> MutexGuard<'static, Vec<Arc<Kept>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Broker {
    /// The broker that is given, or else a private one; found in the order of `scripts/test`.
    pub(crate) fn set_up() -> Result<Self> {
        if let Some(url) = env::var("AMQP_URL").ok().filter(|url| !url.is_empty()) {
            return Self::keep(Kept::Elsewhere(url.clone()), |_| Ok(url));
        }
        let docker = || output(Command::new("docker").arg("info")).is_ok();
        if !Node::is_at_hand() && docker() {
            let name = format!("queuey-bench-{}", Uuid::now_v7().simple());
            return Self::keep(Kept::Container(name.clone()), |_| start_container(&name));
        }
        Self::on_a_node()
    }

    /// A node that nobody else uses, for what would harm others.
    pub(crate) fn on_a_node() -> Result<Self> {
        Self::keep(Kept::Node(Node::new()), |kept| match kept {
            Kept::Node(node) => node.start(),
            _ => bail!("this is no node"),
        })
    }

    /// Starts what is kept. It is undone if that fails.
    fn keep(one: Kept, start: impl FnOnce(&Kept) -> Result<String>) -> Result<Self> {
        let mut all = kept();
        let one = Arc::new(one);
        let url = start(&one).inspect_err(|_| one.end())?;
        all.push(one.clone());
        Ok(Broker { url, kept: one })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it is, for the reader of the table.
    pub(crate) fn described(&self) -> String {
        match &*self.kept {
            Kept::Elsewhere(_) => "the broker of AMQP_URL".to_owned(),
            Kept::Node(node) => {
                let version = node.run("ctl", &["version"]).unwrap_or_default();
                format!("RabbitMQ {}, on a node of its own", version.trim())
            }
            Kept::Container(_) => "RabbitMQ in a container of its own".to_owned(),
        }
    }

    /// Deletes what a scenario that failed has left behind, so that the next one finds nothing.
    pub(crate) fn clear(&self) -> Result<()> {
        let url = self.url.clone();
        on_a_runtime(async move { bare::delete(&url, &every_queue()).await })
    }

    /// Whether it is a node of this run, on which [`suspend`](Self::suspend) is possible and does no harm.
    pub(crate) fn is_own_node(&self) -> bool {
        matches!(*self.kept, Kept::Node(_))
    }

    /// Stops the process of a queue on the broker: it takes what comes and answers nothing.
    pub(crate) fn suspend(&self, queue: &str) -> Result<()> {
        self.tell("suspend", queue)
    }

    /// Lets the process of a queue go on.
    pub(crate) fn resume(&self, queue: &str) -> Result<()> {
        self.tell("resume", queue)
    }

    fn tell(&self, what: &str, queue: &str) -> Result<()> {
        let Kept::Node(node) = &*self.kept else {
            bail!("only on a node of this run a queue can be stopped")
        };
        let term = format!(
            r#"{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)),
            sys:{what}(amqqueue:get_pid(Q))."#
        );
        let printed = node.run("ctl", &["eval", &term])?;
        // A failure inside is printed, and is no failure of the command.
        ensure!(printed.trim() == "ok", "{what} {queue}: {printed}");
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        kept().retain(|one| !Arc::ptr_eq(one, &self.kept));
        self.kept.end();
    }
}

impl Kept {
    fn end(&self) {
        let ended = match self {
            Kept::Elsewhere(url) => {
                let url = url.clone();
                on_a_runtime(async move { bare::delete(&url, &every_queue()).await })
            }
            Kept::Node(node) => node.remove(),
            Kept::Container(name) => output(Command::new("docker").args(["rm", "--force", name])).map(drop),
        };
        if let Err(error) = ended {
            eprintln!("the broker could not be left as it was found: {error:#}");
        }
    }
}

fn start_container(name: &str) -> Result<String> {
    let docker = |arguments: &[&str]| output(Command::new("docker").args(arguments));
    docker(&["run", "--detach", "--rm", "--name", name, "--publish", "127.0.0.1::5672", "rabbitmq:3"])?;
    // It knows no command until its runtime is up.
    let ready = "for try in $(seq 60); do rabbitmqctl -q await_startup && exit; sleep 1; done; exit 1";
    docker(&["exec", name, "sh", "-c", ready])?;
    let port = docker(&["port", name, "5672/tcp"])?;
    let address = port.lines().next().context("the container has no port")?;
    Ok(format!("amqp://guest:guest@{address}/%2f"))
}

/// A node of `scripts/broker-node`.
struct Node {
    /// All that is written, the records of the script too.
    folder: PathBuf,
}

impl Node {
    const NAME: &str = "bench";

    fn new() -> Self {
        Node { folder: env::temp_dir().join(format!("queuey-bench-{}", Uuid::now_v7().simple())) }
    }

    fn version() -> String {
        env::var("QUEUEY_BROKER_VERSION").unwrap_or_else(|_| "host".to_owned())
    }

    pub(crate) fn is_at_hand() -> bool {
        output(Command::new(SCRIPT).args(["has", &Self::version()])).is_ok()
    }

    /// Starts it and gives its URL.
    fn start(&self) -> Result<String> {
        let data = self.folder.join("node");
        let data = data.to_str().context("the folder for temporary files is no text")?;
        let mut script = self.script();
        // Port 0 is any that is free.
        script.args(["start", &Self::version(), Self::NAME, "0", data]);
        // However this process ends, the node ends with it.
        let printed = output(script.env("OWNER", process::id().to_string()))?;
        let url = printed.lines().find_map(|line| line.strip_prefix("AMQP_URL="));
        Ok(url.with_context(|| format!("no URL in {printed:?}"))?.to_owned())
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Result<String> {
        output(self.script().args([command, Self::NAME]).args(arguments))
    }

    fn script(&self) -> Command {
        let mut script = Command::new(SCRIPT);
        script.env("BROKER_NODE_STATE", self.folder.join("state"));
        script
    }

    fn remove(&self) -> Result<()> {
        self.run("remove", &[])?;
        // It may be that nothing was written yet.
        let _ = fs::remove_dir_all(&self.folder);
        Ok(())
    }
}

/// Whether this machine can run a node of its own.
#[cfg(test)]
pub(crate) fn has_nodes() -> bool {
    Node::is_at_hand()
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/broker-node");

/// Runs a command and gives what it prints. A Ctrl-C of the terminal ends this process, which then ends what it has begun.
fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).process_group(0).output();
    let output = output.with_context(|| format!("{} can't be run", command.get_program().display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let name = command.get_program().display();
        bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())
    }
}
