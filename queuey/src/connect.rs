//! From an address to a backend.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use crate::{Backend, Error, MemoryBackend, Result};

/// The memory backends of this process by name. They live as long as it does, so that a producer and a worker that
/// connect one after the other find the same jobs.
static IN_PROCESS: LazyLock<Mutex<HashMap<String, MemoryBackend>>> = LazyLock::new(Mutex::default);

/// Connects to the backend that an address names.
///
/// - `memory://name`: a backend within the process, one per name. After a `close` the name stands for a new one.
/// - `amqp://user:password@host:port/vhost`, or `amqps://`: RabbitMQ, with the defaults of `RabbitMqOptions` (feature
///   `rabbitmq`, on by default). Special characters in it must be percent-encoded.
///
/// # Errors
///
/// [`Error::InvalidAddress`] for an address of any other scheme. It never shows the address, for that may hold a
/// password. For RabbitMQ also what keeps it from connecting: the first connect is not tried again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> queuey::Result<()> {
/// let backend = queuey::connect("memory://docs").await?;
/// assert!(backend.health().await.connected);
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>> {
    let invalid = |why: &str| Error::InvalidAddress { why: why.to_owned() };
    match url.split_once("://") {
        Some(("memory", name)) => Ok(Arc::new(in_process(name))),
        #[cfg(feature = "rabbitmq")]
        Some(("amqp" | "amqps", _)) => Ok(Arc::new(queuey_rabbitmq::RabbitMqBackend::connect(url).await?)),
        #[cfg(not(feature = "rabbitmq"))]
        Some(("amqp" | "amqps", _)) => Err(invalid(
            "this build has no RabbitMQ backend; enable the feature `rabbitmq`, or use `memory://`",
        )),
        _ => Err(invalid("it must begin with `memory://`, `amqp://` or `amqps://`")),
    }
}

fn in_process(name: &str) -> MemoryBackend {
    let mut backends = IN_PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let backend = backends.entry(name.to_owned()).or_default();
    if backend.is_closed() {
        *backend = MemoryBackend::new();
    }
    backend.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Envelope, QueueConfig};

    fn refusal(result: Result<Arc<dyn Backend>>) -> String {
        result.err().expect("connected").to_string()
    }

    #[tokio::test]
    async fn one_name_is_one_backend_until_it_is_closed() {
        let (first, second) = (connect("memory://a").await.unwrap(), connect("memory://a").await.unwrap());
        first.declare(&[QueueConfig::new("q")]).await.unwrap();
        second.publish(&Envelope::raw("job", "q", Default::default()), None).await.unwrap();
        assert!(connect("memory://b").await.unwrap().consume(&QueueConfig::new("q")).await.is_err());
        first.close().await.unwrap();
        assert!(!second.health().await.connected);
        assert!(connect("memory://a").await.unwrap().health().await.connected);
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_used_is_not_repeated() {
        for url in ["", "memory", "redis://secret"] {
            let why = refusal(connect(url).await);
            assert!(why.contains("memory://") && !why.contains("secret"), "{why}");
        }
        let why = refusal(connect("amqp://user:secret#@host").await);
        assert!(!why.contains("secret"), "{why}");
    }
}
