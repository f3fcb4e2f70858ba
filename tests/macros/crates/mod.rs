//! Tiny crates, made in the target folder and given to cargo: what depends on a manifest, a lint, a feature or the linker.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

mod features;
mod linking;
mod lints;
mod manifests;
mod spans;

/// A crate or a workspace of the test's own, beside the others and with one target folder for all.
struct TinyCrate {
    root: PathBuf,
}

impl TinyCrate {
    /// An empty folder with the lock file of this workspace, so that nothing is looked up anew.
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crates").join(name);
        if root.exists() {
            fs::remove_dir_all(&root).expect("the old one can be removed");
        }
        fs::create_dir_all(&root).expect("a folder can be made");
        fs::copy(workspace().join("Cargo.lock"), root.join("Cargo.lock")).expect("the lock file is there");
        TinyCrate { root }
    }

    /// Adds a file.
    fn file(self, path: &str, text: &str) -> Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("it is in the crate")).expect("a folder can be made");
        fs::write(path, text).expect("the file can be written");
        self
    }

    /// Adds the manifest of a package that is a workspace of its own, with what follows its first lines.
    fn package(self, name: &str, edition: u16, rest: &str) -> Self {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"{edition}\"\n\n[workspace]\n\n{rest}"
        );
        self.file("Cargo.toml", &manifest)
    }

    /// Runs cargo here.
    fn cargo(&self, arguments: &[&str]) -> Ran {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("target");
        let output = Command::new(env!("CARGO"))
            .current_dir(&self.root)
            .args(arguments)
            .arg("--offline")
            .env("CARGO_TARGET_DIR", target)
            .env("RUSTDOCFLAGS", "-D warnings")
            .env_remove("RUSTFLAGS")
            .output()
            .expect("cargo can be run");
        Ran { what: format!("cargo {} in {}", arguments.join(" "), self.root.display()), output }
    }
}

/// What cargo came to.
struct Ran {
    what: String,
    output: Output,
}

impl Ran {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// What was printed by a run that went well and without a warning.
    #[track_caller]
    fn clean(&self) -> String {
        let stderr = self.stderr();
        let quiet = !stderr.lines().any(|line| line.starts_with("warning"));
        assert!(self.output.status.success() && quiet, "{}:\n{stderr}", self.what);
        self.stdout()
    }

    /// The first lines of the errors of a build that was refused.
    #[track_caller]
    fn errors(&self) -> Vec<String> {
        let stderr = self.stderr();
        assert!(!self.output.status.success(), "{} was not refused:\n{stderr}", self.what);
        let errors = stderr.lines().filter(|line| line.starts_with("error"));
        errors.filter(|line| !line.starts_with("error: could not compile")).map(str::to_owned).collect()
    }
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the workspace")
}

/// A dependency on a crate of this workspace, with what else its table says. Without the broker, which no macro needs and
/// which takes the longest to build.
fn dependency(name: &str, package: &str, rest: &str) -> String {
    let path = workspace().join(package);
    format!("{name} = {{ package = {package:?}, path = {path:?}, default-features = false{rest} }}\n")
}

/// The other crates that generated code and its user need.
const SERDE: &str = "serde = { version = \"1\", features = [\"derive\"] }\n";

/// A program with one of everything, which finds the runtime at `at` and the macros at `derives`, and tells each of
/// them `key`.
fn program(at: &str, derives: &str, key: &str) -> String {
    let comma = if key.is_empty() { "" } else { ", " };
    let (queues, handler) = match key {
        "" => (String::new(), String::new()),
        key => (format!("#[queues({key})]"), format!("({key})")),
    };
    format!(
        "
use {derives}::{{Job, Queues, handler}};
use {at}::{{JobContext, QueueSet as _, State}};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
{queues}
enum Set {{
    #[queue(prefetch = 3, message_ttl = \"30s\", retry(max_attempts = 5))]
    Mails,
}}

#[derive(serde::Serialize, serde::Deserialize, Job)]
#[job(queue = Set::Mails{comma}{key}, timeout = \"30s\", retry())]
struct SendMail {{
    to: String,
}}

#[handler{handler}]
async fn send_mail(job: SendMail, ctx: JobContext, State(from): State<String>) -> std::io::Result<()> {{
    println!(\"{{}} {{}} {{}}\", job.to, ctx.attempt, from);
    Ok(())
}}

fn main() {{
    let _ = SendMail {{ to: String::new() }};
    assert_eq!(Set::all().len(), 1);
}}
"
    )
}
