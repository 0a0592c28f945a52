//! What a handler has returned, and how it is written.

use crate::model::{
    CallToolResult, CompleteResult, ContentBlock, GetPromptResult, JsonObject, ReadResourceResult,
};
use rmcp::model::ResultType;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::mem;

/// The result of a handler that succeeded. Boxes keep it small, for it is moved often.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Text(TextReply),
    Tool(Box<CallToolResult>),
    /// Of a tool, as another server or program wrote it.
    Raw(Box<JsonObject>),
    Resource(Box<ReadResourceResult>),
    Prompt(Box<GetPromptResult>),
    Completion(Box<CompleteResult>),
}

/// The result of a tool that is one text and nothing else, as most are.
#[derive(Default)]
pub(crate) struct TextReply {
    pub(crate) text: String,
    /// Whether it has a `resultType`, which only stateless clients are told.
    pub(crate) says_complete: bool,
}

impl TextReply {
    /// The same as a typed result, to which something can be added.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.result_type = self.says_complete.then_some(ResultType::COMPLETE);
        result
    }
}

/// As its [`CallToolResult`] is written, without the cost of making one.
impl Serialize for TextReply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Written<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            result_type: Option<ResultType>,
            content: [Block<'a>; 1],
            is_error: bool,
        }
        #[derive(Serialize)]
        #[serde(tag = "type", rename = "text")]
        struct Block<'a> {
            text: &'a str,
        }
        let written = Written {
            result_type: self.says_complete.then_some(ResultType::COMPLETE),
            content: [Block { text: &self.text }],
            is_error: false,
        };
        written.serialize(serializer)
    }
}

impl From<CallToolResult> for Reply {
    fn from(result: CallToolResult) -> Self {
        Self::Tool(Box::new(result))
    }
}

impl Reply {
    /// Whether it says that the call failed.
    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Tool(result) => result.is_error == Some(true),
            Self::Raw(object) => object.get("isError") == Some(&Value::Bool(true)),
            Self::Text(_) | Self::Resource(_) | Self::Prompt(_) | Self::Completion(_) => false,
        }
    }

    pub(crate) fn structured(&self) -> Option<&Value> {
        match self {
            Self::Tool(result) => result.structured_content.as_ref(),
            Self::Raw(object) => object.get("structuredContent"),
            Self::Text(_) | Self::Resource(_) | Self::Prompt(_) | Self::Completion(_) => None,
        }
    }

    /// Adds texts for the model to a tool's result, unless the call failed.
    pub(crate) fn add_texts(&mut self, texts: &[String]) {
        if !self.is_error() {
            self.add(texts);
        }
    }

    /// Adds a text for the model to a tool's result, even if the call failed.
    pub(crate) fn add_warning(&mut self, text: &str) {
        self.add(&[text.to_owned()]);
    }

    fn add(&mut self, texts: &[String]) {
        if texts.is_empty() {
            return;
        }
        if let Self::Text(text) = self {
            *self = mem::take(text).into_result().into();
        }
        match self {
            Self::Tool(result) => {
                let texts = texts.iter().map(|text| ContentBlock::text(text.as_str()));
                result.content.extend(texts);
            }
            Self::Raw(object) => {
                let content = object.entry("content").or_insert_with(|| json!([]));
                if let Value::Array(content) = content {
                    let text = |text| json!({"type": "text", "text": text});
                    content.extend(texts.iter().map(text));
                }
            }
            Self::Text(_) | Self::Resource(_) | Self::Prompt(_) | Self::Completion(_) => {}
        }
    }

    /// Removes `_meta` members that only the server itself may set.
    pub(crate) fn remove_server_meta(&mut self) {
        let ours = |name: &String| name.starts_with(OURS);
        let meta = match self {
            Self::Text(_) => None,
            Self::Tool(result) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Raw(object) => object.get_mut("_meta").and_then(Value::as_object_mut),
            Self::Resource(result) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Prompt(result) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Completion(result) => result.meta.as_mut().map(|meta| &mut meta.0),
        };
        if let Some(meta) = meta {
            meta.retain(|name, _| !ours(name));
        }
    }
}

/// The prefix of the server's own `_meta` members.
const OURS: &str = "dev.interlock/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_as_its_typed_result_would_be() {
        for text in [
            "",
            "plain",
            "a \"quote\", a \\ and a\nbreak",
            "\u{7}é\u{2028}🦀",
        ] {
            for says_complete in [false, true] {
                let mut typed = CallToolResult::success(vec![ContentBlock::text(text)]);
                typed.result_type = says_complete.then_some(ResultType::COMPLETE);
                let expected = serde_json::to_string(&typed).unwrap();
                let reply = Reply::Text(TextReply {
                    text: text.to_owned(),
                    says_complete,
                });
                assert_eq!(serde_json::to_string(&reply).unwrap(), expected);
            }
        }
    }
}
