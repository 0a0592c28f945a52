//! The protocol's own types, as the rest of the ecosystem has them. They come from `rmcp`, and this
//! is the only path by which they are public here.
//!
//! Beside them: replies, failures, questions to the client, and changes that clients are told of.
//! All are plain values: nothing here waits, locks or knows a client.

pub(crate) mod change;
pub(crate) mod elicitation;
pub(crate) mod failure;
pub(crate) mod notification;
pub(crate) mod reply;

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
