//! What a job may look like.

use syn::{Attribute, Data, Fields, ext::IdentExt};

use crate::{errors::Errors, keys::refuse_attribute};

use super::parse::Job;

impl Job<'_> {
    /// Reports every rule that the job breaks.
    pub(super) fn check(&self, errors: &mut Errors) {
        self.check_item(errors);
        // A queue given in the wrong place is not missed as well.
        if !self.refuse_inner_attributes(errors) {
            self.check_queue(errors);
        }
        self.check_name(errors);
        if let Some(retry) = self.retry.given() {
            retry.value.check(retry.key, errors);
        }
    }

    fn check_item(&self, errors: &mut Errors) {
        if let Data::Union(data) = &self.item.data {
            errors.at(data.union_token.span, "a job is a struct or an enum");
        }
        let params = &self.item.generics.params;
        if self.item.generics.lifetimes().next().is_some() {
            errors.over(
                params,
                "a job has no lifetimes: it outlives the message it is read from, so it owns its data",
            );
        } else if !params.is_empty() {
            errors.over(
                params,
                "a job has no generic parameters: one name stands for one type, which a worker must know",
            );
        }
    }

    /// Refuses each `#[job]` inside the type, where nothing would read it; whether there is any.
    fn refuse_inner_attributes(&self, errors: &mut Errors) -> bool {
        let in_fields =
            |fields: &Fields| fields.iter().flat_map(|field| field.attrs.clone()).collect::<Vec<_>>();
        let inner: Vec<Attribute> = match &self.item.data {
            Data::Struct(data) => in_fields(&data.fields),
            Data::Enum(data) => {
                let variants = data.variants.iter();
                variants
                    .flat_map(|variant| [variant.attrs.clone(), in_fields(&variant.fields)].concat())
                    .collect()
            }
            Data::Union(_) => Vec::new(),
        };
        refuse_attribute(&inner, "job", "`#[job(…)]` belongs on the type, above `struct` or `enum`", errors)
    }

    fn check_queue(&self, errors: &mut Errors) {
        if self.queue.is_absent() && !self.unknown.may_hide("queue") {
            let (ident, name) = (&self.item.ident, self.item.ident.unraw());
            errors.at(
                ident.span(),
                format!("job `{name}` has no queue: add `#[job(queue = AppQueues::Emails)]`"),
            );
        }
    }

    fn check_name(&self, errors: &mut Errors) {
        let Some(name) = self.name.given() else { return };
        if name.value.trim().is_empty() {
            errors.at(name.at, "`name` is blank: leave it out to name the job after its module and type");
        } else if let Some(found) = name.value.chars().find(|c| c.is_control()) {
            errors.at(name.at, format!("`name` has the control character {found:?}"));
        }
    }
}
