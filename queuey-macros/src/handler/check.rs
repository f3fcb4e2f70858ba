//! What a handler may look like.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{PathArguments, ReturnType, Safety, Type, ext::IdentExt};

use crate::errors::Errors;

use super::parse::Handler;

impl Handler {
    /// Reports every rule that the function breaks.
    pub(super) fn check(&self, errors: &mut Errors) {
        self.check_qualifiers(errors);
        self.check_generics(errors);
        self.check_job(errors);
        self.check_parameters(errors);
        self.check_output(errors);
    }

    /// `const` goes unsaid: rustc refuses it on an async function, and one that is not async is refused as such.
    fn check_qualifiers(&self, errors: &mut Errors) {
        let signature = &self.signature;
        if signature.asyncness.is_none() {
            let message = format!("a handler is async: write `async fn {}`", signature.ident);
            errors.at(signature.fn_token.span, message);
        }
        if let Safety::Unsafe(token) = &signature.safety {
            errors.at(
                token.span,
                "a handler is called by the worker, which knows no contract to uphold: leave `unsafe` out",
            );
        }
        if let Some(abi) = &signature.abi {
            errors.over(abi, "a handler is called from Rust alone: leave `extern` out");
        }
    }

    fn check_generics(&self, errors: &mut Errors) {
        let params = &self.signature.generics.params;
        if !params.is_empty() {
            errors.over(
                params,
                "a handler has no generic parameters: it is registered for one job, so write the types out",
            );
        }
    }

    fn check_job(&self, errors: &mut Errors) {
        let signature = &self.signature;
        let name = signature.ident.unraw();
        if let Some(receiver) = signature.receiver() {
            errors.over(
                receiver,
                "a handler is a free function without `self`: what it needs it takes as `State<...>`",
            );
        } else if signature.inputs.is_empty() {
            let message = format!("a handler takes its job: write `{name}(job: SendEmail)`");
            errors.at(signature.paren_token.span.join(), message);
        } else if let Some(first) = self.parameters().next()
            && is_argument(&first.ty)
        {
            errors.over(
                &first.ty,
                format!("the first parameter of a handler is its job: write `{name}(job: SendEmail, ...)`"),
            );
        }
    }

    fn check_parameters(&self, errors: &mut Errors) {
        for parameter in self.parameters() {
            if let Type::Reference(reference) = ungrouped(&parameter.ty) {
                let owned = &reference.elem.to_token_stream().to_string();
                errors.over(
                    &parameter.ty,
                    format!("a handler owns what it takes: write `{owned}`, without `&`"),
                );
            }
            if let Some(at) = impl_keyword(parameter.ty.to_token_stream()) {
                errors.at(
                    at,
                    "`impl` makes a handler generic, and it is registered for one job: write the type out",
                );
            }
            for attribute in &parameter.attrs {
                if ["cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name)) {
                    errors.over(
                        attribute,
                        "a parameter of a handler is always there: put `#[cfg]` on the function",
                    );
                }
            }
        }
    }

    fn check_output(&self, errors: &mut Errors) {
        const WANTED: &str =
            "a handler answers with `()`, `Result<(), JobError>` or `Result<(), E>`: write it out";
        let ReturnType::Type(_, output) = &self.signature.output else { return };
        if let Type::Never(never) = ungrouped(output) {
            errors.at(never.bang_token.span, WANTED);
        }
        // `-> impl Future` goes with the `async` that is missing.
        if self.signature.asyncness.is_some()
            && let Some(at) = impl_keyword(output.to_token_stream())
        {
            errors.at(at, WANTED);
        }
    }
}

/// Whether a type is, by its name, one that a handler takes beside its job.
fn is_argument(ty: &Type) -> bool {
    let Type::Path(path) = ungrouped(ty) else { return false };
    path.path.segments.last().is_some_and(|last| {
        last.ident == "JobContext"
            || (last.ident == "State" && matches!(last.arguments, PathArguments::AngleBracketed(_)))
    })
}

fn ungrouped(mut ty: &Type) -> &Type {
    loop {
        ty = match ty {
            Type::Group(group) => &group.elem,
            Type::Paren(paren) => &paren.elem,
            _ => return ty,
        };
    }
}

/// The first `impl` in a type, however deep.
fn impl_keyword(tokens: TokenStream) -> Option<Span> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "impl" => Some(ident.span()),
        TokenTree::Group(group) => impl_keyword(group.stream()),
        _ => None,
    })
}
