//! The headers of a request, and whether they agree with its body.
//!
//! On 2026-07-28 some fields of the body are mirrored into headers, for proxies that route a
//! request without reading its body. A header that differs from the body would make a proxy
//! believe one thing and the server do another, so it is refused. What is wrong is returned as a
//! part of a sentence, for the error `HeaderMismatch`.
//! Spec: MCP Streamable HTTP, sections "Request Metadata" to "Server Validation".

mod known;
mod media;
mod params;

pub(crate) use {
    known::{HeaderValues, KnownHeaders},
    media::{Accepts, is_json},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use interlock_proto::refusal::shortened;
use std::borrow::Cow;

/// The session a request belongs to.
pub(crate) const SESSION: &str = "mcp-session-id";
/// The last event that a client has had.
pub(crate) const LAST_EVENT: &str = "last-event-id";
/// How the names of headers begin that carry an argument.
pub(crate) const HEADER_PARAM: &str = "mcp-param-";

/// As they are written in sentences.
const PROTOCOL_VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";

/// Whether the headers that every request has agree with its body.
pub(crate) fn check_standard(
    headers: &KnownHeaders<'_>,
    version: &str,
    method: &str,
) -> Result<(), String> {
    check_plain(headers.version, PROTOCOL_VERSION, version)?;
    check_plain(headers.method, METHOD, method)
}

/// Whether `Mcp-Name` agrees with what it mirrors: `params.name` or `params.uri`. For methods that
/// have neither, the specification gives the header no meaning, and it is ignored.
pub(crate) fn check_name(headers: &KnownHeaders<'_>, name: &str) -> Result<(), String> {
    if equals(headers.name, name) && !name.starts_with(ENCODED) {
        return Ok(());
    }
    let value = required(headers.name, NAME)?;
    if decoded(NAME, value)? == name {
        Ok(())
    } else {
        Err(differs(NAME, value, name))
    }
}

/// These two are never encoded.
fn check_plain(values: HeaderValues<'_>, header: &str, body: &str) -> Result<(), String> {
    if equals(values, body) {
        return Ok(());
    }
    let value = required(values, header)?;
    if value == body {
        Ok(())
    } else {
        Err(differs(header, value, body))
    }
}

fn required<'a>(values: HeaderValues<'a>, header: &str) -> Result<&'a str, String> {
    single(values, header)?.ok_or_else(|| format!("the header {header} is missing"))
}

/// The value of a header that may be there once, without the blanks around it. `header` is its name
/// in error messages.
pub(crate) fn single<'a>(
    values: HeaderValues<'a>,
    header: &str,
) -> Result<Option<&'a str>, String> {
    let value = match values {
        HeaderValues::None => return Ok(None),
        HeaderValues::One(value) => value,
        HeaderValues::Many => return Err(format!("the header {header} is there more than once")),
    };
    let text = value
        .to_str()
        .map_err(|_| format!("the header {header} has characters that are not visible ASCII"))?;
    Ok(Some(text.trim_matches([' ', '\t'])))
}

/// What an encoded value begins with.
const ENCODED: &str = "=?base64?";

/// What a value stands for: itself, or what is encoded between `=?base64?` and `?=`.
pub(crate) fn decoded<'a>(header: &str, value: &'a str) -> Result<Cow<'a, str>, String> {
    let encoded = value
        .strip_prefix(ENCODED)
        .and_then(|rest| rest.strip_suffix("?="));
    let Some(encoded) = encoded else {
        return Ok(Cow::Borrowed(value));
    };
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| format!("the header {header} is not valid base64"))?;
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| format!("the header {header} does not encode UTF-8"))
}

/// Whether a header equals the body to the letter: then there is no blank to trim, and nothing to
/// decode.
fn equals(values: HeaderValues<'_>, body: &str) -> bool {
    values.is_exactly(body.as_bytes()) && body.bytes().all(|byte| byte.is_ascii_graphic())
}

pub(crate) fn differs(header: &str, value: &str, body: &str) -> String {
    let (value, body) = (shortened(value), shortened(body));
    format!("the header {header} says `{value}` where the body says `{body}`")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use http::{HeaderMap, HeaderName, HeaderValue};

    const SPOKEN: &str = "2026-07-28";

    /// Headers as a client would send them, even wrong ones.
    pub(crate) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    fn check(all: &HeaderMap, method: &str, name: Option<&str>) -> Result<(), String> {
        let headers = KnownHeaders::read(all);
        check_standard(&headers, SPOKEN, method)?;
        name.map_or(Ok(()), |name| check_name(&headers, name))
    }

    /// A good request to call `name`, with one header replaced by these values.
    fn call(name: &str, header: &str, values: &[&str]) -> Result<(), String> {
        let mut all = headers(&[
            (PROTOCOL_VERSION, SPOKEN),
            (METHOD, "tools/call"),
            (NAME, name),
        ]);
        all.remove(header);
        let replaced: HeaderName = header.parse().unwrap();
        for value in values {
            all.append(replaced.clone(), value.parse().unwrap());
        }
        check(&all, "tools/call", Some(name))
    }

    #[track_caller]
    fn refused(answer: Result<(), String>, because: &str) {
        let message = answer.expect_err("should be refused");
        assert!(message.contains(because), "{message}");
        assert!(message.chars().count() < 400, "{message}");
    }

    #[test]
    fn headers_that_say_what_the_body_says_are_fine() {
        assert_eq!(call("pay", NAME, &["pay"]), Ok(()));
        let uri = "file:///a%20b?c=d#e";
        assert_eq!(call(uri, NAME, &[uri]), Ok(()));
        let without_name = headers(&[(PROTOCOL_VERSION, SPOKEN), (METHOD, "tools/list")]);
        assert_eq!(check(&without_name, "tools/list", None), Ok(()));
    }

    #[test]
    fn the_case_of_a_header_name_does_not_matter() {
        let shouted = headers(&[
            ("MCP-PROTOCOL-VERSION", SPOKEN),
            ("mcp-method", "tools/call"),
            ("MCP-nAME", "pay"),
        ]);
        assert_eq!(check(&shouted, "tools/call", Some("pay")), Ok(()));
    }

    #[test]
    fn blanks_around_a_value_do_not_matter() {
        assert_eq!(call("pay", NAME, &[" \tpay \t"]), Ok(()));
        assert_eq!(call("pay", METHOD, &["  tools/call"]), Ok(()));
        assert_eq!(call("pay", PROTOCOL_VERSION, &["2026-07-28 "]), Ok(()));
    }

    #[test]
    fn blanks_that_a_header_cannot_keep_are_no_part_of_its_value() {
        refused(call(" pay ", NAME, &[" pay "]), "says `pay`");
        refused(call("", NAME, &[]), "missing");
        assert_eq!(call("", NAME, &[""]), Ok(()));
    }

    #[test]
    fn each_of_them_is_required() {
        for header in [PROTOCOL_VERSION, METHOD, NAME] {
            let because = format!("the header {header} is missing");
            refused(call("pay", header, &[]), &because);
        }
    }

    #[test]
    fn a_header_given_twice_is_refused_even_if_both_agree() {
        for (header, value) in [
            (PROTOCOL_VERSION, SPOKEN),
            (METHOD, "tools/call"),
            (NAME, "pay"),
        ] {
            refused(call("pay", header, &[value, value]), "more than once");
        }
    }

    #[test]
    fn values_that_differ_are_refused_and_both_are_named() {
        refused(
            call("pay", NAME, &["refund"]),
            "the header Mcp-Name says `refund` where the body says `pay`",
        );
        refused(
            call("pay", METHOD, &["prompts/get"]),
            "the header Mcp-Method says `prompts/get` where the body says `tools/call`",
        );
        refused(
            call("pay", PROTOCOL_VERSION, &["2025-11-25"]),
            "the header MCP-Protocol-Version says `2025-11-25` where the body says `2026-07-28`",
        );
    }

    #[test]
    fn the_case_of_a_value_matters() {
        refused(call("pay", NAME, &["Pay"]), "says `Pay`");
        refused(call("pay", METHOD, &["TOOLS/CALL"]), "says `TOOLS/CALL`");
    }

    #[test]
    fn a_name_that_no_header_can_carry_is_encoded() {
        for (name, encoded) in [
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", "=?base64??="),
            ("pay", "=?base64?cGF5?="),
        ] {
            let all = headers(&[
                (PROTOCOL_VERSION, SPOKEN),
                (METHOD, "tools/call"),
                (NAME, encoded),
            ]);
            assert_eq!(check(&all, "tools/call", Some(name)), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_name_is_not_taken_for_encoded_without_both_marks_in_lower_case() {
        for literal in [
            "SGVsbG8=",
            "=?base64?SGVsbG8=",
            "SGVsbG8=?=",
            "=?BASE64?SGVsbG8=?=",
            "=?base64?=",
        ] {
            assert_eq!(call(literal, NAME, &[literal]), Ok(()), "{literal}");
        }
    }

    #[test]
    fn bad_base64_is_refused() {
        for value in [
            "=?base64?SGVsbG8?=",
            "=?base64?SGVs!!!bG8=?=",
            "=?base64?SGVsbG9=?=",
            "=?base64?SGVs bG8=?=",
            "=?base64?_-8=?=",
        ] {
            refused(call("Hello", NAME, &[value]), "not valid base64");
        }
        refused(call("\u{fffd}", NAME, &["=?base64?/w==?="]), "UTF-8");
    }

    #[test]
    fn only_the_name_may_be_encoded() {
        // This is the right value in the wrong dress.
        let method = "=?base64?dG9vbHMvY2FsbA==?=";
        refused(call("pay", METHOD, &[method]), "Mcp-Method says");
        let version = "=?base64?MjAyNi0wNy0yOA==?=";
        refused(
            call("pay", PROTOCOL_VERSION, &[version]),
            "MCP-Protocol-Version says",
        );
    }

    #[test]
    fn a_name_that_is_not_ascii_and_not_encoded_is_refused() {
        refused(call("世界", NAME, &["世界"]), "not visible ASCII");
    }

    #[test]
    fn a_name_on_a_method_without_one_is_not_looked_at() {
        let all = headers(&[
            (PROTOCOL_VERSION, SPOKEN),
            (METHOD, "tools/list"),
            (NAME, "whatever"),
        ]);
        assert_eq!(check(&all, "tools/list", None), Ok(()));
    }

    #[test]
    fn long_values_are_not_repeated_whole() {
        let long = "x".repeat(100_000);
        refused(call("pay", NAME, &[&long]), "Mcp-Name says");
        refused(call(&long, NAME, &["pay"]), "says `pay`");
    }
}
