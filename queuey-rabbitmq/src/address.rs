//! Reads `amqp://user:password@host:port/vhost`, strictly: what is not encoded is refused, not guessed at.

use std::fmt;

use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use queuey_core::{Error, Result};

/// What an address is expected to look like; it is in every refusal.
const SHAPE: &str = "it must look like `amqp://user:password@host:5672/vhost`, with special characters in user, password and virtual host percent-encoded (`@` is `%40`, `/` is `%2f`)";

/// Where a broker is and how to log in there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    tls: bool,
    user: String,
    password: String,
    host: String,
    port: u16,
    vhost: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidAddress`], which never shows the address: it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let address = Parts::split(text)
            .and_then(|parts| parts.read())
            .map_err(|why| Error::InvalidAddress { why: format!("{why}; {SHAPE}") })?;
        if address.tls && !cfg!(any(feature = "rustls", feature = "native-tls")) {
            let why =
                "`amqps://` needs the feature `rustls` or `native-tls`; the connection is never downgraded";
            return Err(Error::InvalidAddress { why: why.to_owned() });
        }
        Ok(address)
    }

    /// Host and port, for messages.
    pub(crate) fn shown(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    /// The same address for the client library.
    pub(crate) fn uri(&self, heartbeat: u16) -> AMQPUri {
        AMQPUri {
            scheme: if self.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo { username: self.user.clone(), password: self.password.clone() },
                host: self.host.clone(),
                port: self.port,
            },
            vhost: self.vhost.clone(),
            query: AMQPQueryString { heartbeat: Some(heartbeat), ..AMQPQueryString::default() },
        }
    }
}

/// An address in pieces, still encoded.
struct Parts<'a> {
    tls: bool,
    login: Option<&'a str>,
    host: &'a str,
    path: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or("it has no `amqp://` or `amqps://`")?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "amqp" => false,
            "amqps" => true,
            _ => return Err("it must begin with `amqp://` or `amqps://`"),
        };
        if rest.contains('#') {
            return Err("`#` is not allowed unless encoded");
        }
        if rest.contains('?') {
            return Err(
                "`?` is not allowed unless encoded, and what would follow it is set in `RabbitMqOptions`",
            );
        }
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        if path.is_some_and(|path| path.contains(['/', '@', ':'])) || authority.matches('@').count() > 1 {
            return Err("`/`, `@` or `:` is where it is not allowed unless encoded");
        }
        let (login, host) = match authority.split_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        Ok(Parts { tls, login, host, path })
    }

    fn read(&self) -> Result<Address, &'static str> {
        let (user, password) = match self.login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (decode(user)?, decode(password)?),
            None => ("guest".to_owned(), "guest".to_owned()),
        };
        let (host, port) = self.host_and_port()?;
        let vhost = self.path.map_or(Ok("/".to_owned()), decode)?;
        if vhost.len() > u8::MAX.into() {
            return Err("its virtual host has more than 255 bytes");
        }
        Ok(Address { tls: self.tls, user, password, host, port, vhost })
    }

    fn host_and_port(&self) -> Result<(String, u16), &'static str> {
        let (host, port) = match self.host.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or("its `[` has no `]`")?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| "what is in `[...]` is no IPv6 address")?;
                (host.to_owned(), port.strip_prefix(':').unwrap_or(port))
            }
            None => {
                let (host, port) = self.host.split_once(':').unwrap_or((self.host, ""));
                (decode(host)?, port)
            }
        };
        if host.is_empty() {
            return Err("its host is missing");
        }
        match port {
            "" => Ok((host, if self.tls { 5671 } else { 5672 })),
            port => Ok((host, port.parse().map_err(|_| "its port is no number from 1 to 65535")?)),
        }
    }
}

/// Decodes percent-encoding; refuses what should have been encoded.
fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
                let byte =
                    hex.filter(|hex| !hex.starts_with('+')).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                bytes.push(byte.ok_or("a `%` is not followed by two hexadecimal digits")?);
                rest = &after[2..];
            }
            byte if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:".contains(byte) => bytes.push(*byte),
            _ => return Err("a character is not allowed unless encoded"),
        }
    }
    String::from_utf8(bytes).map_err(|_| "its percent-encoding is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (String, String, String, u16, String) {
        let Address { user, password, host, port, vhost, .. } = Address::parse(text).expect(text);
        (user, password, host, port, vhost)
    }

    #[test]
    fn encoded_addresses_are_read() {
        let own = |user: &str, password: &str, host: &str, port, vhost: &str| {
            (user.to_owned(), password.to_owned(), host.to_owned(), port, vhost.to_owned())
        };
        let table = [
            ("amqp://localhost", own("guest", "guest", "localhost", 5672, "/")),
            ("amqp://localhost/", own("guest", "guest", "localhost", 5672, "")),
            ("AMQP://h:1/%2f", own("guest", "guest", "h", 1, "/")),
            ("amqp://u@h/a%2Fb", own("u", "", "h", 5672, "a/b")),
            ("amqp://u:p@[::1]:7/%C3%BC", own("u", "p", "::1", 7, "ü")),
            ("amqp://u:p@[::1]", own("u", "p", "::1", 5672, "/")),
            ("amqp://a%40b:p%40ss%23%2F%3A%25%24%3F%C3%A9@h", own("a@b", "p@ss#/:%$?é", "h", 5672, "/")),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_encoded_is_refused_with_a_hint_and_without_the_secret() {
        for text in [
            "",
            "localhost",
            "http://secret@h",
            "amqp://",
            "amqp://a@b:secret@h",
            "amqp://u:p@secret#/:%$?é@h",
            "amqp://u:secret#@h",
            "amqp://u:secret/@h",
            "amqp://u:secret?@h",
            "amqp://u:secret%@h",
            "amqp://u:secret%zz@h",
            "amqp://u:secreté@h",
            "amqp://u:secret%ff@h",
            "amqp://h/secret/b",
            "amqp://h:secret",
            "amqp://h:99999",
            "amqp://[secret]",
            "amqp://[::1",
            "amqp://h?heartbeat=secret",
            "amqp://h/ü-secret",
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.contains("percent-encoded") && !error.contains("secret"), "{text}: {error}");
        }
    }

    #[test]
    fn debug_shows_host_and_port_only() {
        let address = Address::parse("amqp://user:secret@[::1]/vhost").expect("an address");
        assert_eq!(format!("{address:?}"), "[::1]:5672");
    }

    #[test]
    fn an_encrypted_address_has_its_own_port_or_is_refused() {
        let address = Address::parse("amqps://h");
        if cfg!(any(feature = "rustls", feature = "native-tls")) {
            assert_eq!(address.expect("there is TLS").shown(), "h:5671");
        } else {
            let error = address.expect_err("there is no TLS").to_string();
            assert!(error.contains("never downgraded"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(amqp://)?.{0,60}") {
            let _ = Address::parse(&text);
        }

        #[test]
        fn every_login_survives_its_encoding(user in ".{1,20}", password in ".{0,20}") {
            let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
            let address = Address::parse(&format!("amqp://{}:{}@h", encode(&user), encode(&password)));
            let address = address.expect("an address");
            prop_assert_eq!((address.user, address.password), (user, password));
        }
    }
}
