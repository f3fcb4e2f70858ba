//! Handlers in a library crate: there where the program names the crate, in every profile.

use super::{Ran, SERDE, TinyCrate, dependency};

const MEMBERS: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"my_queues\", \"my_jobs\", \"app\"]\n";

const QUEUES: &str = r"
use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
pub enum AppQueues {
    Mails,
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Mails)]
pub struct SendMail(pub u8);

#[derive(Serialize, Deserialize, Job)]
#[job(queue = AppQueues::Mails)]
pub struct Deep(pub u8);
";

/// Nothing in it is public, so that only the registrations could be a reason to link it.
const JOBS: &str = r#"
mod deep {
    #[queuey::handler]
    async fn deep(my_queues::Deep(number): my_queues::Deep) {
        println!("deep {number}");
    }
}

#[queuey::handler]
async fn send_mail(my_queues::SendMail(number): my_queues::SendMail, _: queuey::State<&'static str>) {
    println!("send_mail {number}");
}
"#;

const MAIN: &str = r#"
use my_queues::{AppQueues, Deep, SendMail};
use queuey::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> queuey::Result<()> {
    let backend = queuey::connect("memory://linking").await?;
    let producer = Producer::<AppQueues>::new(backend.clone()).await?;
    producer.enqueue(&SendMail(1)).await?;
    producer.enqueue(&Deep(2)).await?;
    let builder = Worker::<AppQueues>::builder(backend).discover_handlers().require_all_handlers().state("mailer");
    let worker = match builder.build().await {
        Ok(worker) => worker,
        Err(error) => {
            println!("{error}");
            return Ok(());
        }
    };
    let handle = worker.handle();
    let done = async {
        while handle.stats().succeeded < 2 {
            tokio::task::yield_now().await;
        }
    };
    worker.run_until(done).await.map(drop)
}
"#;

fn workspace() -> TinyCrate {
    let manifest = |name: &str, dependencies: &str| {
        let queuey = dependency("queuey", "queuey", "");
        format!(
            "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{queuey}{dependencies}"
        )
    };
    let (queues, jobs) =
        ("my_queues = { path = \"../my_queues\" }\n", "my_jobs = { path = \"../my_jobs\" }\n");
    let tokio = "tokio = { version = \"1\", features = [\"macros\", \"rt\"] }\n";
    TinyCrate::new("linking")
        .file("Cargo.toml", MEMBERS)
        .file("my_queues/Cargo.toml", &manifest("my_queues", SERDE))
        .file("my_queues/src/lib.rs", QUEUES)
        .file("my_jobs/Cargo.toml", &manifest("my_jobs", queues))
        .file("my_jobs/src/lib.rs", JOBS)
        .file("app/Cargo.toml", &manifest("app", &format!("{queues}{jobs}{tokio}")))
        .file("app/src/bin/named.rs", &format!("use my_jobs as _;\n{MAIN}"))
        .file("app/src/bin/unnamed.rs", MAIN)
}

fn lines(ran: &Ran) -> Vec<String> {
    let mut lines: Vec<String> = ran.clean().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn handlers_of_a_library_are_found_where_it_is_named_once_in_debug_and_release() {
    let tiny = workspace();
    for profile in ["dev", "release"] {
        let named = tiny.cargo(&["run", "--quiet", "--profile", profile, "--bin", "named"]);
        assert_eq!(lines(&named), ["deep 2", "send_mail 1"], "{profile}");
    }
    let unnamed = tiny.cargo(&["run", "--quiet", "--bin", "unnamed"]).clean();
    for job in ["`my_queues::SendMail`", "`my_queues::Deep`"] {
        assert!(unnamed.contains(job) && unnamed.contains("has no handler"), "{unnamed}");
    }
}
