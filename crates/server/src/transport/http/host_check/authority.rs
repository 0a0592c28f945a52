//! Hosts and origins, parsed strictly: what could be read in two ways is refused.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

/// A host, in the one form in which it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Host {
    /// Takes names of letters, digits, `-`, `_` and single points. A point at the end would be
    /// another way to write the same name, and is refused.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(address) = text.strip_prefix('[') {
            let address = address.strip_suffix(']')?;
            return address.parse().ok().map(Self::V6);
        }
        if let Ok(address) = text.parse() {
            return Some(Self::V4(address));
        }
        let label = |label: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.bytes().all(known)
        };
        let valid = text.len() <= 253 && text.split('.').all(label);
        valid.then(|| Self::Name(text.to_ascii_lowercase()))
    }

    /// Only the three usual names of one's own machine.
    pub(super) fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost",
            Self::V4(address) => *address == Ipv4Addr::LOCALHOST,
            Self::V6(address) => *address == Ipv6Addr::LOCALHOST,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => write!(f, "{address}"),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// A host, and a port if one is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) host: Host,
    port: Option<u16>,
}

impl Authority {
    /// Takes no user, and nothing after the port.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // Colons inside of brackets belong to an IPv6 address.
        let end = text.rfind(']').map_or(0, |bracket| bracket + 1);
        let (host, port) = match text[end..].find(':') {
            Some(colon) => {
                let (host, port) = text.split_at(end + colon);
                (host, Some(parse_port(&port[1..])?))
            }
            None => (text, None),
        };
        let host = Host::parse(host)?;
        Some(Self { host, port })
    }

    /// Whether a request for `asked` is one for this. Here no port means any port; in `asked` it
    /// means the default of its scheme, which is not known.
    pub(super) fn covers(&self, asked: &Self) -> bool {
        let port = match (self.port, asked.port) {
            (None, _) => true,
            (Some(ours), Some(theirs)) => ours == theirs,
            (Some(ours), None) => matches!(ours, 80 | 443),
        };
        port && self.host == asked.host
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Only digits: the standard library would accept a sign.
fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The origin of a page. `null` is refused, because any page can give itself that origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    scheme: String,
    host: Host,
    port: Option<u16>,
}

impl Origin {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let valid =
            scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(known);
        let scheme = valid.then(|| scheme.to_ascii_lowercase())?;
        let Authority { host, port } = Authority::parse(rest)?;
        let port = port.or(match scheme.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        });
        Some(Self { scheme, host, port })
    }

    pub(super) fn is_loopback(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https") && self.host.is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_shown_in_the_form_in_which_it_is_compared() {
        for (text, shown) in [
            ("LocalHost", "localhost"),
            ("localhost:080", "localhost:80"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("[0:0::1]:3000", "[::1]:3000"),
            ("[2001:DB8::A]", "[2001:db8::a]"),
        ] {
            let authority = Authority::parse(text).unwrap();
            assert_eq!(authority.to_string(), shown);
            assert_eq!(Authority::parse(shown), Some(authority));
        }
    }

    #[test]
    fn an_origin_has_the_port_of_its_scheme() {
        let port = |text| Origin::parse(text).unwrap().port;
        assert_eq!(port("http://a"), Some(80));
        assert_eq!(port("https://a"), Some(443));
        assert_eq!(port("https://a:80"), Some(80));
        assert_eq!(port("app://a"), None);
    }
}
