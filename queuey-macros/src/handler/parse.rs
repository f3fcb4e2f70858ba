//! The function's signature and the attribute's keys.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use syn::{
    Attribute, FnArg, MacroDelimiter, MetaList, PatType, Path, Signature, Visibility,
    parse::{Parse, ParseStream},
};

use crate::{
    duration::{self, Millis},
    errors::Errors,
    keys::{Key, Keys},
    paths,
};

/// A function with `#[handler]`, with the keys as they were written.
pub(super) struct Handler {
    pub(super) signature: Signature,
    pub(super) concurrency: Key<u32>,
    pub(super) timeout: Key<Millis>,
    pub(super) runtime: Key<Path>,
}

impl Handler {
    /// Reads the keys in any case, and the function if it is one.
    pub(super) fn parse(keys: TokenStream, item: &TokenStream, errors: &mut Errors) -> Option<Self> {
        let list = MetaList {
            path: Ident::new("handler", Span::call_site()).into(),
            delimiter: MacroDelimiter::Paren(Default::default()),
            tokens: keys,
        };
        let mut keys = Keys::of_list(&list, errors);
        let concurrency = keys.take("concurrency", |value| value.whole(1..=u32::MAX));
        let timeout = keys.take("timeout", duration::read);
        let runtime = keys.take("crate", paths::read);
        keys.finish();
        let Function(signature) = errors.keep(syn::parse2(item.clone()))?;
        Some(Handler { signature, concurrency, timeout, runtime })
    }

    /// The parameters, without `self`.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &PatType> {
        self.signature.inputs.iter().filter_map(|parameter| match parameter {
            FnArg::Typed(parameter) => Some(parameter),
            FnArg::Receiver(_) => None,
        })
    }
}

/// A function without its body, which is nobody's business here.
struct Function(Signature);

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let wanted = "`#[handler]` belongs on a function, as in `async fn send_email(job: SendEmail)`";
        let error = input.error(wanted);
        let signature = input.parse().map_err(|_| error)?;
        while !input.is_empty() {
            input.parse::<TokenTree>()?;
        }
        Ok(Function(signature))
    }
}
