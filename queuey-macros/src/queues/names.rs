//! The broker names of the queues, and which of them are refused.

use heck::ToSnakeCase;
use proc_macro2::Span;
use syn::ext::IdentExt;

use crate::{errors::Errors, keys::Key};

use super::parse::{Queue, QueueSet};

/// AMQP's 255 bytes for a name, less what the longest hold queue adds: `.deferred.` and ten digits.
const LONGEST_NAME: usize = 255 - ".deferred.".len() - 10;

impl QueueSet<'_> {
    /// The name of `queue` on the broker.
    pub(super) fn broker_name(&self, queue: &Queue<'_>) -> String {
        let last = queue.last_name();
        match self.prefix.value() {
            Some(prefix) => format!("{prefix}.{last}"),
            None => last,
        }
    }

    pub(super) fn check_names(&self, errors: &mut Errors) {
        let prefix_is_sound = match self.prefix.given() {
            Some(prefix) => refuse(prefix.at, fault_of_prefix(&prefix.value), errors),
            None => self.prefix.is_absent(),
        };
        let mut names = Vec::new();
        for queue in &self.queues {
            let Some(at) = queue.name_span() else { continue };
            let broker_name = self.broker_name(queue);
            let fault = self.fault_of(queue).or_else(|| too_long(&broker_name).filter(|_| prefix_is_sound));
            if refuse(at, fault, errors) {
                names.push(Name { at, variant: queue.variant.ident.unraw().to_string(), broker_name });
            }
        }
        refuse_clashes(&names, errors);
        refuse_names_of_companions(&names, errors);
    }

    fn fault_of(&self, queue: &Queue<'_>) -> Option<String> {
        let last = queue.last_name();
        match queue.name {
            Key::Given(_) => fault_of_name(&last, !self.prefix.is_absent()),
            _ if last.is_empty() => Some(
                "this variant has no word to name its queue after: add `#[queue(name = \"…\")]`".to_owned(),
            ),
            _ => None,
        }
    }
}

impl Queue<'_> {
    fn last_name(&self) -> String {
        self.name.value().cloned().unwrap_or_else(|| self.variant.ident.unraw().to_string().to_snake_case())
    }

    /// Where the name comes from; nowhere if it is there and could not be read.
    fn name_span(&self) -> Option<Span> {
        match &self.name {
            Key::Absent => Some(self.variant.ident.span()),
            Key::Unreadable(_) => None,
            Key::Given(name) => Some(name.at),
        }
    }
}

/// A name that is sound by itself.
struct Name {
    at: Span,
    variant: String,
    broker_name: String,
}

/// Reports `fault`; whether there was none.
fn refuse(at: Span, fault: Option<String>, errors: &mut Errors) -> bool {
    fault.map(|fault| errors.at(at, fault)).is_none()
}

fn fault_of_prefix(prefix: &str) -> Option<String> {
    if prefix.trim().is_empty() {
        Some("`prefix` is blank: leave it out, or say what the names are to begin with".to_owned())
    } else if prefix.ends_with('.') {
        Some("`prefix` ends in `.`: leave it out, the dot before the queue's name is added".to_owned())
    } else if prefix == "amq" || prefix.starts_with("amq.") {
        Some("`prefix` makes names that begin with `amq.`, which the broker keeps for itself".to_owned())
    } else {
        // The shortest queue below it takes a dot and a letter.
        control_character("prefix", prefix).or_else(|| too_long(&format!("{prefix}.q")))
    }
}

fn fault_of_name(name: &str, has_prefix: bool) -> Option<String> {
    if name.trim().is_empty() {
        Some("`name` is blank: leave it out to name the queue after its variant".to_owned())
    } else if name.starts_with("amq.") {
        Some("`name` begins with `amq.`, which the broker keeps for itself".to_owned())
    } else if has_prefix && name.starts_with('.') {
        Some("`name` begins with `.`: leave it out, the dot after the prefix is added".to_owned())
    } else {
        control_character("name", name)
    }
}

fn control_character(key: &str, text: &str) -> Option<String> {
    let found = text.chars().find(|c| c.is_control())?;
    Some(format!("`{key}` has the control character {found:?}: the broker would keep another name than this"))
}

fn too_long(name: &str) -> Option<String> {
    let bytes = name.len();
    (bytes > LONGEST_NAME).then(|| {
        format!("queue name of {bytes} bytes, expected at most {LONGEST_NAME}: its hold queues add 20 and must fit in 255")
    })
}

fn refuse_clashes(names: &[Name], errors: &mut Errors) {
    for (index, Name { at, broker_name, .. }) in names.iter().enumerate() {
        let mut others = names.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, name)| name);
        if let Some(other) = others.find(|other| other.broker_name == *broker_name) {
            let variant = &other.variant;
            errors.at(
                *at,
                format!("queue name \"{broker_name}\" is that of `{variant}` too: give one another `name`"),
            );
        }
    }
}

/// Refuses names that the library uses for what belongs to another queue.
fn refuse_names_of_companions(names: &[Name], errors: &mut Errors) {
    for Name { at, broker_name, .. } in names {
        for other in names {
            let role = match broker_name.strip_prefix(&*other.broker_name) {
                Some(".dead") => "dead letter",
                Some(rest) if is_hold_suffix(rest) => "hold",
                _ => continue,
            };
            let variant = &other.variant;
            errors.at(
                *at,
                format!(
                    "queue name \"{broker_name}\" is that of a {role} queue of `{variant}`: choose another"
                ),
            );
        }
    }
}

fn is_hold_suffix(suffix: &str) -> bool {
    let digits = suffix.strip_prefix(".deferred.").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
