//! The type and its attributes.

use syn::{DeriveInput, Path, PathSegment};

use crate::{
    duration::{self, Millis},
    errors::Errors,
    keys::{Key, Keys, Unknown},
    paths,
    retry::Retry,
    value::Value,
};

/// What derives `Job`, with its keys as they were written.
pub(super) struct Job<'a> {
    pub(super) item: &'a DeriveInput,
    pub(super) queue: Key<QueuePath>,
    pub(super) name: Key<String>,
    pub(super) retry: Key<Retry>,
    pub(super) timeout: Key<Millis>,
    pub(super) max_deferrals: Key<u32>,
    pub(super) runtime: Key<Path>,
    pub(super) unknown: Unknown,
}

/// `set::variant`, in the user's own tokens.
pub(super) struct QueuePath {
    pub(super) set: Path,
    pub(super) variant: PathSegment,
}

impl<'a> Job<'a> {
    pub(super) fn parse(item: &'a DeriveInput, errors: &mut Errors) -> Self {
        let mut keys = Keys::of_attributes(&item.attrs, "job", errors);
        Job {
            item,
            queue: keys.take("queue", queue),
            name: keys.take("name", |value| value.text()),
            retry: keys.take_list("retry", Retry::parse),
            timeout: keys.take("timeout", duration::read),
            max_deferrals: keys.take("max_deferrals", |value| value.whole(0..=u32::MAX)),
            runtime: keys.take("crate", paths::read),
            unknown: keys.finish(),
        }
    }
}

fn queue(value: &Value<'_>) -> syn::Result<QueuePath> {
    let mut set = value.path("a queue set and its variant such as `AppQueues::Emails`")?.path.clone();
    let variant = set.segments.pop();
    set.segments.pop_punct();
    // `crate::Emails` is a variant brought in by a `use`: its set is not told.
    let keyword = |segment: &PathSegment| ["crate", "self", "super"].iter().any(|word| segment.ident == word);
    match (variant, set.segments.last()) {
        (Some(variant), Some(last)) if !keyword(last) => Ok(QueuePath { set, variant }),
        _ => Err(value.refused("the queue set before the variant, as in `AppQueues::Emails`")),
    }
}
