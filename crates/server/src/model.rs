//! The protocol's own types, as the rest of the ecosystem has them.
//!
//! They come from `rmcp`; this is the only path by which they are public here.

pub use rmcp::model::{
    Annotations, CacheScope, CallToolResult, CompleteResult, CompletionInfo, ContentBlock,
    GetPromptResult, Icon, IconTheme, Implementation, JsonObject, MetaObject,
    Prompt as PromptModel, PromptArgument, PromptMessage, ReadResourceResult,
    Resource as ResourceModel, ResourceContents, ResourceTemplate as ResourceTemplateModel, Role,
    Tool as ToolModel, ToolAnnotations,
};
