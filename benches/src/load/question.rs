//! The requests of a load as JSON, and what must come back.

use std::borrow::Cow;
use std::io::Write;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::contestant::Way;

/// What is asked over and over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    /// The tool `echo`, with a text of so many bytes.
    Echo { bytes: usize },
    /// The list of so many tools.
    List { tools: usize },
}

/// Writes requests and checks answers.
#[derive(Clone)]
pub(crate) struct Question {
    operation: Operation,
    stateless: bool,
    filling: String,
}

/// Digits at the beginning of each text, so that no two are the same.
const NUMBER: usize = 16;
const META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// The first message of a session.
pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
/// The second one, which has no answer.
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[derive(Deserialize)]
struct Answer<'a> {
    id: Option<u64>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    result: Option<Outcome<'a>>,
}

/// What a message of a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The right answer to the request with this id.
    Answer(u64),
    /// Something that it says by itself, such as that a list has changed.
    Notification,
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow)]
    content: Option<[Content<'a>; 1]>,
    #[serde(borrow)]
    tools: Option<Vec<Listed<'a>>>,
}

#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// Whether these are so many tools, each in its place.
fn is_list(list: &[Listed<'_>], tools: usize) -> bool {
    let is_right = |(place, tool): (usize, &Listed<'_>)| match tool.name.strip_prefix("tool_") {
        Some(number) => number.parse() == Ok(place),
        None => place == 0 && tool.name == "echo",
    };
    list.len() == tools && list.iter().enumerate().all(is_right)
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

impl Question {
    pub(crate) fn new(operation: Operation, way: Way) -> Self {
        let filling = match operation {
            Operation::Echo { bytes } => {
                let words = "all work and no play ".bytes().cycle();
                let letters = words.take(bytes.saturating_sub(NUMBER)).map(char::from);
                letters.collect()
            }
            Operation::List { .. } => String::new(),
        };
        Self {
            operation,
            stateless: way == Way::Stateless,
            filling,
        }
    }

    /// The method and, if it has one, the name that it is about.
    pub(crate) fn method(&self) -> (&'static str, Option<&'static str>) {
        match self.operation {
            Operation::Echo { .. } => ("tools/call", Some("echo")),
            Operation::List { .. } => ("tools/list", None),
        }
    }

    /// Writes the request with this id.
    pub(crate) fn write(&self, id: u64, out: &mut Vec<u8>) {
        let meta = if self.stateless { META } else { "" };
        let written = match self.operation {
            Operation::Echo { .. } => write!(
                out,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{id:0NUMBER$}{}"}}{meta}}}}}"#,
                self.filling
            ),
            Operation::List { .. } => {
                let params = meta.trim_start_matches(',');
                write!(
                    out,
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{{params}}}}}"#
                )
            }
        };
        written.expect("writing into memory does not fail");
    }

    /// What a message is. An answer must be what it has to be.
    pub(crate) fn check(&self, answer: &[u8]) -> Result<Heard> {
        let wrong = || {
            let start = String::from_utf8_lossy(&answer[..answer.len().min(300)]);
            format!("this is not the answer: `{start}`")
        };
        let Answer { id, method, result } = serde_json::from_slice(answer).with_context(wrong)?;
        if id.is_none() && method.is_some() {
            return Ok(Heard::Notification);
        }
        let (id, result) = id.zip(result).with_context(wrong)?;
        let right = match self.operation {
            Operation::Echo { .. } => match &result.content {
                Some([content]) => self.is_echo(id, &content.text),
                None => false,
            },
            Operation::List { tools } => result.tools.is_some_and(|list| is_list(&list, tools)),
        };
        if !right {
            bail!(wrong());
        }
        Ok(Heard::Answer(id))
    }

    fn is_echo(&self, id: u64, text: &str) -> bool {
        let (Some(number), Some(filling)) = (text.get(..NUMBER), text.get(NUMBER..)) else {
            return false;
        };
        filling == self.filling && number.parse() == Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const ECHO: Operation = Operation::Echo { bytes: 64 };

    fn written(operation: Operation, way: Way) -> Value {
        let mut out = Vec::new();
        Question::new(operation, way).write(7, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    fn answer(id: u64, text: &str) -> Vec<u8> {
        let content = json!([{"type": "text", "text": text}]);
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn requests_are_json_and_texts_have_their_size() {
        let request = written(ECHO, Way::Stdio);
        let text = request["params"]["arguments"]["text"].as_str().unwrap();
        assert_eq!(text.len(), 64);
        assert!(text.starts_with("0000000000000007all work"));
        assert!(request["params"].get("_meta").is_none());
        let list = written(Operation::List { tools: 21 }, Way::Stateless);
        assert_eq!(list["method"], "tools/list");
        let version = "io.modelcontextprotocol/protocolVersion";
        assert_eq!(list["params"]["_meta"][version], "2026-07-28");
    }

    #[test]
    fn the_right_answer_is_taken_and_others_are_not() {
        let question = Question::new(ECHO, Way::Stdio);
        let request = written(ECHO, Way::Stdio);
        let text = request["params"]["arguments"]["text"].as_str().unwrap();
        assert_eq!(question.check(&answer(7, text)).unwrap(), Heard::Answer(7));
        let other_id = question.check(&answer(8, text)).unwrap_err().to_string();
        assert!(other_id.contains("not the answer"), "{other_id}");
        assert!(question.check(&answer(7, &text[1..])).is_err());
        assert!(question.check(&answer(7, "")).is_err());
        assert!(question.check(br#"{"id":7,"error":{"code":1}}"#).is_err());
        assert!(question.check(b"").is_err());
    }

    #[test]
    fn what_has_a_method_and_no_id_is_a_notification() {
        let question = Question::new(ECHO, Way::Stdio);
        let changed = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        assert_eq!(question.check(changed).unwrap(), Heard::Notification);
        let asked = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(question.check(asked).is_err());
        assert!(question.check(br#"{"jsonrpc":"2.0"}"#).is_err());
    }

    #[test]
    fn a_list_has_all_its_tools() {
        let question = Question::new(Operation::List { tools: 2 }, Way::Stdio);
        let list = |tools: Value| json!({"id": 1, "result": {"tools": tools}}).to_string();
        let (echo, other) = (json!({"name": "echo"}), json!({"name": "tool_01"}));
        let right = list(json!([echo, other]));
        assert!(question.check(right.as_bytes()).is_ok());
        for wrong in [json!([echo]), json!([echo, echo]), json!([other, echo])] {
            assert!(question.check(list(wrong).as_bytes()).is_err());
        }
    }
}
