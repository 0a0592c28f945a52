//! What tool handlers may return.

use crate::model::{
    CallToolResult, ContentBlock, JsonObject,
    failure::Failure,
    reply::{Reply, TextReply},
};
use serde::Serialize;

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

/// A value that is returned as structured content, and as text for older clients.
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

impl From<ToolResult> for Reply {
    fn from(result: ToolResult) -> Self {
        match result {
            ToolResult::Text(text) => Self::Text(TextReply {
                text,
                says_complete: false,
            }),
            ToolResult::Typed(result) => result.into(),
            ToolResult::Raw(object) => Self::Raw(Box::new(object)),
        }
    }
}
