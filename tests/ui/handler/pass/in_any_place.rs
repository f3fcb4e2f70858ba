#![deny(warnings)]

use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
pub enum Set {
    Work,
}

macro_rules! jobs {
    ($($job:ident),*) => {
        $(#[derive(Serialize, Deserialize, Job)] #[job(queue = Set::Work)] pub struct $job;)*
    };
}

jobs!(InAModule, InAFunction, InATrait, OfAMacro, Another);

mod handlers {
    pub mod deep {
        #[queuey::handler]
        async fn in_a_module(_: crate::InAModule, _: queuey::JobContext) {}
    }
}

#[allow(dead_code)]
fn function() {
    #[handler]
    async fn in_a_function(_: InAFunction) {}
}

trait Runs {
    fn run() -> impl Future<Output = ()> + Send;
}

struct Runner;

impl Runs for Runner {
    async fn run() {
        #[handler]
        async fn in_a_method(job: InATrait) {
            drop(job);
            Runner::run().await;
        }
    }
}

macro_rules! handlers {
    ($($name:ident($job:pat => $ty:ty $(, $arg:ident: $argty:ty)*) $body:block)*) => {
        $(
            #[handler(timeout = "5s")]
            async fn $name($job: $ty $(, $arg: $argty)*) -> Result<(), JobError> $body
        )*
    };
}

handlers! {
    of_a_macro(OfAMacro => OfAMacro, ctx: JobContext, number: State<u8>) {
        println!("{} {}", ctx.attempt, number.0);
        Ok(())
    }
    another(_ => Another) { Ok(()) }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> queuey::Result<()> {
    Runner::run().await;
    let backend = Arc::new(MemoryBackend::new());
    let worker = Worker::<Set>::builder(backend)
        .discover_handlers()
        .require_all_handlers()
        .state(1_u8)
        .build()
        .await?;
    worker.handle().shutdown();
    worker.run().await?;
    let _ = (InAModule, InAFunction, InATrait, OfAMacro, Another);
    Ok(())
}
