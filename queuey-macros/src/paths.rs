//! Where the runtime is: the one path that generated code calls into.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Lit, Path};

use crate::{duration::Millis, errors::Errors, keys::Key, value::Value};

/// The hidden module with all that an expansion may name.
#[derive(Clone)]
pub(crate) struct Runtime(TokenStream);

impl Runtime {
    /// The runtime of the crate at `found`.
    pub(crate) fn of(found: impl ToTokens) -> Self {
        Runtime(quote!(#found::__private))
    }

    /// The same path, laid to `span`: an error at what it leads to then stands there and nowhere else.
    pub(crate) fn at(&self, span: Span) -> Self {
        Runtime(self.0.clone().into_iter().map(|token| respanned(token, span)).collect())
    }

    /// An expression of type `Duration`.
    pub(crate) fn millis(&self, Millis(millis): Millis) -> TokenStream {
        quote!(#self::ms(#millis))
    }
}

impl ToTokens for Runtime {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// The value of `crate = "…"`.
pub(crate) fn read(value: &Value<'_>) -> syn::Result<Path> {
    const WANTED: &str = "a path in quotes such as \"::queuey\"";
    match value.literal(WANTED)? {
        Lit::Str(text) => text.parse_with(Path::parse_mod_style).map_err(|_| value.refused(WANTED)),
        _ => Err(value.refused(WANTED)),
    }
}

/// The runtime at `named`, which is the value of `crate` on `#[attribute(…)]`, or else the one in `Cargo.toml`.
pub(crate) fn runtime(named: &Key<Path>, attribute: &str, errors: &mut Errors) -> Option<Runtime> {
    if let Some(path) = named.value() {
        return Some(Runtime::of(path));
    }
    let found = ["queuey", "queuey-core"].into_iter().find_map(dependency);
    if found.is_none() && named.is_absent() {
        let message = format!(
            "neither `queuey` nor `queuey-core` is among this crate's dependencies: add one, or say where it is, \
             as in `#[{attribute}(crate = \"path::to::queuey\")]`"
        );
        errors.at(Span::call_site(), message);
    }
    found
}

/// The runtime under the name that the manifest gives to `package`.
fn dependency(package: &str) -> Option<Runtime> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Name(name) => name,
        // Its examples, tests and doctests know the package by its own name.
        FoundCrate::Itself => package.replace('-', "_"),
    };
    let ident = syn::parse_str(&name).unwrap_or_else(|_| Ident::new_raw(&name, Span::call_site()));
    Some(Runtime::of(quote!(::#ident)))
}

fn respanned(mut token: TokenTree, span: Span) -> TokenTree {
    token.set_span(span);
    token
}

/// The place of `span`, for tokens that the user did not write.
pub(crate) fn generated(span: Span) -> Span {
    span.resolved_at(Span::call_site())
}

/// `ident` where it was written, but seen as generated, so that no lint on its use (`deprecated`, say) is laid to
/// the user's declaration.
pub(crate) fn unlinted(ident: &Ident) -> Ident {
    let mut ident = ident.clone();
    ident.set_span(generated(ident.span()));
    ident
}
