//! Requests as nearly every client writes them, read without a detour.
//!
//! It knows a part of JSON: one object of `jsonrpc`, `id`, `method` and `params`, each at most
//! once and in any order, with no other blanks than spaces and with nothing escaped. Whatever is
//! different, [`judge`](super::judge) reads with care. So nothing here says that a message is
//! wrong: either it is read as the careful reader would read it, or not at all.

use super::{Limits, Request};
use crate::{Params, RequestId, scan::Rest};
use std::borrow::Cow;

/// Reads a request, unless there is anything unusual about it.
pub(super) fn request<'a>(text: &'a str, limits: &Limits) -> Option<Request<'a>> {
    let mut rest = Rest::of(text);
    let (mut version, mut id, mut method, mut params) = (None, None, None, None);
    rest.take("{")?;
    loop {
        if version.is_none() && rest.take("\"jsonrpc\":\"2.0\"").is_some() {
            version = Some("2.0");
        } else if version.is_none() && rest.take("\"jsonrpc\":").is_some() {
            version = Some(rest.spaces().string()?);
        } else if id.is_none() && rest.take("\"id\":").is_some() {
            id = Some(id_of(rest.spaces(), limits)?);
        } else if method.is_none() && rest.take("\"method\":").is_some() {
            method = Some(rest.spaces().string()?);
        } else if params.is_none() && rest.take("\"params\":").is_some() {
            params = Some(Params::next_of(rest.spaces())?);
        } else {
            return None;
        }
        if rest.take(",").is_none() {
            break;
        }
        rest.spaces();
    }
    rest.take("}")?;
    if version != Some("2.0") || !rest.is_blank() {
        return None;
    }
    Some(Request {
        id: id?,
        method: Cow::Borrowed(method?),
        params,
    })
}

/// A string, or a number that has neither a sign nor a fraction.
fn id_of(rest: &mut Rest<'_>, limits: &Limits) -> Option<RequestId> {
    const QUOTES: usize = 2;
    const MOST_DIGITS: usize = 18;

    if rest.starts_with(b'"') {
        let text = rest.string()?;
        return (text.len() + QUOTES <= limits.id_bytes).then(|| text.into());
    }
    let (number, digits) = rest.digits(limits.id_bytes.min(MOST_DIGITS))?;
    // A fraction or an exponent, if there is one, is in the way of whatever comes next.
    (digits > 0).then_some(RequestId::Number(number))
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

    /// Everything that is known of it.
    fn said(request: &Request<'_>) -> String {
        format!("{request:?}")
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
    fn check_mutants(whole: &str, at_least: usize) {
        let limits = Limits::default();
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
        assert!(read >= at_least, "{read}");
    }

    #[test]
    fn what_is_read_quickly_is_read_alike() {
        let other = r#"{"jsonrpc":"2.0","id":71,"method":"m","params":{"a":[1,"}"]}}"#;
        check_mutants(other, 50);
        let call = r#"{"jsonrpc":"2.0","id":"x","method":"m","params":{"name":"pay","arguments":{"b":1},"_meta":{"progressToken":7}}}"#;
        check_mutants(call, 100);
        let twice = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","name":"b"}}"#;
        check_mutants(twice, 50);
        let odd = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":null,"_meta":5}}"#;
        check_mutants(odd, 50);
    }
}
