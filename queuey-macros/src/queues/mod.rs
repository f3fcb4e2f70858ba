//! `#[derive(Queues)]`.

mod check;
mod expand;
mod names;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::{errors::Errors, fallback, paths};

use parse::QueueSet;

/// The impl of `QueueSet`, or every error of `item` and a stub.
pub(crate) fn derive(item: &DeriveInput) -> TokenStream {
    let mut errors = Errors::default();
    let set = QueueSet::parse(item, &mut errors);
    set.check(&mut errors);
    match paths::runtime(&set.runtime, "queues", &mut errors) {
        Some(rt) if errors.is_empty() => set.expand(&rt),
        rt => {
            let errors = errors.to_compile_errors();
            let stub = rt.and_then(|rt| fallback::queue_set(item, &rt));
            quote!(#errors #stub)
        }
    }
}
