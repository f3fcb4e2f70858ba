//! Reading the literal that stands behind a key.
//!
//! What a `macro_rules!` fragment brings in arrives in an invisible group, so every reader looks through those.

use std::{
    fmt::{self, Display},
    ops::RangeInclusive,
    str::FromStr,
};

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{Expr, ExprArray, ExprLit, ExprPath, ExprUnary, Lit, UnOp, ext::IdentExt};

/// A value together with the key it belongs to, so that whatever refuses it can name both.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    key: &'a Ident,
    /// `None` for a key that stands alone or has parentheses instead of `= …`.
    expr: Option<&'a Expr>,
}

impl<'a> Value<'a> {
    pub(crate) fn new(key: &'a Ident, expr: Option<&'a Expr>) -> Self {
        Value { key, expr: expr.map(ungrouped) }
    }

    /// Where the value is, or its key if there is none.
    pub(crate) fn span(&self) -> Span {
        self.expr.map_or_else(|| self.key.span(), syn::spanned::Spanned::span)
    }

    /// The error that says what was wanted instead of this value.
    pub(crate) fn refused(&self, wanted: impl Display) -> syn::Error {
        let key = self.key.unraw();
        match self.expr {
            Some(expr) => {
                syn::Error::new_spanned(expr, format!("`{key}`: expected {wanted}, found {}", Shown(expr)))
            }
            None => {
                syn::Error::new(self.key.span(), format!("`{key}`: expected {wanted}, given as `{key} = …`"))
            }
        }
    }

    pub(crate) fn text(&self) -> syn::Result<String> {
        const WANTED: &str = "a string such as \"mails\"";
        match self.literal(WANTED)? {
            Lit::Str(text) if text.suffix().is_empty() => Ok(text.value()),
            _ => Err(self.refused(WANTED)),
        }
    }

    /// One of the words of `table`.
    pub(crate) fn word<T: Copy>(&self, table: &[(&str, T)]) -> syn::Result<T> {
        let words: Vec<_> = table.iter().map(|(word, _)| format!("{word:?}")).collect();
        let wanted = words.join(" or ");
        let word = match self.literal(&wanted)? {
            Lit::Str(text) if text.suffix().is_empty() => text.value(),
            _ => return Err(self.refused(wanted)),
        };
        let meant = table.iter().find(|(name, _)| *name == word);
        meant.map(|&(_, value)| value).ok_or_else(|| self.refused(wanted))
    }

    pub(crate) fn flag(&self) -> syn::Result<bool> {
        const WANTED: &str = "`true` or `false`";
        match self.literal(WANTED)? {
            Lit::Bool(flag) => Ok(flag.value),
            _ => Err(self.refused(WANTED)),
        }
    }

    /// A whole number within `range`, in any base and with underscores.
    ///
    /// A suffix is refused: it can contradict the range, and says nothing the key does not say.
    pub(crate) fn whole<T>(&self, range: RangeInclusive<T>) -> syn::Result<T>
    where
        T: Display + FromStr + PartialOrd,
    {
        let wanted = format!("a whole number from {} to {}, without a suffix", range.start(), range.end());
        match self.literal(&wanted)? {
            Lit::Int(int) if int.suffix().is_empty() => {
                int.base10_digits().parse().ok().filter(|number| range.contains(number))
            }
            _ => None,
        }
        .ok_or_else(|| self.refused(wanted))
    }

    /// A finite number above zero.
    pub(crate) fn positive(&self) -> syn::Result<f64> {
        const WANTED: &str = "a number above 0 such as 2.0, without a suffix";
        let number: Option<f64> = match self.literal(WANTED)? {
            Lit::Float(float) if float.suffix().is_empty() => float.base10_parse().ok(),
            Lit::Int(int) if int.suffix().is_empty() => int.base10_digits().parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite() && *number > 0.0).ok_or_else(|| self.refused(WANTED))
    }

    /// A path that is no associated item of a type written in angle brackets.
    pub(crate) fn path(&self, wanted: impl Display) -> syn::Result<&'a ExprPath> {
        match self.expr {
            Some(Expr::Path(path)) if path.attrs.is_empty() && path.qself.is_none() => Ok(path),
            _ => Err(self.refused(wanted)),
        }
    }

    /// The elements of an array, each as a value of the same key.
    pub(crate) fn elements(&self, wanted: impl Display) -> syn::Result<Vec<Value<'a>>> {
        match self.expr {
            Some(Expr::Array(ExprArray { attrs, elems, .. })) if attrs.is_empty() && !elems.is_empty() => {
                Ok(elems.iter().map(|element| Value::new(self.key, Some(element))).collect())
            }
            _ => Err(self.refused(wanted)),
        }
    }

    /// The literal, of whatever type.
    pub(crate) fn literal(&self, wanted: impl Display) -> syn::Result<&'a Lit> {
        match self.expr {
            Some(Expr::Lit(ExprLit { attrs, lit })) if attrs.is_empty() => Ok(lit),
            _ => Err(self.refused(wanted)),
        }
    }
}

fn ungrouped(mut expr: &Expr) -> &Expr {
    while let Expr::Group(group) = expr {
        expr = &group.expr;
    }
    expr
}

/// An expression as it reads in a message.
struct Shown<'a>(&'a Expr);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 60;
        let text = match self.0 {
            // Printed tokens are spaced, and `- 1` is not what was written.
            Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => format!("-{}", expr.to_token_stream()),
            other => other.to_token_stream().to_string(),
        };
        if text.chars().count() <= LONGEST { write!(f, "`{text}`") } else { f.write_str("something else") }
    }
}
