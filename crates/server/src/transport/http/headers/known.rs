//! The headers that every request is checked for, found in one pass.
//!
//! One look-up costs about as much as a pass over all headers of a request.

use http::{HeaderMap, HeaderValue};

/// The values of the headers that every request is checked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownHeaders<'a> {
    /// All headers of the request.
    pub(crate) all: &'a HeaderMap,
    pub(crate) host: HeaderValues<'a>,
    pub(crate) origin: HeaderValues<'a>,
    pub(crate) accept: HeaderValues<'a>,
    pub(crate) content_type: HeaderValues<'a>,
    pub(crate) content_encoding: HeaderValues<'a>,
    /// `Mcp-Session-Id`.
    pub(crate) session: HeaderValues<'a>,
    /// `MCP-Protocol-Version`.
    pub(crate) version: HeaderValues<'a>,
    /// `Mcp-Method`.
    pub(crate) method: HeaderValues<'a>,
    /// `Mcp-Name`.
    pub(crate) name: HeaderValues<'a>,
}

/// The values of one header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HeaderValues<'a> {
    None,
    One(&'a HeaderValue),
    /// Which they are does not matter: each of these headers may be there once.
    Many,
}

impl<'a> KnownHeaders<'a> {
    pub(crate) fn read(all: &'a HeaderMap) -> Self {
        let mut known = Self {
            all,
            host: HeaderValues::None,
            origin: HeaderValues::None,
            accept: HeaderValues::None,
            content_type: HeaderValues::None,
            content_encoding: HeaderValues::None,
            session: HeaderValues::None,
            version: HeaderValues::None,
            method: HeaderValues::None,
            name: HeaderValues::None,
        };
        for (name, value) in all {
            // Names are in lower case, whatever the client has written.
            let values = match name.as_str() {
                "host" => &mut known.host,
                "origin" => &mut known.origin,
                "accept" => &mut known.accept,
                "content-type" => &mut known.content_type,
                "content-encoding" => &mut known.content_encoding,
                "mcp-session-id" => &mut known.session,
                "mcp-protocol-version" => &mut known.version,
                "mcp-method" => &mut known.method,
                "mcp-name" => &mut known.name,
                _ => continue,
            };
            values.add(value);
        }
        known
    }
}

impl<'a> HeaderValues<'a> {
    /// All the values of a header, as they come.
    pub(crate) fn of(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let mut all = Self::None;
        for value in values {
            all.add(value);
        }
        all
    }

    const fn add(&mut self, value: &'a HeaderValue) {
        *self = match self {
            Self::None => Self::One(value),
            Self::One(_) | Self::Many => Self::Many,
        };
    }

    /// Whether there is one value, and it is this one to the letter.
    pub(super) fn is_exactly(self, expected: &[u8]) -> bool {
        match self {
            Self::One(line) => line.as_bytes() == expected,
            Self::None | Self::Many => false,
        }
    }

    pub(crate) const fn is_present(self) -> bool {
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
        let known = KnownHeaders::read(&headers);
        assert!(known.name.is_exactly(b"mcp-name"));
        assert!(known.method.is_exactly(b"mcp-method"));
        assert!(known.version.is_exactly(b"mcp-protocol-version"));
        assert!(known.session.is_exactly(b"mcp-session-id"));
        assert!(known.content_encoding.is_exactly(b"content-encoding"));
        assert!(known.content_type.is_exactly(b"content-type"));
        assert!(known.accept.is_exactly(b"accept"));
        assert!(known.origin.is_exactly(b"origin"));
        assert!(known.host.is_exactly(b"host"));
    }

    #[test]
    fn what_is_there_twice_is_not_taken_for_one() {
        let mut headers = HeaderMap::new();
        for _ in 0..3 {
            let session = http::HeaderName::from_static("mcp-session-id");
            headers.append(session, HeaderValue::from_static("a"));
            let known = KnownHeaders::read(&headers);
            let one = headers.len() == 1;
            assert_eq!(known.session.is_exactly(b"a"), one);
            assert_eq!(matches!(known.session, HeaderValues::Many), !one);
            assert!(known.session.is_present());
            assert!(!known.host.is_present());
        }
    }
}
