//! The enum and its attributes.

use syn::{Attribute, Data, DeriveInput, Path, Variant};

use crate::{
    duration::{self, Millis},
    errors::Errors,
    keys::{Key, Keys, Unknown},
    paths,
    retry::Retry,
};

/// What derives `Queues`; without queues where it is no enum.
pub(super) struct QueueSet<'a> {
    pub(super) item: &'a DeriveInput,
    pub(super) prefix: Key<String>,
    pub(super) runtime: Key<Path>,
    pub(super) queues: Vec<Queue<'a>>,
}

/// A variant with its keys as they were written; an absent key means the runtime's default.
pub(super) struct Queue<'a> {
    pub(super) variant: &'a Variant,
    pub(super) name: Key<String>,
    pub(super) prefetch: Key<u16>,
    pub(super) durable: Key<bool>,
    pub(super) message_ttl: Key<Millis>,
    pub(super) max_priority: Key<u8>,
    pub(super) kind: Key<Kind>,
    pub(super) redelivery_limit: Key<u32>,
    pub(super) dead_letter_expired: Key<bool>,
    pub(super) ack_timeout: Key<Millis>,
    pub(super) max_deferrals: Key<u32>,
    pub(super) retry: Key<Retry>,
    pub(super) unknown: Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Classic,
    Quorum,
}

impl<'a> QueueSet<'a> {
    pub(super) fn parse(item: &'a DeriveInput, errors: &mut Errors) -> Self {
        let mut keys = Keys::of_attributes(&item.attrs, "queues", errors);
        let prefix = keys.take("prefix", |value| value.text());
        let runtime = keys.take("crate", paths::read);
        keys.finish();
        let queues = match &item.data {
            Data::Enum(data) => data.variants.iter().map(|variant| Queue::parse(variant, errors)).collect(),
            _ => Vec::new(),
        };
        QueueSet { item, prefix, runtime, queues }
    }
}

impl<'a> Queue<'a> {
    fn parse(variant: &'a Variant, errors: &mut Errors) -> Self {
        let attributes: &[Attribute] = &variant.attrs;
        let mut keys = Keys::of_attributes(attributes, "queue", errors);
        Queue {
            variant,
            name: keys.take("name", |value| value.text()),
            // 0 is AMQP's word for no limit.
            prefetch: keys.take("prefetch", |value| value.whole(1..=u16::MAX)),
            durable: keys.take("durable", |value| value.flag()),
            message_ttl: keys.take("message_ttl", duration::read),
            max_priority: keys.take("max_priority", |value| value.whole(0..=u8::MAX)),
            kind: keys
                .take("kind", |value| value.word(&[("classic", Kind::Classic), ("quorum", Kind::Quorum)])),
            redelivery_limit: keys.take("redelivery_limit", |value| value.whole(0..=u32::MAX)),
            dead_letter_expired: keys.take("dead_letter_expired", |value| value.flag()),
            ack_timeout: keys.take("ack_timeout", duration::read),
            max_deferrals: keys.take("max_deferrals", |value| value.whole(0..=u32::MAX)),
            retry: keys.take_list("retry", Retry::parse),
            unknown: keys.finish(),
        }
    }
}
