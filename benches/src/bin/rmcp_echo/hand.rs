//! The tools by hand: a list made once, and a match on the name.

use std::io;

use interlock_benches::tools;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Echo {
    tools: Arc<[Tool]>,
}

#[derive(serde::Deserialize)]
struct Arguments {
    text: String,
}

impl Echo {
    pub(crate) fn with_tools(number: usize) -> io::Result<Self> {
        Ok(Self {
            tools: serde_json::from_str(&tools::json(number)?)?,
        })
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let text = match &*request.name {
            "echo" => {
                let wrong =
                    |error: serde_json::Error| ErrorData::invalid_params(error.to_string(), None);
                serde_json::from_value::<Arguments>(arguments)
                    .map_err(wrong)?
                    .text
            }
            name if self.tools.iter().any(|tool| tool.name == name) => arguments.to_string(),
            name => {
                let what = format!("no tool `{name}`");
                return Err(ErrorData::invalid_params(what, None));
            }
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}
