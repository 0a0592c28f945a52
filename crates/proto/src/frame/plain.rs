//! Requests as nearly every client writes them, read without a detour.
//!
//! It knows a part of JSON: one object of `jsonrpc`, `id`, `method` and `params`, each at most
//! once and in any order, with no other blanks than spaces and with nothing escaped. Whatever is
//! different, [`judge`](super::judge) reads with care. So nothing here says that a message is
//! wrong: either it is read as the careful reader would read it, or not at all.

use super::{Limits, Request};
use crate::{Params, RequestId};
use std::borrow::Cow;

/// Reads a request, unless there is anything unusual about it.
pub(super) fn request<'a>(text: &'a str, limits: &Limits) -> Option<Request<'a>> {
    let mut rest = Rest(text);
    let (mut version, mut id, mut method, mut params) = (None, None, None, None);
    rest.take("{")?;
    loop {
        if version.is_none() && rest.take("\"jsonrpc\":").is_some() {
            version = Some(rest.spaces().string()?);
        } else if id.is_none() && rest.take("\"id\":").is_some() {
            id = Some(rest.spaces().id(limits)?);
        } else if method.is_none() && rest.take("\"method\":").is_some() {
            method = Some(rest.spaces().string()?);
        } else if params.is_none() && rest.take("\"params\":").is_some() {
            params = Some(rest.spaces().object()?);
        } else {
            return None;
        }
        if rest.take(",").is_none() {
            break;
        }
        rest.spaces();
    }
    rest.take("}")?;
    let end = rest.0.trim_start_matches([' ', '\r', '\n']);
    if version != Some("2.0") || !end.is_empty() {
        return None;
    }
    Some(Request {
        id: id?,
        method: Cow::Borrowed(method?),
        params,
    })
}

/// What has not been read yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take(&mut self, text: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn spaces(&mut self) -> &mut Self {
        while self.take(" ").is_some() {}
        self
    }

    /// A string in which nothing is escaped, nor would have to be.
    fn string(&mut self) -> Option<&'a str> {
        self.take("\"")?;
        let end = memchr::memchr(b'"', self.0.as_bytes())?;
        let (inside, rest) = self.0.split_at_checked(end)?;
        let is_plain = |byte: u8| byte >= b' ' && byte != b'\\';
        self.0 = rest;
        self.take("\"")?;
        inside.bytes().all(is_plain).then_some(inside)
    }

    /// A string, or a number that has neither a sign nor a fraction.
    fn id(&mut self, limits: &Limits) -> Option<RequestId> {
        const QUOTES: usize = 2;
        const MOST_DIGITS: usize = 18;

        if self.0.starts_with('"') {
            let text = self.string()?;
            return (text.len() + QUOTES <= limits.id_bytes).then(|| text.into());
        }
        let (mut number, mut digits) = (0, 0);
        for byte in self.0.bytes().take_while(u8::is_ascii_digit) {
            if digits == limits.id_bytes.min(MOST_DIGITS) {
                return None;
            }
            number = 10 * number + i64::from(byte - b'0');
            digits += 1;
        }
        if digits == 0 || (digits > 1 && self.0.starts_with('0')) {
            return None;
        }
        // A fraction or an exponent, if there is one, is in the way of whatever comes next.
        self.0 = self.0.get(digits..)?;
        Some(RequestId::Number(number))
    }

    fn object(&mut self) -> Option<Params<'a>> {
        if !self.0.starts_with('{') {
            return None;
        }
        let (object, rest) = Params::first_of(self.0)?;
        self.0 = rest;
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fields, Frame};
    use super::*;

    /// What the careful reader makes of it.
    fn careful<'a>(text: &'a str, limits: &Limits) -> Option<Request<'a>> {
        let fields: Fields<'a> = serde_json::from_str(text).ok()?;
        match fields.judge(limits) {
            Ok(Frame::Request(request)) => Some(request),
            Ok(Frame::Notification(_) | Frame::Response(_)) | Err(_) => None,
        }
    }

    fn said(request: &Request<'_>) -> (RequestId, String, Option<String>) {
        let params = request.params.map(|params| params.get().to_owned());
        (request.id.clone(), request.method.to_string(), params)
    }

    #[track_caller]
    fn check(text: &str, is_plain: bool) {
        let limits = Limits::default();
        let read = request(text, &limits).as_ref().map(said);
        assert_eq!(read.is_some(), is_plain, "{text}");
        if is_plain {
            assert_eq!(read, careful(text, &limits).as_ref().map(said), "{text}");
        }
    }

    #[test]
    fn what_clients_write_is_plain() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, true);
        let last = r#"{"method":"m","params":{"a":["}",{}]},"jsonrpc":"2.0","id":"x"}"#;
        check(last, true);
        let spaced = r#"{"jsonrpc": "2.0", "id": 0, "method": "m", "params": {"a" : 1}}"#;
        check(spaced, true);
        check("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"é\"}\r\n", true);
    }

    #[test]
    fn what_is_unusual_is_left_to_the_careful_reader() {
        for text in [
            "",
            "{}",
            "{",
            r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m",}"#,
            r#"{"jsonrpc":"2.0" ,"id":1,"method":"m"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            r#"{"id":1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","more":1}"#,
            r#"{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools\/list"}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\tb\"}",
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            r#"{"jsonrpc":"2.0","id":-1,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":01,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1e2,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1234567890123456789,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}"#,
        ] {
            check(text, false);
        }
    }

    #[test]
    fn an_id_that_reaches_the_limit_does_not_exceed_it() {
        let limits = Limits {
            id_bytes: 3,
            ..Limits::default()
        };
        for (id, is_plain) in [
            ("\"a\"", true),
            ("\"ab\"", false),
            ("123", true),
            ("1234", false),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            assert_eq!(request(&text, &limits).is_some(), is_plain, "{id}");
            assert_eq!(careful(&text, &limits).is_some(), is_plain, "{id}");
        }
    }

    /// Whatever is done to a request, both readers agree or the quick one declines.
    #[test]
    fn what_is_read_quickly_is_read_alike() {
        let limits = Limits::default();
        let whole = r#"{"jsonrpc":"2.0","id":71,"method":"m","params":{"a":[1,"}"]}}"#;
        let mut read = 0;
        for at in 0..whole.len() {
            for with in [
                "", " ", "\"", "\\", "0", "-", ".", ",", "{", "}", "\n", "é", "\u{1}", "\u{c}",
            ] {
                for until in [at, at + 1] {
                    let text = format!("{}{with}{}", &whole[..at], &whole[until..]);
                    if let Some(quick) = request(&text, &limits) {
                        let careful = careful(&text, &limits);
                        assert_eq!(Some(said(&quick)), careful.as_ref().map(said), "{text}");
                        read += 1;
                    }
                }
            }
        }
        assert!(read > 50, "{read}");
    }
}
