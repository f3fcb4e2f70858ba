//! Reading `#[name(key = value, key(…), …)]`: what is wrong with one key never hides what is wrong with the next.

use proc_macro2::{Ident, Span, TokenTree};
use syn::{
    Attribute, Expr, MacroDelimiter, Meta, MetaList, Token,
    ext::IdentExt,
    parse::{ParseStream, discouraged::Speculative},
};

use crate::{errors::Errors, value::Value};

/// What became of a key.
pub(crate) enum Key<T> {
    Absent,
    /// It is there, but its value was refused, which is reported already.
    Unreadable(Span),
    Given(Given<T>),
}

/// A value that could be read, and where.
#[derive(Clone, Copy)]
pub(crate) struct Given<T> {
    pub(crate) key: Span,
    pub(crate) at: Span,
    pub(crate) value: T,
}

impl<T> Key<T> {
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Key::Absent)
    }

    pub(crate) fn given(&self) -> Option<&Given<T>> {
        match self {
            Key::Given(given) => Some(given),
            Key::Absent | Key::Unreadable(_) => None,
        }
    }

    /// Where the key itself stands.
    pub(crate) fn key(&self) -> Option<Span> {
        match self {
            Key::Absent => None,
            Key::Unreadable(key) => Some(*key),
            Key::Given(given) => Some(given.key),
        }
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.given().map(|given| &given.value)
    }
}

/// Reports every `#[name]` among `attributes`, which belongs elsewhere; whether there was any.
pub(crate) fn refuse_attribute(
    attributes: &[Attribute],
    name: &str,
    message: &str,
    errors: &mut Errors,
) -> bool {
    let mut misplaced = attributes.iter().filter(|attribute| attribute.path().is_ident(name)).peekable();
    let any = misplaced.peek().is_some();
    misplaced.for_each(|attribute| errors.over(attribute, message));
    any
}

struct Entry {
    key: Ident,
    body: Body,
}

enum Body {
    Alone,
    Expr(Expr),
    List(MetaList),
    Unreadable,
}

/// The keys of one attribute, or of all attributes of one name on an item; each is taken once.
pub(crate) struct Keys<'e> {
    pub(crate) errors: &'e mut Errors,
    entries: Vec<Entry>,
    taken: Vec<&'static str>,
    garbled: bool,
}

impl<'e> Keys<'e> {
    /// The keys of every `#[name(…)]` among `attributes`; a bare `#[name]` has none.
    pub(crate) fn of_attributes(attributes: &[Attribute], name: &str, errors: &'e mut Errors) -> Self {
        let mut keys = Keys { errors, entries: Vec::new(), taken: Vec::new(), garbled: false };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident(name)) {
            match &attribute.meta {
                Meta::List(list) => keys.add(list),
                Meta::NameValue(_) => {
                    keys.garbled = true;
                    keys.errors.over(&attribute.meta, format!("`{name}`: expected `#[{name}(key = value)]`"));
                }
                Meta::Path(_) => {}
            }
        }
        keys
    }

    /// The keys between the parentheses of `list`.
    pub(crate) fn of_list(list: &MetaList, errors: &'e mut Errors) -> Self {
        let mut keys = Keys { errors, entries: Vec::new(), taken: Vec::new(), garbled: false };
        keys.add(list);
        keys
    }

    fn add(&mut self, list: &MetaList) {
        let parsed = list.parse_args_with(|input: ParseStream<'_>| {
            while !input.is_empty() {
                self.entry(input);
                // Whatever could not be read ends at the next comma.
                while !at_end(input) {
                    input.parse::<TokenTree>()?;
                }
                input.parse::<Option<Token![,]>>()?;
            }
            Ok(())
        });
        self.errors.keep(parsed);
    }

    fn entry(&mut self, input: ParseStream<'_>) {
        let Ok(key) = input.call(Ident::parse_any) else {
            self.garbled = true;
            self.errors.keep::<()>(Err(input.error("expected a key, as in `key = value`")));
            return;
        };
        let body = self.errors.keep(body(&key, input)).unwrap_or(Body::Unreadable);
        if self.entries.iter().any(|entry| entry.key.unraw() == key.unraw()) {
            self.errors.at(key.span(), format!("duplicate key `{}`: give it once", key.unraw()));
        } else {
            self.entries.push(Entry { key, body });
        }
    }

    /// The value of `name`, as `read` reads it.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&Value<'_>) -> syn::Result<T>,
    ) -> Key<T> {
        let Some(Entry { key, body }) = self.remove(name) else { return Key::Absent };
        let value = match &body {
            Body::Unreadable => return Key::Unreadable(key.span()),
            Body::Expr(expr) => Value::new(&key, Some(expr)),
            Body::Alone | Body::List(_) => Value::new(&key, None),
        };
        match self.errors.keep(read(&value)) {
            Some(read) => Key::Given(Given { key: key.span(), at: value.span(), value: read }),
            None => Key::Unreadable(key.span()),
        }
    }

    /// What stands in the parentheses of `name(…)`.
    pub(crate) fn take_list<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&MetaList, &mut Errors) -> T,
    ) -> Key<T> {
        match self.remove(name) {
            None => Key::Absent,
            Some(Entry { key, body: Body::Unreadable }) => Key::Unreadable(key.span()),
            Some(Entry { key, body: Body::List(list) }) => {
                Key::Given(Given { key: key.span(), at: key.span(), value: read(&list, self.errors) })
            }
            Some(Entry { key, body }) => {
                let message =
                    format!("`{name}`: expected `{name}(key = value, …)`; `{name}()` takes all defaults");
                match body {
                    Body::Expr(expr) => self.errors.over(expr, message),
                    _ => self.errors.at(key.span(), message),
                }
                Key::Unreadable(key.span())
            }
        }
    }

    fn remove(&mut self, name: &'static str) -> Option<Entry> {
        self.taken.push(name);
        let position = self.entries.iter().position(|entry| entry.key.unraw() == name)?;
        Some(self.entries.remove(position))
    }

    /// Refuses every key that nothing took.
    pub(crate) fn finish(self) -> Unknown {
        let mut unknown = Unknown { resembled: Vec::new(), garbled: self.garbled };
        for Entry { key, .. } in &self.entries {
            let word = key.unraw().to_string();
            let message = match closest(&word, &self.taken) {
                Some(name) => {
                    unknown.resembled.push(name);
                    format!("unknown key `{word}`: did you mean `{name}`?")
                }
                None => format!("unknown key `{word}`: expected one of {}", self.taken.join(", ")),
            };
            self.errors.at(key.span(), message);
        }
        unknown
    }
}

/// The keys that nobody knows, remembered so that a misspelt key is not missed as well.
pub(crate) struct Unknown {
    resembled: Vec<&'static str>,
    garbled: bool,
}

impl Unknown {
    /// Whether `name` may be what one of the refused keys was meant to be.
    pub(crate) fn may_hide(&self, name: &str) -> bool {
        self.garbled || self.resembled.contains(&name)
    }
}

/// What follows `key`, up to the comma or the end.
fn body(key: &Ident, input: ParseStream<'_>) -> syn::Result<Body> {
    if at_end(input) {
        return Ok(Body::Alone);
    }
    // A fork forgets what it left unread when it is dropped; the stream itself would refuse the whole list for it.
    let ahead = input.fork();
    let body = if let Some(equals) = ahead.parse::<Option<Token![=]>>()? {
        if at_end(&ahead) {
            return Err(syn::Error::new(equals.span, "expected a value after `=`"));
        }
        Body::Expr(ahead.parse()?)
    } else if ahead.peek(syn::token::Paren) {
        let content;
        let paren = syn::parenthesized!(content in ahead);
        Body::List(MetaList {
            path: key.clone().into(),
            delimiter: MacroDelimiter::Paren(paren),
            tokens: content.parse()?,
        })
    } else {
        return Err(ahead.error("expected `= value`, `(…)` or `,` after the key"));
    };
    if !at_end(&ahead) {
        return Err(ahead.error("expected `,` after the value"));
    }
    input.advance_to(&ahead);
    Ok(body)
}

fn at_end(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

/// The key that `word` most looks like, or is a part of, if any.
fn closest(word: &str, names: &[&'static str]) -> Option<&'static str> {
    const ALIKE: f64 = 0.85;
    let word = heck::AsSnakeCase(word).to_string();
    let looks = |name: &str| strsim::jaro_winkler(&word, name);
    let shares = |name: &str| word.len() > 2 && (name.contains(&word) || word.contains(name));
    let likely = names.iter().filter(|name| shares(name) || looks(name) > ALIKE);
    likely.max_by(|a, b| looks(a).total_cmp(&looks(b))).copied()
}
