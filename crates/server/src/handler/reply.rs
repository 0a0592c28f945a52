//! What handlers return, and what becomes of it.

use crate::{
    failure::Failure,
    model::{
        CallToolResult, CompleteResult, ContentBlock, GetPromptResult, JsonObject,
        ReadResourceResult,
    },
};
use rmcp::model::ResultType;
use serde::Serialize;
use serde_json::Value;

/// What a handler returns when it has done what it was asked.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Tool(ToolResult),
    Resource(ReadResourceResult),
    Prompt(GetPromptResult),
    Completion(CompleteResult),
}

impl Reply {
    /// Whether it says that the call failed.
    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Tool(result) => result.is_error(),
            Self::Resource(_) | Self::Prompt(_) | Self::Completion(_) => false,
        }
    }

    /// Appends it as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        if let Self::Tool(ToolResult::Typed(result)) = self
            && let Some(text) = plain_text(result)
        {
            out.push(b'{');
            if result.result_type.is_some() {
                out.extend_from_slice(br#""resultType":"complete","#);
            }
            out.extend_from_slice(br#""content":[{"type":"text","text":"#);
            serde_json::to_writer(&mut *out, text)?;
            out.extend_from_slice(br#"}],"isError":false}"#);
            return Ok(());
        }
        serde_json::to_writer(out, self)
    }

    /// Takes out what only we may say about a call.
    pub(crate) fn disown(&mut self) {
        let ours = |name: &String| name.starts_with(OURS);
        let meta = match self {
            Self::Tool(ToolResult::Raw(object)) => {
                object.get_mut("_meta").and_then(Value::as_object_mut)
            }
            Self::Tool(ToolResult::Typed(result)) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Resource(result) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Prompt(result) => result.meta.as_mut().map(|meta| &mut meta.0),
            Self::Completion(result) => result.meta.as_mut().map(|meta| &mut meta.0),
        };
        if let Some(meta) = meta {
            meta.retain(|name, _| !ours(name));
        }
    }
}

/// The text of a result that is one text and nothing else, as most are.
fn plain_text(result: &CallToolResult) -> Option<&str> {
    let [ContentBlock::Text(text)] = &*result.content else {
        return None;
    };
    let is_plain = text.meta.is_none()
        && text.annotations.is_none()
        && result.is_error == Some(false)
        && result.structured_content.is_none()
        && result.meta.is_none()
        && result
            .result_type
            .as_ref()
            .is_none_or(|kind| *kind == ResultType::COMPLETE);
    is_plain.then_some(&text.text)
}

/// Under which names results say what the server has to say.
const OURS: &str = "dev.interlock/";

/// What a tool returns: one of the protocol's results, or raw JSON that passes through unread.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ToolResult {
    /// A result by its type.
    Typed(CallToolResult),
    /// A result object as some other server or program wrote it; unknown members survive.
    Raw(JsonObject),
}

impl ToolResult {
    pub(super) fn structured(&self) -> Option<&Value> {
        match self {
            Self::Typed(result) => result.structured_content.as_ref(),
            Self::Raw(object) => object.get("structuredContent"),
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        match self {
            Self::Typed(result) => result.is_error == Some(true),
            Self::Raw(object) => object.get("isError") == Some(&Value::Bool(true)),
        }
    }
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
        ContentBlock::text(self).into_tool_result()
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
    use crate::model::MetaObject;

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
            let mut plain = CallToolResult::success(vec![ContentBlock::text(text)]);
            plain.result_type = None;
            let complete = CallToolResult::success(vec![ContentBlock::text(text)]);
            let failed = CallToolResult::error(vec![ContentBlock::text(text)]);
            let mut marked = plain.clone();
            marked.meta = Some(MetaObject::default());
            let mut structured = plain.clone();
            structured.structured_content = Some(Value::Null);
            let two = CallToolResult::success(vec![ContentBlock::text(text); 2]);
            for result in [plain, complete, failed, marked, structured, two] {
                let expected = serde_json::to_string(&result).unwrap();
                let reply = Reply::Tool(ToolResult::Typed(result));
                assert_eq!(written(&reply), expected);
            }
        }
    }
}
