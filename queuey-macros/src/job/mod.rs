//! `#[derive(Job)]`.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::{errors::Errors, paths};

use parse::Job;

/// The impl of `Job` and its registration, or every error of `item` and a stub.
pub(crate) fn derive(item: &DeriveInput) -> TokenStream {
    let mut errors = Errors::default();
    let job = Job::parse(item, &mut errors);
    job.check(&mut errors);
    match paths::runtime(&job.runtime, "job", &mut errors) {
        Some(rt) if errors.is_empty() => job.expand(&rt),
        rt => {
            let errors = errors.to_compile_errors();
            let stub = rt.and_then(|rt| job.stub(&rt));
            quote!(#errors #stub)
        }
    }
}
