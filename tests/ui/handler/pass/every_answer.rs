#![deny(warnings)]

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum Set {
    Work,
}

macro_rules! jobs {
    ($($job:ident),*) => {
        $(#[derive(Serialize, Deserialize, Job)] #[job(queue = Set::Work)] struct $job;)*
    };
}

jobs!(Nothing, Unit, Plain, Alias, OfIo, OfAnyhow, Boxed, BoxedSend, Text, Owned, Own);

#[derive(Debug)]
struct OwnError;

impl std::fmt::Display for OwnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("own")
    }
}

impl std::error::Error for OwnError {}

#[handler]
async fn nothing(_: Nothing) {}

#[handler]
#[allow(clippy::unused_unit)]
async fn unit(_: Unit) -> () {}

#[handler]
async fn plain(_: Plain) -> Result<(), JobError> {
    std::fs::metadata("nowhere")?;
    Err(JobError::fatal_msg("x"))
}

#[handler]
async fn alias(_: Alias) -> JobResult {
    Ok(())
}

#[handler]
async fn of_io(_: OfIo) -> std::io::Result<()> {
    std::fs::metadata("nowhere").map(drop)
}

#[handler]
async fn of_anyhow(_: OfAnyhow) -> anyhow::Result<()> {
    Ok(std::fs::metadata("nowhere").map(drop).map_err(Fatal::new)?)
}

#[handler]
async fn boxed(_: Boxed) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Err("x".into())
}

#[handler]
async fn boxed_send(_: BoxedSend) -> Result<(), queuey::BoxError> {
    Err(OwnError.into())
}

#[handler]
async fn text(_: Text) -> Result<(), &'static str> {
    Err("x")
}

#[handler]
async fn owned(_: Owned) -> Result<(), String> {
    Err("x".to_owned())
}

#[handler]
async fn own(_: Own) -> Result<(), OwnError> {
    Err(OwnError)
}

fn main() {
    let _ = (Nothing, Unit, Plain, Alias, OfIo, OfAnyhow, Boxed, BoxedSend, Text, Owned, Own);
}
