// M16
#![deny(warnings)]
#![allow(legacy_derive_helpers)]

use queuey::prelude::*;

/// "Quotes", {braces}, `#[queue(prefetch = 0)]` and \ backslashes.
#[doc = "More: \"}{\""]
#[doc = concat!("made ", "at compile time")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(all(), derive(Queues))]
#[repr(u8)]
#[non_exhaustive]
#[serde(rename_all = "kebab-case")]
#[queues(prefix = "company")]
pub enum Set {
    /// A variant with an attribute of serde's.
    #[serde(rename = "post")]
    #[queue(prefetch = 2)]
    #[doc(alias = "letters")]
    Mails = 1,
    Images = 7,
}

/// The helper attribute above its derive works as well where rustc lets it pass.
mod above {
    use queuey::prelude::*;

    #[queues(prefix = "above")]
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Queues)]
    pub enum Set {
        Mails,
    }

    #[job(queue = Set::Mails, name = "above.send")]
    #[derive(Serialize, Deserialize, Job)]
    pub struct Send;
}

#[tracing::instrument(skip_all)]
#[handler(timeout = "5s")]
#[must_use]
async fn send(_job: Send) -> Result<(), JobError> {
    Ok(())
}

#[handler]
#[tracing::instrument(skip_all)]
async fn resize(_job: Resize) {}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Mails)]
#[repr(C)]
#[must_use]
pub struct Send;

#[derive(Serialize, Deserialize, Job)]
#[job(queue = Set::Images)]
pub struct Resize;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert_eq!((Set::Mails.name(), Set::Mails as u8), ("company.mails", 1));
    assert_eq!((above::Set::Mails.name(), above::Send::NAME), ("above.mails", "above.send"));
    assert_eq!(Set::Mails.config().prefetch, 2);
    assert!(send(Send).await.is_ok());
    resize(Resize).await;
    let _ = above::Send;
}
