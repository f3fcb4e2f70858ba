//! Queue sets whose names nobody else has, so that tests can share a broker.

use std::sync::LazyLock;

use queuey::QueueConfig;
use uuid::Uuid;

/// This run of the tests.
static RUN: LazyLock<String> = LazyLock::new(|| Uuid::now_v7().simple().to_string());

/// A queue name that no other run has.
pub fn unique(place: &str, queue: &str) -> String {
    format!("test.{}.{}.{queue}", *RUN, place.replace("::", "."))
}

/// Applies a closure to the configuration of a queue; it is here so that closures need no types.
pub fn configure(config: QueueConfig, with: impl FnOnce(QueueConfig) -> QueueConfig) -> QueueConfig {
    with(config)
}

/// Declares a queue set within a test: `queue_set!(Set { Work: |queue| queue.prefetch(1), Other });`.
#[macro_export]
macro_rules! queue_set {
    ($set:ident { $($queue:ident $(: $with:expr)?),+ $(,)? }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(dead_code, reason = "not every test enqueues to every queue")]
        enum $set { $($queue),+ }

        impl queuey::QueueSet for $set {
            fn all() -> &'static [Self] {
                &[$(Self::$queue),+]
            }

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$queue => {
                        static NAME: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
                            // The path of the set holds that of the test it is declared in.
                            let place = std::any::type_name::<$set>().split("::");
                            let place: Vec<_> = place.filter(|part| !part.starts_with('{')).collect();
                            $crate::unique(&place.join("."), stringify!($queue))
                        });
                        &NAME
                    })+
                }
            }

            fn config(&self) -> queuey::QueueConfig {
                match self {
                    $(Self::$queue => {
                        let config = queuey::QueueConfig::new(self.name());
                        $(let config = $crate::configure(config, $with);)?
                        config
                    })+
                }
            }

            fn from_name(name: &str) -> Option<Self> {
                Self::all().iter().copied().find(|queue| queue.name() == name)
            }
        }
    };
}
