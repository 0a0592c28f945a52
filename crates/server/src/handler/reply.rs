//! What handlers return, and what becomes of it.

use crate::{
    failure::Failure,
    model::{
        CallToolResult, CompleteResult, ContentBlock, GetPromptResult, JsonObject,
        ReadResourceResult,
    },
};
use rmcp::model::ResultType;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::mem;

/// What a handler returns when it has done what it was asked. It is moved from hand to hand, so
/// what is large is kept in a box.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Text(Text),
    Tool(Box<CallToolResult>),
    /// Of a tool, as it was written elsewhere.
    Raw(Box<JsonObject>),
    Resource(Box<ReadResourceResult>),
    Prompt(Box<GetPromptResult>),
    Completion(Box<CompleteResult>),
}

/// The result of a tool that is one text and nothing else, as most are.
#[derive(Default)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Whether it says that it is complete, which only stateless clients are told.
    pub(crate) says_complete: bool,
}

impl Text {
    /// Appends it as JSON.
    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        if self.says_complete {
            out.extend_from_slice(br#""resultType":"complete","#);
        }
        out.extend_from_slice(br#""content":[{"type":"text","text":"#);
        interlock_workflow::json::text(out, &self.text);
        out.extend_from_slice(br#"}],"isError":false}"#);
    }

    /// The same by its type, to which something can be added.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.result_type = self.says_complete.then_some(ResultType::COMPLETE);
        result
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let same = Self {
            text: self.text.clone(),
            ..*self
        };
        same.into_result().serialize(serializer)
    }
}

impl From<ToolResult> for Reply {
    fn from(result: ToolResult) -> Self {
        match result {
            ToolResult::Text(text) => Self::Text(Text {
                text,
                says_complete: false,
            }),
            ToolResult::Typed(result) => result.into(),
            ToolResult::Raw(object) => Self::Raw(Box::new(object)),
        }
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

    pub(super) fn structured(&self) -> Option<&Value> {
        match self {
            Self::Tool(result) => result.structured_content.as_ref(),
            Self::Raw(object) => object.get("structuredContent"),
            Self::Text(_) | Self::Resource(_) | Self::Prompt(_) | Self::Completion(_) => None,
        }
    }

    /// Appends it as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Text(text) => {
                text.write(out);
                Ok(())
            }
            Self::Tool(_)
            | Self::Raw(_)
            | Self::Resource(_)
            | Self::Prompt(_)
            | Self::Completion(_) => serde_json::to_writer(out, self),
        }
    }

    /// Tells the model something besides, if the call succeeded and was one of a model.
    pub(crate) fn tell(&mut self, texts: &[String]) {
        if !self.is_error() {
            self.add(texts);
        }
    }

    /// Tells the model something that it has to know, be it that the call failed.
    pub(crate) fn warn(&mut self, text: &str) {
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

    /// Takes out what only we may say about a call.
    pub(crate) fn disown(&mut self) {
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

/// Under which names results say what the server has to say.
const OURS: &str = "dev.interlock/";

/// What a tool returns: one of the protocol's results, or raw JSON that passes through unread.
#[derive(Clone, Debug)]
pub enum ToolResult {
    /// One text and nothing else.
    Text(String),
    /// A result by its type.
    Typed(CallToolResult),
    /// A result object as some other server or program wrote it; unknown members survive.
    Raw(JsonObject),
}

/// What a tool handler may return.
pub trait IntoToolResult {
    /// Makes a result of it.
    ///
    /// # Errors
    ///
    /// If it is a failure, or cannot be represented as JSON.
    fn into_tool_result(self) -> Result<ToolResult, Failure>;
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Ok(self)
    }
}

impl IntoToolResult for CallToolResult {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Ok(ToolResult::Typed(self))
    }
}

impl IntoToolResult for Vec<ContentBlock> {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Ok(ToolResult::Typed(CallToolResult::success(self)))
    }
}

impl IntoToolResult for ContentBlock {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        vec![self].into_tool_result()
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Ok(ToolResult::Text(self))
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        self.to_owned().into_tool_result()
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        Vec::<ContentBlock>::new().into_tool_result()
    }
}

/// A value that is returned as structured content, and as text for clients that know no such.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        let value = serde_json::to_value(self.0)?;
        Ok(ToolResult::Typed(CallToolResult::structured(value)))
    }
}

impl<T: IntoToolResult, E: Into<Failure>> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> Result<ToolResult, Failure> {
        self.map_err(Into::into)?.into_tool_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply) -> String {
        let mut out = Vec::new();
        reply.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_written_by_hand_is_what_its_type_says() {
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
                let reply = Reply::Text(Text {
                    text: text.to_owned(),
                    says_complete,
                });
                assert_eq!(written(&reply), expected);
                assert_eq!(serde_json::to_string(&reply).unwrap(), expected);
            }
        }
    }
}
