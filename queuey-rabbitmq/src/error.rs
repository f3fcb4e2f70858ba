//! What the broker answers and what the client library reports, sorted into what a caller can act on.

use lapin::ErrorKind;
use queuey_core::{BoxError, Error};

/// AMQP reply codes that mean something here.
pub(crate) const ACCESS_REFUSED: u16 = 403;
pub(crate) const NOT_FOUND: u16 = 404;
pub(crate) const RESOURCE_LOCKED: u16 = 405;
pub(crate) const PRECONDITION_FAILED: u16 = 406;
pub(crate) const NOT_ALLOWED: u16 = 530;
pub(crate) const INTERNAL_ERROR: u16 = 541;

/// A failure there is no other word for, with its source.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Failure {
    what: String,
    #[source]
    source: Option<BoxError>,
}

impl Failure {
    /// A failure as the error a caller sees.
    pub(crate) fn plain(what: impl Into<String>) -> Error {
        Error::backend(Failure { what: what.into(), source: None })
    }

    /// The same with what caused it.
    pub(crate) fn caused(what: impl Into<String>, source: impl Into<BoxError>) -> Error {
        Error::backend(Failure { what: what.into(), source: Some(source.into()) })
    }
}

/// What the broker said when it closed a channel or a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl Refusal {
    /// The broker's own words, where the error is an answer of the broker and not a broken connection.
    pub(crate) fn of(error: &lapin::Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::ProtocolError(error) => {
                Some(Refusal { code: error.get_id(), text: error.get_message().as_str().to_owned() })
            }
            _ => None,
        }
    }

    /// The size and the limit of a message that is too large.
    pub(crate) fn too_large(&self) -> Option<(usize, usize)> {
        if self.code != PRECONDITION_FAILED {
            return None;
        }
        let (size, limit) =
            self.text.split_once("message size ")?.1.split_once(" is larger than configured max size ")?;
        Some((size.parse().ok()?, leading_number(limit)?))
    }

    /// The error of a declare of `queue` that was refused.
    pub(crate) fn of_declare(&self, queue: &str) -> Error {
        match self.code {
            ACCESS_REFUSED => Error::AccessRefused { what: self.text.clone() },
            PRECONDITION_FAILED | RESOURCE_LOCKED => {
                self.mismatch(queue).unwrap_or_else(|| self.invalid(queue))
            }
            _ => self.invalid(queue),
        }
    }

    fn invalid(&self, queue: &str) -> Error {
        Error::InvalidQueue { name: queue.to_owned(), why: format!("the broker answers: {}", self.text) }
    }

    /// Reads `inequivalent arg 'x-max-priority' for queue 'q' in vhost '/': received '5' but current is '10'`.
    /// The broker cuts its text at 255 bytes, so all but the argument may be missing, or half of a value be there.
    fn mismatch(&self, queue: &str) -> Option<Error> {
        let (argument, rest) = self.text.split_once("inequivalent arg '")?.1.split_once('\'')?;
        let values = rest.split_once("received ").map_or("", |(_, values)| values);
        let (wanted, found) = values.split_once(" but current is ").unwrap_or((values, ""));
        Some(Error::QueueMismatch {
            queue: queue.to_owned(),
            argument: argument.to_owned(),
            found: whole(found),
            wanted: whole(wanted).unwrap_or_else(|| "another value".to_owned()),
        })
    }

    /// How long it makes no sense to ask again.
    pub(crate) fn lasts(&self) -> Lasting {
        match self.code {
            ACCESS_REFUSED => Lasting::WhileConnected,
            INTERNAL_ERROR => Lasting::ForEver,
            _ => Lasting::ForNow,
        }
    }
}

/// For how long a refusal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// An operator may change what is in the way.
    ForNow,
    /// The user lacks a permission. That is how it looks as well while a virtual host is being deleted, so it is asked for
    /// once more on the next connection.
    WhileConnected,
    /// The broker has the feature denied, and closes the connection of whoever asks.
    ForEver,
}

/// `the value '10' of type 'signedint'` and `'10'` are both 10; `none` is none. Nothing where the end is missing.
fn whole(value: &str) -> Option<String> {
    if value.trim() == "none" {
        return Some("none".to_owned());
    }
    let (value, _) = value.split_once('\'')?.1.split_once('\'')?;
    Some(value.to_owned())
}

fn leading_number(text: &str) -> Option<usize> {
    text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
}

/// The error of a dial that failed. It never shows the address, for that may hold a password.
pub(crate) fn of_dial(host: &str, error: &lapin::Error) -> Error {
    match Refusal::of(error) {
        Some(Refusal { code: ACCESS_REFUSED, text }) => Error::AccessRefused {
            what: format!(
                "the broker at {host} refused the login ({text}); check user and password, with their special characters percent-encoded in the address"
            ),
        },
        Some(Refusal { code: NOT_ALLOWED, text }) => Failure::plain(format!(
            "the broker at {host} refused the virtual host ({text}); it must exist, with its special characters percent-encoded (`/` is `%2f`), and an address that ends in `/` names one without a name"
        )),
        None if matches!(error.kind(), ErrorKind::ParsingError(_)) => Failure::caused(
            format!(
                "could not connect to the broker at {host}: what answers there is not AMQP; if its port takes TLS, the address begins with `amqps://`"
            ),
            error.clone(),
        ),
        _ => Failure::caused(format!("could not connect to the broker at {host}"), error.clone()),
    }
}

/// The reason why nothing can be published, for one more caller.
pub(crate) fn once_more(reason: &Error) -> Error {
    match reason {
        Error::ShutDown => Error::ShutDown,
        Error::Blocked { reason } => Error::Blocked { reason: reason.clone() },
        _ => Error::NotConnected,
    }
}

/// An error and its sources on one line.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        // The client library repeats its sources in its own text.
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        next = source.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, text: &str) -> Refusal {
        Refusal { code, text: text.to_owned() }
    }

    #[test]
    fn a_mismatch_names_the_argument_and_both_values() {
        let table = [
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue 'q' in vhost '/': received '5' but current is '10'",
                ("x-max-priority", Some("10"), "5"),
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue 'q' in vhost '/': received none but current is the value '10' of type 'signedint'",
                ("x-max-priority", Some("10"), "none"),
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '1000' of type 'signedint' but current is none",
                ("x-message-ttl", Some("none"), "1000"),
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'",
                ("durable", Some("true"), "false"),
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'qqq",
                ("durable", None, "another value"),
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue 'qqq' in vhost '/': received '1",
                ("x-max-priority", None, "another value"),
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue 'qqq' in vhost '/': received '10' but current is '1",
                ("x-max-priority", None, "10"),
            ),
        ];
        for (text, (argument, found, wanted)) in table {
            match refusal(406, text).of_declare("q") {
                Error::QueueMismatch { argument: a, found: f, wanted: w, .. } => {
                    assert_eq!((&*a, f.as_deref(), &*w), (argument, found, wanted), "{text}");
                }
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn other_refusals_of_a_declare_keep_the_words_of_the_broker() {
        let denied = refusal(541, "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.");
        assert!(denied.of_declare("q").to_string().contains("transient_nonexcl_queues"));
        assert_eq!(denied.lasts(), Lasting::ForEver);
        let access = refusal(403, "ACCESS_REFUSED - configure access to queue 'q' refused");
        assert!(
            matches!(access.of_declare("q"), Error::AccessRefused { what } if what.contains("configure"))
        );
        assert!(matches!(refusal(406, "invalid arg").of_declare("q"), Error::InvalidQueue { .. }));
    }

    #[test]
    fn a_message_too_large_is_told_with_its_limit() {
        let text =
            "PRECONDITION_FAILED - message size 135266304 is larger than configured max size 134217728";
        assert_eq!(refusal(406, text).too_large(), Some((135_266_304, 134_217_728)));
        assert_eq!(refusal(406, "PRECONDITION_FAILED - unknown delivery tag 1").too_large(), None);
        assert_eq!(refusal(404, text).too_large(), None);
    }
}
