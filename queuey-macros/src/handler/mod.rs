//! `#[handler]`.

mod check;
mod expand;
mod parse;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;

use crate::{errors::Errors, paths};

use parse::Handler;

/// The function as it was written and its registration, or every error.
pub(crate) fn attribute(keys: TokenStream, item: &TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let registration = registration(keys, item, &mut errors);
    let errors = errors.to_compile_errors();
    // The function stays whatever is wrong with it, so that its callers don't fail for want of it.
    quote!(#item #errors #registration)
}

fn registration(keys: TokenStream, item: &TokenStream, errors: &mut Errors) -> Option<TokenStream> {
    let handler = Handler::parse(keys, item, errors)?;
    handler.check(errors);
    let rt = paths::runtime(&handler.runtime, "handler", errors)?;
    errors.is_empty().then(|| handler.expand(&rt))
}
