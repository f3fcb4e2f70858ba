//! The impl of `Job` and its registration.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;

use crate::{
    fallback,
    paths::{Runtime, unlinted},
};

use super::parse::{Job, QueuePath};

impl Job<'_> {
    pub(super) fn expand(&self, rt: &Runtime) -> TokenStream {
        let ident = unlinted(&self.item.ident);
        let where_clause = &self.item.generics.where_clause;
        // What is allowed on the type is allowed where it names its queue, such as a deprecated one.
        let allowed = self.item.attrs.iter().filter(|attribute| attribute.path().is_ident("allow"));
        let name = self.expand_name(rt);
        let queue = self.queue.value().map(|queue| queue.expand());
        let options = self.expand_options(rt);
        // Spanned like this the two macros tell where the job is declared.
        let (file, line) = {
            let span = self.item.ident.span();
            (quote_spanned!(span=> #rt::file!()), quote_spanned!(span=> #rt::line!()))
        };
        quote! {
            #[automatically_derived]
            #(#allowed)*
            impl #rt::Job for #ident #where_clause {
                #queue
                const NAME: &'static #rt::str = #name;
                #options
            }
            const _: () = {
                #rt::inventory::submit! { #rt::JobRegistration::of::<#ident>(#file, #line) }
            };
        }
    }

    fn expand_name(&self, rt: &Runtime) -> TokenStream {
        match self.name.value() {
            Some(name) => quote!(#name),
            None => {
                let ident = self.item.ident.unraw().to_string();
                quote!(#rt::path!(#ident))
            }
        }
    }

    /// The methods that answer `None` unless the user gave their key.
    fn expand_options(&self, rt: &Runtime) -> TokenStream {
        let retry = self.retry.value().map(|retry| {
            let policy = retry.expand(rt);
            quote! {
                fn retry_policy() -> #rt::Option<#rt::RetryPolicy> {
                    #rt::Option::Some(#policy)
                }
            }
        });
        let timeout = self.timeout.value().map(|timeout| {
            let timeout = rt.millis(*timeout);
            quote! {
                fn timeout() -> #rt::Option<#rt::Duration> {
                    #rt::Option::Some(#timeout)
                }
            }
        });
        let max_deferrals = self.max_deferrals.value().map(|limit| {
            quote! {
                fn max_deferrals() -> #rt::Option<#rt::u32> {
                    #rt::Option::Some(#limit)
                }
            }
        });
        quote!(#retry #timeout #max_deferrals)
    }

    /// An impl of `Job` after an error, if the set is known to which it belongs.
    pub(super) fn stub(&self, rt: &Runtime) -> Option<TokenStream> {
        let queue = self.queue.value()?.expand();
        fallback::job(self.item, &queue, rt)
    }
}

impl QueuePath {
    /// The two items of a `Job` that name its queue.
    ///
    /// The set is named as a type each time, so that one which does not exist is one error. All of the path is laid to
    /// the user's variant, so that a deprecated one is warned of.
    fn expand(&self) -> TokenStream {
        let QueuePath { set, variant } = self;
        let queue = quote_spanned!(variant.ident.span()=> <#set>::#variant);
        quote! {
            type Queue = #set;
            const QUEUE: #set = #queue;
        }
    }
}
