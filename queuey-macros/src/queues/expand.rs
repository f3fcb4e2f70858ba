//! The impl of `QueueSet`.

use proc_macro2::TokenStream;
use quote::quote;

use crate::paths::{Runtime, unlinted};

use super::parse::{Kind, Queue, QueueSet};

impl QueueSet<'_> {
    pub(super) fn expand(&self, rt: &Runtime) -> TokenStream {
        let ident = unlinted(&self.item.ident);
        let where_clause = &self.item.generics.where_clause;
        let variants: Vec<_> = self.queues.iter().map(|queue| unlinted(&queue.variant.ident)).collect();
        let names: Vec<_> = self.queues.iter().map(|queue| self.broker_name(queue)).collect();
        let configs = self.queues.iter().zip(&names).map(|(queue, name)| queue.expand(name, rt));
        // A constant of the user's could be called `name`, and would then be taken for the parameter.
        quote! {
            #[automatically_derived]
            impl #rt::QueueSet for #ident #where_clause {
                fn all() -> &'static [Self] {
                    &[#(Self::#variants),*]
                }
                fn name(&self) -> &'static #rt::str {
                    match self {
                        #(Self::#variants => #names,)*
                    }
                }
                fn config(&self) -> #rt::QueueConfig {
                    match self {
                        #(Self::#variants => #configs,)*
                    }
                }
                fn from_name(__name: &#rt::str) -> #rt::Option<Self> {
                    #rt::by_name(__name)
                }
            }
        }
    }
}

impl Queue<'_> {
    /// An expression of type `QueueConfig`.
    fn expand(&self, name: &str, rt: &Runtime) -> TokenStream {
        // First, since it clears what a queue of that kind can't have.
        let kind = self.kind.value().map(|kind| match kind {
            Kind::Classic => quote!(.kind(#rt::QueueKind::Classic)),
            Kind::Quorum => quote!(.kind(#rt::QueueKind::Quorum)),
        });
        let prefetch = self.prefetch.value().map(|prefetch| quote!(.prefetch(#prefetch)));
        let durable = self.durable.value().map(|durable| quote!(.durable(#durable)));
        let message_ttl =
            self.message_ttl.value().map(|ttl| rt.millis(*ttl)).map(|ttl| quote!(.message_ttl(#ttl)));
        let max_priority = self.max_priority.value().map(|highest| quote!(.max_priority(#highest)));
        let redelivery_limit = self.redelivery_limit.value().map(|limit| quote!(.redelivery_limit(#limit)));
        let dead_letter_expired =
            self.dead_letter_expired.value().map(|route| quote!(.dead_letter_expired(#route)));
        let ack_timeout =
            self.ack_timeout.value().map(|limit| rt.millis(*limit)).map(|limit| quote!(.ack_timeout(#limit)));
        let max_deferrals = self.max_deferrals.value().map(|limit| quote!(.max_deferrals(#limit)));
        let retry = self.retry.value().map(|retry| retry.expand(rt)).map(|policy| quote!(.retry(#policy)));
        quote! {
            #rt::QueueConfig::new(#name)
                #kind #prefetch #durable #message_ttl #max_priority #redelivery_limit #dead_letter_expired
                #ack_timeout #max_deferrals #retry
        }
    }
}
