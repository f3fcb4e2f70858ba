//! The registration of the function.
//!
//! It names none of the function's types: they are inferred from the call, so that a type which does not exist, is
//! deprecated or is no job is told of once.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{PatType, ReturnType, ext::IdentExt, spanned::Spanned};

use crate::paths::{Runtime, generated};

use super::parse::Handler;

impl Handler {
    pub(super) fn expand(&self, rt: &Runtime) -> TokenStream {
        let path = self.signature.ident.unraw().to_string();
        // Spanned like this the two macros tell where the function is written.
        let (file, line) = {
            let span = self.signature.ident.span();
            (quote_spanned!(span=> #rt::file!()), quote_spanned!(span=> #rt::line!()))
        };
        let make = self.expand_make(rt);
        quote! {
            // A deprecated function is still a handler.
            #[allow(deprecated)]
            const _: () = {
                #rt::inventory::submit! {
                    #rt::HandlerRegistration::new(
                        #rt::path!(#path), #file, #line, #make
                    )
                }
            };
        }
    }

    /// Asks for the arguments, then hands over the function.
    fn expand_make(&self, rt: &Runtime) -> TokenStream {
        let mut parameters = self.parameters();
        let job = parameters.next().map_or_else(Span::call_site, place);
        let places: Vec<Span> = parameters.map(place).collect();
        let args: Vec<Ident> = (0..places.len()).map(|index| local(&format!("__arg{index}"))).collect();
        let (wanted, job_arg, ctx) = (local("__wanted"), local("__job"), local("__ctx"));
        // What a type can't do is told of where the type stands.
        let asked = args.iter().zip(places).map(|(arg, at)| quote_spanned!(at=> let #arg = #wanted.arg();));
        let options = self.expand_options(rt);
        let run = self.expand_run(&job_arg, &args, rt);
        let handler = quote_spanned!(job=> .handler);
        quote! {
            |#wanted| {
                #(#asked)*
                #wanted #options #handler(move |#job_arg, #ctx| {
                    #(let #args = #args.get(&#ctx);)*
                    #run
                })
            }
        }
    }

    fn expand_options(&self, rt: &Runtime) -> TokenStream {
        let timeout =
            self.timeout.value().map(|limit| rt.millis(*limit)).map(|limit| quote!(.timeout(#limit)));
        let concurrency = self.concurrency.value().map(|most| {
            let most = Literal::u32_unsuffixed(*most);
            quote!(.concurrency(#most))
        });
        quote!(#timeout #concurrency)
    }

    fn expand_run(&self, job: &Ident, args: &[Ident], rt: &Runtime) -> TokenStream {
        let function = &self.signature.ident;
        let output = match &self.signature.output {
            ReturnType::Default => Span::call_site(),
            ReturnType::Type(_, output) => generated(output.span()),
        };
        let in_output = rt.at(output);
        let answer = quote_spanned!(output=> #in_output::answer(#function(#job #(, #args)*).await));
        // Laid to the function, as the reason for what can't go between threads is somewhere in its body.
        let at = generated(function.span());
        let in_name = rt.at(at);
        quote_spanned!(at=> #in_name::run(async move { #answer }))
    }
}

/// Where the type of a parameter stands.
fn place(parameter: &PatType) -> Span {
    generated(parameter.ty.span())
}

/// A variable that no token of the user can mean.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}
