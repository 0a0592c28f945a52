//! The headers that requests are looked at for, found in one pass.
//!
//! A look-up costs about as much as passing by all the headers that a request has.

use http::{HeaderMap, HeaderValue};

/// What a request says in the headers that every one is looked at for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted<'a> {
    /// Where they all are.
    pub(crate) all: &'a HeaderMap,
    pub(crate) host: Lines<'a>,
    pub(crate) origin: Lines<'a>,
    pub(crate) accept: Lines<'a>,
    pub(crate) content_type: Lines<'a>,
    pub(crate) content_encoding: Lines<'a>,
    /// `Mcp-Session-Id`.
    pub(crate) session: Lines<'a>,
    /// `MCP-Protocol-Version`.
    pub(crate) version: Lines<'a>,
    /// `Mcp-Method`.
    pub(crate) method: Lines<'a>,
    /// `Mcp-Name`.
    pub(crate) name: Lines<'a>,
}

/// The lines of one header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lines<'a> {
    /// There is none.
    None,
    /// There is just one.
    One(&'a HeaderValue),
    /// There are several.
    Many,
}

impl<'a> Noted<'a> {
    pub(crate) fn read(all: &'a HeaderMap) -> Self {
        let mut noted = Self {
            all,
            host: Lines::None,
            origin: Lines::None,
            accept: Lines::None,
            content_type: Lines::None,
            content_encoding: Lines::None,
            session: Lines::None,
            version: Lines::None,
            method: Lines::None,
            name: Lines::None,
        };
        for (name, value) in all {
            // Names are in lower case, whatever the client has written.
            let lines = match name.as_str() {
                "host" => &mut noted.host,
                "origin" => &mut noted.origin,
                "accept" => &mut noted.accept,
                "content-type" => &mut noted.content_type,
                "content-encoding" => &mut noted.content_encoding,
                "mcp-session-id" => &mut noted.session,
                "mcp-protocol-version" => &mut noted.version,
                "mcp-method" => &mut noted.method,
                "mcp-name" => &mut noted.name,
                _ => continue,
            };
            lines.add(value);
        }
        noted
    }
}

impl<'a> Lines<'a> {
    /// All the lines of a header, as they come.
    pub(super) fn of(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let mut lines = Self::None;
        for value in values {
            lines.add(value);
        }
        lines
    }

    const fn add(&mut self, value: &'a HeaderValue) {
        *self = match self {
            Self::None => Self::One(value),
            Self::One(_) | Self::Many => Self::Many,
        };
    }

    /// Whether there is one line, and it is this one to the letter.
    pub(super) fn are_just(self, expected: &[u8]) -> bool {
        match self {
            Self::One(line) => line.as_bytes() == expected,
            Self::None | Self::Many => false,
        }
    }

    pub(crate) const fn are_there(self) -> bool {
        match self {
            Self::None => false,
            Self::One(_) | Self::Many => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_is_found_whatever_its_case_and_order() {
        let names = [
            "MCP-NAME",
            "Mcp-Method",
            "mcp-protocol-VERSION",
            "Mcp-Session-Id",
            "Content-Encoding",
            "CONTENT-TYPE",
            "Accept",
            "Origin",
            "Host",
            "X-Other",
        ];
        let mut headers = HeaderMap::new();
        for name in names {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            let value = HeaderValue::from_str(name.as_str()).unwrap();
            headers.append(name, value);
        }
        let noted = Noted::read(&headers);
        assert!(noted.name.are_just(b"mcp-name"));
        assert!(noted.method.are_just(b"mcp-method"));
        assert!(noted.version.are_just(b"mcp-protocol-version"));
        assert!(noted.session.are_just(b"mcp-session-id"));
        assert!(noted.content_encoding.are_just(b"content-encoding"));
        assert!(noted.content_type.are_just(b"content-type"));
        assert!(noted.accept.are_just(b"accept"));
        assert!(noted.origin.are_just(b"origin"));
        assert!(noted.host.are_just(b"host"));
    }

    #[test]
    fn what_is_there_twice_is_not_taken_for_one() {
        let mut headers = HeaderMap::new();
        for _ in 0..3 {
            let session = http::HeaderName::from_static("mcp-session-id");
            headers.append(session, HeaderValue::from_static("a"));
            let noted = Noted::read(&headers);
            let one = headers.len() == 1;
            assert_eq!(noted.session.are_just(b"a"), one);
            assert_eq!(matches!(noted.session, Lines::Many), !one);
            assert!(noted.session.are_there());
            assert!(!noted.host.are_there());
        }
    }
}
