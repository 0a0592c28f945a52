//! One JSON-RPC message: bytes to frame and back.
//!
//! `params` and `result` stay raw until somebody needs a type. Nothing here recurses over the
//! input or keeps more than the input itself, so hostile bytes cost what their length costs.

use crate::{Code, Refusal, RequestId, RpcCode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How large a message may be. All of it is refused with a code, none of it ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message.
    pub bytes: usize,
    /// Levels of nesting. JSON readers of handlers stop at 128 as well.
    pub depth: usize,
    /// Bytes of a request id, which is kept while the request is in flight.
    pub id_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
            depth: 128,
            id_bytes: 1024,
        }
    }
}

/// A well-formed message.
#[derive(Clone, Debug)]
pub enum Frame<'a> {
    /// The peer asks and waits for an answer.
    Request(Request<'a>),
    /// The peer tells; it is never answered.
    Notification(Notification<'a>),
    /// The peer answers a request of ours.
    Response(Response<'a>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The peer's id for it.
    pub id: RequestId,
    /// What is asked.
    pub method: Cow<'a, str>,
    /// With which parameters.
    pub params: Option<&'a RawValue>,
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// What is told.
    pub method: Cow<'a, str>,
    /// With which parameters.
    pub params: Option<&'a RawValue>,
}

/// An answer to a request of ours.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// The id we gave it; a peer that could not read it leaves it out.
    pub id: Option<RequestId>,
    /// The result, or the error object.
    pub outcome: Result<&'a RawValue, &'a RawValue>,
}

/// Bytes that are not a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The id, where it could be read.
    pub id: Option<RequestId>,
    /// What is wrong.
    pub refusal: Refusal,
    /// Whether the sender gets to know.
    pub reply: Reply,
}

/// Whether a malformed message is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// With an error.
    Error,
    /// Not at all: it is a notification or a response, and those are never answered.
    None,
}

/// Reads one message.
///
/// ```
/// use interlock_proto::frame::{Frame, Limits, parse};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// let Ok(Frame::Request(ping)) = parse(bytes, &Limits::default()) else { panic!() };
/// assert_eq!(ping.method, "ping");
/// ```
///
/// # Errors
///
/// [`Malformed`] for anything that is not exactly one JSON-RPC message.
pub fn parse<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Frame<'a>, Malformed> {
    if bytes.len() > limits.bytes {
        return Err(Malformed::too_large(limits));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Malformed::unread(Refusal::new(Code::UnsupportedEncoding)))?;
    if nesting_exceeds(text, limits.depth) {
        return Err(Malformed::unread(invalid(format!(
            "the message is nested deeper than {} levels",
            limits.depth
        ))));
    }
    let fields: Fields<'a> = serde_json::from_str(text)
        .map_err(|error| Malformed::unread(not_an_object(text, &error)))?;
    fields.judge(limits)
}

/// Appends a result as one line, without the line's end.
///
/// # Errors
///
/// If `result` cannot be represented as JSON; `out` is then as it was.
pub fn write_result(
    out: &mut Vec<u8>,
    id: &RequestId,
    result: &(impl Serialize + ?Sized),
) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Message<'a, T: ?Sized> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        result: &'a T,
    }
    let jsonrpc = "2.0";
    write(
        out,
        &Message {
            jsonrpc,
            id,
            result,
        },
    )
}

/// What stands in the place of an id in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorId {
    /// The request's own.
    Known(RequestId),
    /// It could not be read and is left out, as from 2025-11-25 on.
    Absent,
    /// It could not be read and is null, as before 2025-11-25.
    Null,
}

/// Appends an error as one line, without the line's end.
pub fn write_error(out: &mut Vec<u8>, id: &ErrorId, refusal: &Refusal) {
    #[derive(Serialize)]
    struct Message<'a> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Option<&'a RequestId>>,
        error: &'a Refusal,
    }
    let id = match id {
        ErrorId::Known(id) => Some(Some(id)),
        ErrorId::Absent => None,
        ErrorId::Null => Some(None),
    };
    let message = Message {
        jsonrpc: "2.0",
        id,
        error: refusal,
    };
    write(out, &message).expect("a refusal holds only strings and numbers");
}

/// Appends an error whose object was made elsewhere as one line, without the line's end.
///
/// # Errors
///
/// If `error` cannot be represented as JSON; `out` is then as it was.
pub fn write_raw_error(
    out: &mut Vec<u8>,
    id: &RequestId,
    error: &(impl Serialize + ?Sized),
) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Message<'a, T: ?Sized> {
        jsonrpc: &'static str,
        id: &'a RequestId,
        error: &'a T,
    }
    let jsonrpc = "2.0";
    write(out, &Message { jsonrpc, id, error })
}

/// Appends a notification as one line, without the line's end.
///
/// # Errors
///
/// If `params` cannot be represented as JSON; `out` is then as it was.
pub fn write_notification(
    out: &mut Vec<u8>,
    method: &str,
    params: Option<&(impl Serialize + ?Sized)>,
) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Message<'a, T: ?Sized> {
        jsonrpc: &'static str,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a T>,
    }
    let jsonrpc = "2.0";
    write(
        out,
        &Message {
            jsonrpc,
            method,
            params,
        },
    )
}

/// Raw JSON that is passed through may hold line breaks between its tokens, and only there.
fn write(out: &mut Vec<u8>, message: &impl Serialize) -> serde_json::Result<()> {
    let start = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, message) {
        out.truncate(start);
        return Err(error);
    }
    let mut from = start;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &out[from..]) {
        from += at;
        out[from] = b' ';
    }
    Ok(())
}

impl Malformed {
    /// A message that is longer than it may be.
    #[must_use]
    pub fn too_large(limits: &Limits) -> Self {
        Self::unread(
            Refusal::new(Code::MessageTooLarge)
                .because(format!("the message is longer than {} bytes", limits.bytes)),
        )
    }

    const fn unread(refusal: Refusal) -> Self {
        Self {
            id: None,
            refusal,
            reply: Reply::Error,
        }
    }
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells `null` from a member that is not there.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(d: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(d).map(Some)
}

impl<'a> Fields<'a> {
    fn judge(self, limits: &Limits) -> Result<Frame<'a>, Malformed> {
        let (id, bad_id) = match self.id.map(|raw| read_id(raw, limits)) {
            Some(Ok(id)) => (Some(id), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        // A message with a method and no id, or with no method and a result or an error, is
        // nothing that anybody waits for.
        let answerable = match self.method {
            Some(_) => self.id.is_some(),
            None => self.result.is_none() && self.error.is_none(),
        };
        let malformed = |refusal| Malformed {
            id: id.clone(),
            refusal,
            reply: if answerable {
                Reply::Error
            } else {
                Reply::None
            },
        };
        if self.jsonrpc.is_none_or(|raw| raw.get() != "\"2.0\"") {
            return Err(malformed(invalid("`jsonrpc` must be \"2.0\"")));
        }
        if let Some(why) = bad_id {
            return Err(malformed(invalid(why)));
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                // Borrowed where there is nothing to unescape.
                let Ok(Text(method)) = serde_json::from_str(method.get()) else {
                    return Err(malformed(invalid("`method` must be a string")));
                };
                let params = self.params;
                Ok(match id.clone() {
                    Some(id) => Frame::Request(Request { id, method, params }),
                    None => Frame::Notification(Notification { method, params }),
                })
            }
            (None, Some(result), None) if id.is_some() => Ok(Frame::Response(Response {
                id,
                outcome: Ok(result),
            })),
            (None, None, Some(error)) => Ok(Frame::Response(Response {
                id,
                outcome: Err(error),
            })),
            (None, None, None) => Err(malformed(invalid("there is no `method`"))),
            (None, Some(_), None) => Err(malformed(invalid("a result needs an `id`"))),
            (Some(_), _, _) | (None, Some(_), Some(_)) => Err(malformed(invalid(
                "only one of `method`, `result` and `error` may be there",
            ))),
        }
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn read_id(raw: &RawValue, limits: &Limits) -> Result<RequestId, String> {
    if raw.get().len() > limits.id_bytes {
        return Err(format!("`id` is longer than {} bytes", limits.id_bytes));
    }
    RequestId::read(raw).ok_or_else(|| "`id` must be a string or an integer".to_owned())
}

fn invalid(message: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(Code::ProtocolError).because(message)
}

fn not_an_object(text: &str, error: &serde_json::Error) -> Refusal {
    match error.classify() {
        serde_json::error::Category::Data if text.trim_start().starts_with('[') => {
            invalid("batches are not supported: send one message at a time")
        }
        serde_json::error::Category::Data => {
            invalid(format!("this is not a JSON-RPC message: {error}"))
        }
        serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof
        | serde_json::error::Category::Io => {
            invalid(format!("this is not JSON: {error}")).with_rpc(RpcCode::PARSE_ERROR)
        }
    }
}

/// Counting brackets is fast and nearly always enough; only a text with many is looked at closely.
fn nesting_exceeds(text: &str, most: usize) -> bool {
    let bytes = text.as_bytes();
    if memchr::memchr2_iter(b'[', b'{', bytes)
        .take(most + 1)
        .count()
        <= most
    {
        return false;
    }
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > most {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Frame<'_>, Malformed> {
        parse(text.as_bytes(), &Limits::default())
    }

    #[track_caller]
    fn check_id(written: &str, id: RequestId) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{written},"method":"m"}}"#);
        match read(&text) {
            Ok(Frame::Request(request)) => assert_eq!(request.id, id),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check_malformed(text: &str, rpc: RpcCode, id: Option<RequestId>, reply: Reply) {
        let malformed = read(text).unwrap_err();
        assert_eq!(malformed.refusal.rpc_code(), rpc, "{malformed:?}");
        assert_eq!(malformed.id, id, "{malformed:?}");
        assert_eq!(malformed.reply, reply, "{malformed:?}");
    }

    #[test]
    fn the_three_kinds_are_told_apart() {
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1]}}"#),
            Ok(Frame::Request(Request { params: Some(raw), .. })) if raw.get() == r#"{"a":[1]}"#
        ));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"m"}"#),
            Ok(Frame::Notification(Notification { params: None, .. }))
        ));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
            Ok(Frame::Response(Response { outcome: Ok(raw), .. })) if raw.get() == "null"
        ));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#),
            Ok(Frame::Response(Response {
                id: None,
                outcome: Err(_)
            }))
        ));
    }

    #[test]
    fn ids_are_strings_or_integers_however_written() {
        check_id("1", 1.into());
        check_id("-7", (-7).into());
        check_id("1.0", 1.into());
        check_id("1e2", 100.into());
        check_id("9223372036854775807", i64::MAX.into());
        check_id(r#""a\"é\u00e9""#, "a\"éé".into());
        check_id(r#""""#, "".into());
    }

    #[test]
    fn an_escaped_method_is_read() {
        let Ok(Frame::Request(request)) =
            read(r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call"}"#)
        else {
            panic!()
        };
        assert_eq!(request.method, "tools/call");
    }

    #[test]
    fn what_is_no_message_is_answered_with_the_id_that_could_be_read() {
        let one = Some(RequestId::Number(1));
        let invalid = RpcCode::INVALID_REQUEST;
        check_malformed("{", RpcCode::PARSE_ERROR, None, Reply::Error);
        check_malformed("", RpcCode::PARSE_ERROR, None, Reply::Error);
        check_malformed("{} x", RpcCode::PARSE_ERROR, None, Reply::Error);
        check_malformed("42", invalid, None, Reply::Error);
        check_malformed("[]", invalid, None, Reply::Error);
        check_malformed("{}", invalid, None, Reply::Error);
        check_malformed(
            r#"{"id":1,"method":"m"}"#,
            invalid,
            one.clone(),
            Reply::Error,
        );
        check_malformed(
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            invalid,
            one.clone(),
            Reply::Error,
        );
        check_malformed(
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            invalid,
            one.clone(),
            Reply::Error,
        );
        check_malformed(r#"{"jsonrpc":"2.0","id":1}"#, invalid, one, Reply::Error);
        for id in ["null", "true", "1.5", "{}", "[1]", "1e300", r#""\ud800""#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            check_malformed(&text, invalid, None, Reply::Error);
        }
    }

    #[test]
    fn malformed_notifications_and_responses_are_not_answered() {
        let invalid = RpcCode::INVALID_REQUEST;
        check_malformed(
            r#"{"jsonrpc":"1.0","method":"m"}"#,
            invalid,
            None,
            Reply::None,
        );
        check_malformed(
            r#"{"jsonrpc":"2.0","method":5}"#,
            invalid,
            None,
            Reply::None,
        );
        check_malformed(
            r#"{"jsonrpc":"2.0","result":1}"#,
            invalid,
            None,
            Reply::None,
        );
        check_malformed(
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            invalid,
            Some(1.into()),
            Reply::None,
        );
    }

    #[test]
    fn invalid_utf8_is_a_parse_error() {
        let malformed = parse(b"{\"jsonrpc\":\"2.0\xff\"}", &Limits::default()).unwrap_err();
        assert_eq!(malformed.refusal.code(), Code::UnsupportedEncoding);
        assert_eq!(malformed.refusal.rpc_code(), RpcCode::PARSE_ERROR);
    }

    #[test]
    fn size_nesting_and_id_are_bounded() {
        let limits = Limits {
            bytes: 100,
            depth: 3,
            id_bytes: 10,
        };
        let code = |text: &str| {
            parse(text.as_bytes(), &limits)
                .map(|_| ())
                .map_err(|malformed| malformed.refusal.code())
        };
        assert_eq!(code(&"x".repeat(101)), Err(Code::MessageTooLarge));
        let deep = |params: &str| format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
        assert_eq!(code(&deep("[[1],[2],[3]]")), Ok(()));
        assert_eq!(code(&deep("[[[1]]]")), Err(Code::ProtocolError));
        assert_eq!(code(&deep(r#""[[[[[[\"[[[""#)), Ok(()));
        let long = r#"{"jsonrpc":"2.0","id":"0123456789","method":"m"}"#;
        assert_eq!(code(long), Err(Code::ProtocolError));
    }

    #[test]
    fn a_hundred_thousand_brackets_are_refused() {
        let malformed = parse(&vec![b'['; 100_000], &Limits::default()).unwrap_err();
        assert_eq!(malformed.refusal.rpc_code(), RpcCode::INVALID_REQUEST);
    }

    #[test]
    fn each_message_is_one_line() {
        let raw = RawValue::from_string("{\n \"a\":\r\n\"\\n\"}".to_owned()).unwrap();
        let mut out = b"before\n".to_vec();
        write_result(&mut out, &1.into(), &raw).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "before\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{  \"a\":  \"\\n\"}}"
        );
    }

    #[test]
    fn an_unread_id_is_left_out_or_null() {
        let refusal = Refusal::new(Code::ProtocolError);
        let text = |id| {
            let mut out = Vec::new();
            write_error(&mut out, &id, &refusal);
            String::from_utf8(out).unwrap()
        };
        assert!(text(ErrorId::Absent).starts_with(r#"{"jsonrpc":"2.0","error""#));
        assert!(text(ErrorId::Null).starts_with(r#"{"jsonrpc":"2.0","id":null,"error""#));
        assert!(text(ErrorId::Known(7.into())).starts_with(r#"{"jsonrpc":"2.0","id":7,"#));
    }

    #[test]
    fn a_notification_without_params_has_none() {
        let mut out = Vec::new();
        write_notification(&mut out, "notifications/x", None::<&()>).unwrap();
        assert_eq!(out, br#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    }
}
