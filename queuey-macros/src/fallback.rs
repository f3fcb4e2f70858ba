//! What stands in for an impl that could not be made, so that its users don't fail for want of it: one mistake is one error.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput};

use crate::paths::{Runtime, unlinted};

/// A queue set without queues.
///
/// There is none for what is no enum or is generic: it would miss the supertraits, which is another error.
pub(crate) fn queue_set(item: &DeriveInput, rt: &Runtime) -> Option<TokenStream> {
    if !matches!(item.data, Data::Enum(_)) || !item.generics.params.is_empty() {
        return None;
    }
    let ident = unlinted(&item.ident);
    let where_clause = &item.generics.where_clause;
    Some(quote! {
        #[automatically_derived]
        impl #rt::QueueSet for #ident #where_clause {
            fn all() -> &'static [Self] {
                &[]
            }
            fn name(&self) -> &'static #rt::str {
                ""
            }
            fn config(&self) -> #rt::QueueConfig {
                #rt::QueueConfig::new("")
            }
            fn from_name(__name: &#rt::str) -> #rt::Option<Self> {
                #rt::by_name(__name)
            }
        }
    })
}

/// A job of the queue that the items `queue` name.
///
/// There is none for a union or what is generic, as with queue sets.
pub(crate) fn job(item: &DeriveInput, queue: &TokenStream, rt: &Runtime) -> Option<TokenStream> {
    if matches!(item.data, Data::Union(_)) || !item.generics.params.is_empty() {
        return None;
    }
    let ident = unlinted(&item.ident);
    let where_clause = &item.generics.where_clause;
    Some(quote! {
        #[automatically_derived]
        impl #rt::Job for #ident #where_clause {
            #queue
            const NAME: &'static #rt::str = "";
        }
    })
}
