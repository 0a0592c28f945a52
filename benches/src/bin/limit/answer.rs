//! One message in, the bytes of its answer out.

use std::{borrow::Cow, io};

use interlock_benches::tools;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

/// Everything that is known before the first message.
pub(crate) struct Server {
    tools: Vec<u8>,
    tools_stateless: Vec<u8>,
}

/// A message, read once. What is inside is read by whom it concerns.
#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// What is read of a request's parameters, once.
#[derive(Deserialize)]
pub(crate) struct Params<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    /// A server does not know which tools it will have, so that arguments are JSON to it.
    arguments: Option<Map<String, Value>>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<Meta<'a>>,
}

/// What the tool makes of its arguments.
#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Deserialize)]
pub(crate) struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) version: Option<Cow<'a, str>>,
}

/// What differs between the revisions: without a session, the parameters have been looked at
/// already, and a result says more of itself.
pub(crate) enum Era<'a> {
    Sessions,
    Stateless(Params<'a>),
}

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"limit","version":"0.1.0"}}"#;
const STATELESS_END: &str = r#","resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"limit","version":"0.1.0"}}}"#;
const CACHEABLE: &str = r#","ttlMs":300000,"cacheScope":"public""#;

impl Server {
    pub(crate) fn with_tools(number: usize) -> io::Result<Self> {
        let list = tools::json(number)?;
        Ok(Self {
            tools: format!(r#"{{"tools":{list}}}"#).into_bytes(),
            tools_stateless: format!(r#"{{"tools":{list}{CACHEABLE}{STATELESS_END}"#).into_bytes(),
        })
    }

    /// Reads a message and writes its answer, if it gets one.
    pub(crate) fn answer(&self, message: &[u8], out: &mut Vec<u8>) -> bool {
        match serde_json::from_slice(message) {
            Ok(message) if Message::is_of_version_two(&message) => {
                self.answer_to(&message, Era::Sessions, out)
            }
            Ok(_) | Err(_) => {
                let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not a message"}}"#;
                out.extend_from_slice(error.as_bytes());
                true
            }
        }
    }

    /// Writes the answer to a message, if it gets one.
    pub(crate) fn answer_to(&self, message: &Message<'_>, era: Era<'_>, out: &mut Vec<u8>) -> bool {
        let Some(id) = message.id else {
            return false;
        };
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(id.get().as_bytes());
        match &*message.method {
            "tools/call" => match era {
                Era::Sessions => call(message.params(), "}", out),
                Era::Stateless(params) => call(Some(params), STATELESS_END, out),
            },
            "tools/list" => match era {
                Era::Sessions => result(&self.tools, out),
                Era::Stateless(_) => result(&self.tools_stateless, out),
            },
            "initialize" => result(INITIALIZED.as_bytes(), out),
            "ping" => result(b"{}", out),
            _ => error(-32601, "no such method", out),
        }
        out.push(b'}');
        true
    }
}

impl<'a> Message<'a> {
    pub(crate) fn is_of_version_two(&self) -> bool {
        self.jsonrpc == "2.0"
    }

    pub(crate) fn params(&self) -> Option<Params<'a>> {
        serde_json::from_str(self.params?.get()).ok()
    }
}

fn call(params: Option<Params<'_>>, end: &str, out: &mut Vec<u8>) {
    let call = params.filter(|params| params.name.as_deref() == Some("echo"));
    let arguments = call.and_then(|params| params.arguments);
    let echo = arguments.map(|arguments| serde_json::from_value(Value::Object(arguments)));
    let Some(Ok(Echo { text })) = echo else {
        return error(-32602, "no such tool, or not its arguments", out);
    };
    out.extend_from_slice(br#","result":{"content":[{"type":"text","text":"#);
    // Writing text into memory does not fail.
    let _ = serde_json::to_writer(&mut *out, &text);
    out.extend_from_slice(br#"}],"isError":false"#);
    out.extend_from_slice(end.as_bytes());
}

fn result(json: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(br#","result":"#);
    out.extend_from_slice(json);
}

fn error(code: i32, what: &str, out: &mut Vec<u8>) {
    let error = format!(r#","error":{{"code":{code},"message":"{what}"}}"#);
    out.extend_from_slice(error.as_bytes());
}
