//! The tool `echo` once more, as it is written for rmcp's own server.

use interlock::model::JsonObject;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) struct Mounted;

impl ServerHandler for Mounted {
    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = JsonObject::from_iter([
            ("type".to_owned(), json!("object")),
            (
                "properties".to_owned(),
                json!({ "text": { "type": "string", "description": "What comes back." } }),
            ),
            ("required".to_owned(), json!(["text"])),
        ]);
        let echo = Tool::new("echo", "Says it again", Arc::new(schema));
        Ok(ListToolsResult::with_all_items(vec![echo]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.and_then(|mut given| given.remove("text"));
        let Some(Value::String(text)) = text else {
            return Err(ErrorData::invalid_params("there is no text", None));
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}
