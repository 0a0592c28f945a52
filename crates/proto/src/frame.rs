//! One JSON-RPC message: bytes to frame and back.
//!
//! `params` and `result` stay raw until somebody needs a type. Nothing here recurses over the
//! input or keeps more than the input itself, so hostile bytes cost what their length costs.

use crate::{
    AskId, Code, Params, Refusal, RequestId, RpcCode, Version,
    era::{self, Text},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, marker::PhantomData};

mod plain;
#[cfg(test)]
mod tests;

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
    pub params: Option<Params<'a>>,
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
    /// The id as it was written, where it is an integer that no request can have.
    pub number: Option<Box<str>>,
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
    judge(text(bytes, limits)?, limits)
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
    let start = out.len();
    write_result_by(out, id, |out| serde_json::to_writer(out, result))?;
    break_no_line(&mut out[start..]);
    Ok(())
}

/// As [`write_result`], for a result that is written by hand, without line breaks.
///
/// # Errors
///
/// If `result` fails; `out` is then as it was.
pub fn write_result_by(
    out: &mut Vec<u8>,
    id: &RequestId,
    result: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    let start = out.len();
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    let written = serde_json::to_writer(&mut *out, id).and_then(|()| {
        out.extend_from_slice(br#","result":"#);
        result(out)
    });
    match written {
        Ok(()) => out.push(b'}'),
        Err(_) => out.truncate(start),
    }
    written
}

/// As [`write_result`], for a result that was written before, without line breaks.
pub fn write_ready_result(out: &mut Vec<u8>, id: &RequestId, result: &str) {
    debug_assert!(!result.contains(['\n', '\r']), "it is one line");
    out.reserve(result.len() + 64);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    serde_json::to_writer(&mut *out, id).expect("an id is JSON");
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
}

/// What stands in the place of an id in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorId {
    /// The request's own.
    Known(RequestId),
    /// An integer that no request can have, as it was written: whoever sent it waits for it.
    Number(Box<str>),
    /// It could not be read and is left out, as from 2025-11-25 on.
    Absent,
    /// It could not be read and is null, as before 2025-11-25.
    Null,
}

impl ErrorId {
    /// For an id that could not be read, on a connection that speaks this version or none yet.
    #[must_use]
    pub fn unread(version: Option<Version>) -> Self {
        match version {
            Some(version) if version < Version::V2025_11_25 => Self::Null,
            Some(_) | None => Self::Absent,
        }
    }
}

/// Appends an error as one line, without the line's end.
pub fn write_error(out: &mut Vec<u8>, id: &ErrorId, refusal: &Refusal) {
    #[derive(Serialize)]
    struct Message<'a> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Written<'a>>,
        error: &'a Refusal,
    }
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Written<'a> {
        Known(&'a RequestId),
        Number(&'a RawValue),
        Null(()),
    }
    let number = |text| serde_json::from_str(text).map_or(Written::Null(()), Written::Number);
    let id = match id {
        ErrorId::Known(id) => Some(Written::Known(id)),
        ErrorId::Number(text) => Some(number(text)),
        ErrorId::Absent => None,
        ErrorId::Null => Some(Written::Null(())),
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

/// Appends a request of ours as one line, without the line's end.
///
/// # Errors
///
/// If `params` cannot be represented as JSON; `out` is then as it was.
pub fn write_request(
    out: &mut Vec<u8>,
    id: AskId,
    method: &str,
    params: Option<&(impl Serialize + ?Sized)>,
) -> serde_json::Result<()> {
    #[derive(Serialize)]
    struct Message<'a, T: ?Sized> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        params: Option<&'a T>,
    }
    let message = Message {
        jsonrpc: "2.0",
        id: id.0,
        method,
        params,
    };
    write(out, &message)
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

fn write(out: &mut Vec<u8>, message: &impl Serialize) -> serde_json::Result<()> {
    let start = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, message) {
        out.truncate(start);
        return Err(error);
    }
    break_no_line(&mut out[start..]);
    Ok(())
}

/// Raw JSON that is passed through may hold line breaks between its tokens, and only there.
fn break_no_line(message: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &message[from..]) {
        from += at;
        message[from] = b' ';
    }
}

impl Malformed {
    /// What the error has for an id, on a connection that speaks this version or none yet.
    #[must_use]
    pub fn error_id(&self, version: Option<Version>) -> ErrorId {
        let number = || self.number.clone().map(ErrorId::Number);
        let known = self.id.clone().map(ErrorId::Known).or_else(number);
        known.unwrap_or_else(|| ErrorId::unread(version))
    }

    /// A message that is longer than it may be.
    #[must_use]
    pub fn too_large(limits: &Limits) -> Self {
        Self::unread(
            Refusal::new(Code::MessageTooLarge)
                .because(format!("the message is longer than {} bytes", limits.bytes)),
        )
    }

    pub(crate) const fn unread(refusal: Refusal) -> Self {
        Self {
            id: None,
            number: None,
            refusal,
            reply: Reply::Error,
        }
    }
}

/// Judges one member of a batch, or a message that stands alone.
pub(crate) fn judge<'a>(text: &'a str, limits: &Limits) -> Result<Frame<'a>, Malformed> {
    if let Some(request) = plain::request(text, limits) {
        return Ok(Frame::Request(request));
    }
    let fields: Fields<'a> = serde_json::from_str(text)
        .map_err(|error| Malformed::unread(not_an_object(text, &error)))?;
    fields.judge(limits)
}

/// The text of a message, if it is neither too long nor nested too deeply.
pub(crate) fn text<'a>(bytes: &'a [u8], limits: &Limits) -> Result<&'a str, Malformed> {
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
    Ok(text)
}

/// The members of a message that mean something, each as it was written.
#[derive(Default)]
struct Fields<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// A member that is there more than once, so that nobody can say which one is meant.
    twice: Option<&'static str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    /// By hand, because a derived reader takes an array for an object, and gives up on the whole
    /// message when one member stands there twice: then nobody knows whether it wants an answer.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(PhantomData<Fields<'a>>);

        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = Fields<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::default();
                while let Some(Text(name)) = map.next_key()? {
                    let (name, slot) = match &*name {
                        "jsonrpc" => ("jsonrpc", &mut fields.jsonrpc),
                        "id" => ("id", &mut fields.id),
                        "method" => ("method", &mut fields.method),
                        "params" => ("params", &mut fields.params),
                        "result" => ("result", &mut fields.result),
                        "error" => ("error", &mut fields.error),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    let again = slot.replace(map.next_value()?).is_some();
                    // Two ids are the worst: then there is none to answer to.
                    if again && fields.twice != Some("id") {
                        fields.twice = Some(name);
                    }
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

/// Some clients write `null` where they mean nothing.
fn is_structured(params: &RawValue) -> bool {
    let text = params.get();
    text.starts_with(['{', '[']) || text == "null"
}

impl<'a> Fields<'a> {
    fn judge(self, limits: &Limits) -> Result<Frame<'a>, Malformed> {
        let (id, bad_id) = match self.id.map(|raw| read_id(raw, limits)) {
            Some(_) if self.twice == Some("id") => (None, None),
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
        let number = self
            .id
            .filter(|raw| bad_id.is_some() && is_number(raw, limits));
        let malformed = |refusal| Malformed {
            id: id.clone(),
            number: number.map(|raw| raw.get().into()),
            refusal,
            reply: if answerable {
                Reply::Error
            } else {
                Reply::None
            },
        };
        if let Some(name) = self.twice {
            return Err(malformed(invalid(format!("`{name}` is there twice"))));
        }
        if !self.jsonrpc.is_some_and(is_two) {
            return Err(malformed(invalid("`jsonrpc` must be \"2.0\"")));
        }
        if let Some(why) = bad_id {
            return Err(malformed(invalid(why)));
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let Some(method) = era::text(method.get()) else {
                    return Err(malformed(invalid("`method` must be a string")));
                };
                let params = self.params;
                match id.clone() {
                    Some(id) => {
                        let params = params.map(Params::new);
                        Ok(Frame::Request(Request { id, method, params }))
                    }
                    // A request's own method says what is wrong with its parameters; nobody would
                    // say it of a notification's.
                    None if params.is_some_and(|params| !is_structured(params)) => {
                        Err(malformed(invalid("`params` must be an object")))
                    }
                    None => Ok(Frame::Notification(Notification { method, params })),
                }
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

/// Nobody writes it with escapes, but it would mean the same.
fn is_two(version: &RawValue) -> bool {
    era::text(version.get()).is_some_and(|text| text == "2.0")
}

fn read_id(raw: &RawValue, limits: &Limits) -> Result<RequestId, String> {
    if raw.get().len() > limits.id_bytes {
        return Err(format!("`id` is longer than {} bytes", limits.id_bytes));
    }
    RequestId::read(raw).ok_or_else(|| "`id` must be a string or an integer of 64 bits".to_owned())
}

/// Whether an id that is none is an integer, which an error can carry.
fn is_number(raw: &RawValue, limits: &Limits) -> bool {
    let text = raw.get();
    let digits = text.strip_prefix('-').unwrap_or(text);
    text.len() <= limits.id_bytes && digits.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(Code::ProtocolError).because(message)
}

pub(crate) fn not_an_object(text: &str, error: &serde_json::Error) -> Refusal {
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

/// How many bytes open an array or an object, were they outside of strings. In pieces whose count
/// fits into a byte, so that the processor can count many at a time.
fn opening_brackets(bytes: &[u8]) -> usize {
    // It makes `[` a `{`, and nothing else one.
    const BIT: u8 = b'[' ^ b'{';
    let in_piece = |piece: &[u8]| -> u8 {
        let opens = |byte: &u8| u8::from(byte | BIT == b'{');
        piece.iter().map(opens).sum()
    };
    bytes.chunks(128).map(in_piece).map(usize::from).sum()
}

/// Counting brackets is fast and nearly always enough; only a text with many is looked at closely.
fn nesting_exceeds(text: &str, most: usize) -> bool {
    let bytes = text.as_bytes();
    if opening_brackets(bytes) <= most {
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
