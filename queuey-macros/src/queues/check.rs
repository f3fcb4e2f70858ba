//! What a queue set may look like, and which keys of a queue go together.

use quote::ToTokens;
use syn::{Data, Fields, ext::IdentExt};

use crate::{
    duration::Millis,
    errors::Errors,
    keys::{Key, refuse_attribute},
};

use super::parse::{Kind, Queue, QueueSet};

/// AMQP's `x-message-ttl` has 32 bits.
const LONGEST_TTL: Millis = Millis(u32::MAX as u64);

impl QueueSet<'_> {
    /// Reports every rule that the set breaks.
    pub(super) fn check(&self, errors: &mut Errors) {
        self.check_item(errors);
        self.check_names(errors);
        for queue in &self.queues {
            queue.check_variant(errors);
            queue.check_kind(errors);
            queue.check_ttl(errors);
            if let Some(retry) = queue.retry.given() {
                retry.value.check(retry.key, errors);
            }
        }
    }

    fn check_item(&self, errors: &mut Errors) {
        let item = self.item;
        let keyword: &dyn ToTokens = match &item.data {
            Data::Struct(data) => &data.struct_token,
            Data::Union(data) => &data.union_token,
            Data::Enum(_) => return self.check_enum(errors),
        };
        errors.over(keyword, "a queue set is an enum with a variant for each queue");
    }

    fn check_enum(&self, errors: &mut Errors) {
        let item = self.item;
        if !item.generics.params.is_empty() {
            errors.over(
                &item.generics.params,
                "a queue set has no generic parameters: its queues have fixed names",
            );
        }
        if self.queues.is_empty() {
            let name = item.ident.unraw();
            let message = format!(
                "`{name}` has no variants: a queue set needs one for each queue (`#[cfg]` may have removed all)"
            );
            errors.at(item.ident.span(), message);
        }
        let hint = "`#[queue(…)]` belongs on a variant; on the enum it is `#[queues(…)]`";
        refuse_attribute(&item.attrs, "queue", hint, errors);
    }
}

impl Queue<'_> {
    fn check_variant(&self, errors: &mut Errors) {
        let variant = self.variant;
        if !matches!(variant.fields, Fields::Unit) {
            let name = variant.ident.unraw();
            errors.over(&variant.fields, format!("a queue is a variant without fields: write `{name}`"));
        }
        let hint = "`#[queues(…)]` belongs on the enum; on a variant it is `#[queue(…)]`";
        refuse_attribute(&variant.attrs, "queues", hint, errors);
    }

    fn check_kind(&self, errors: &mut Errors) {
        match self.kind.value() {
            Some(Kind::Quorum) => self.check_quorum(errors),
            Some(Kind::Classic) => self.check_classic(errors),
            None if self.kind.is_absent() && !self.unknown.may_hide("kind") => self.check_classic(errors),
            None => {}
        }
    }

    /// Quorum queues are always replicated to disk, know no priorities of this kind and need a limit.
    fn check_quorum(&self, errors: &mut Errors) {
        if let Key::Given(durable) = &self.durable
            && !durable.value
        {
            errors.at(durable.at, "a quorum queue is always durable: leave `durable` out");
        }
        if let Some(key) = self.max_priority.key() {
            errors.at(key, "a quorum queue has no `max_priority`: leave it out, or use `kind = \"classic\"`");
        }
        if let Key::Given(limit) = &self.redelivery_limit
            && limit.value == 0
        {
            errors.at(limit.at, "a quorum queue needs a `redelivery_limit` of at least 1");
        }
    }

    fn check_classic(&self, errors: &mut Errors) {
        if let Some(key) = self.ack_timeout.key() {
            errors
                .at(key, "`ack_timeout` is for quorum queues only: leave it out, or add `kind = \"quorum\"`");
        }
    }

    fn check_ttl(&self, errors: &mut Errors) {
        if let Some(ttl) = self.message_ttl.given()
            && ttl.value > LONGEST_TTL
        {
            errors.at(ttl.at, format!("`message_ttl`: expected at most {LONGEST_TTL}, found {}", ttl.value));
        }
    }
}
