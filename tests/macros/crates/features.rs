//! Variants that features switch on and off.

use super::{SERDE, TinyCrate, dependency};

const MAIN: &str = r#"
use queuey::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
enum Set {
    #[cfg(feature = "mails")]
    #[cfg_attr(feature = "fast", queue(prefetch = 3))]
    Mails,
    #[cfg(feature = "images")]
    Images,
    #[cfg(all(feature = "paired", feature = "fast"))]
    #[queue(name = "fast_pair")]
    Pair,
    #[cfg(all(feature = "paired", not(feature = "fast")))]
    #[queue(name = "slow_pair")]
    Pair,
}

fn main() {
    for queue in Set::all() {
        println!("{} {}", queue.name(), queue.config().prefetch);
    }
}
"#;

#[test]
fn a_queue_set_has_exactly_the_variants_that_are_switched_on() {
    // M09
    let features = "[features]\nmails = []\nimages = []\npaired = []\nfast = []\n";
    let dependencies = format!("[dependencies]\n{}{SERDE}", dependency("queuey", "queuey", ""));
    let tiny = TinyCrate::new("features")
        .package("features", 2024, &(dependencies + features))
        .file("src/main.rs", MAIN);
    for (on, queues) in [
        ("mails", &["mails 16"][..]),
        ("images", &["images 16"]),
        ("mails,images", &["mails 16", "images 16"]),
        ("mails,fast", &["mails 3"]),
        ("paired", &["slow_pair 16"]),
        ("mails,images,paired,fast", &["mails 3", "images 16", "fast_pair 16"]),
    ] {
        let listed = tiny.cargo(&["run", "--quiet", "--features", on]).clean();
        assert_eq!(listed.lines().collect::<Vec<_>>(), queues, "{on}");
    }
    let errors = tiny.cargo(&["check", "--quiet", "--features", "fast"]).errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("`Set` has no variants"), "{errors:?}");
}
