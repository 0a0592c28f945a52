//! The protocol's own types, as the rest of the ecosystem has them.
//!
//! They come from `rmcp`; this is the only path by which they are public here.

#[expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling and roots; until they are gone, they are served"
)]
pub use rmcp::model::{
    Annotations, CacheScope, CallToolResult, ClientCapabilities, CompleteResult, CompletionInfo,
    ContentBlock, CreateMessageRequestParams, CreateMessageResult, ElicitResult, ElicitationAction,
    GetPromptResult, Icon, IconTheme, Implementation, JsonObject, MetaObject,
    Prompt as PromptModel, PromptArgument, PromptMessage, ReadResourceResult,
    Resource as ResourceModel, ResourceContents, ResourceTemplate as ResourceTemplateModel, Role,
    Root, SamplingMessage, Tool as ToolModel, ToolAnnotations,
};
