//! Reads the lists of a handler, page by page.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what rmcp can say may become more"
)]

use crate::{
    model::{PromptModel, ResourceModel, ResourceTemplateModel, ToolModel},
    mount::{Handler, MountError},
};
use rmcp::{
    RoleServer,
    model::{
        ClientRequest, ErrorCode, ListPromptsRequest, ListResourceTemplatesRequest,
        ListResourcesRequest, ListToolsRequest, PaginatedRequestParams, ServerResult,
    },
    service::RequestContext,
};

/// Everything that a handler has.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) tools: Vec<ToolModel>,
    pub(super) resources: Vec<ResourceModel>,
    pub(super) templates: Vec<ResourceTemplateModel>,
    pub(super) prompts: Vec<PromptModel>,
}

/// How many pages a list may have.
const MOST_PAGES: usize = 1000;

/// One page: what it holds, and where the next one is.
type Page<T> = (Vec<T>, Option<String>);

/// Reads the lists of one handler, in one context.
pub(super) struct Lister<'a> {
    pub(super) handler: &'a Handler,
    pub(super) context: RequestContext<RoleServer>,
}

impl Lister<'_> {
    pub(super) async fn all(&self) -> Result<Inventory, MountError> {
        Ok(Inventory {
            tools: self.tools().await?,
            resources: self.resources().await?,
            templates: self.templates().await?,
            prompts: self.prompts().await?,
        })
    }

    pub(super) async fn tools(&self) -> Result<Vec<ToolModel>, MountError> {
        let ask = |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let read = |result| match result {
            ServerResult::ListToolsResult(page) => Some((page.tools, page.next_cursor)),
            _ => None,
        };
        self.pages("tools", ask, read).await
    }

    pub(super) async fn resources(&self) -> Result<Vec<ResourceModel>, MountError> {
        let ask =
            |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        let read = |result| match result {
            ServerResult::ListResourcesResult(page) => Some((page.resources, page.next_cursor)),
            _ => None,
        };
        self.pages("resources", ask, read).await
    }

    pub(super) async fn templates(&self) -> Result<Vec<ResourceTemplateModel>, MountError> {
        let ask = |params| {
            let request = ListResourceTemplatesRequest::with_param(params);
            ClientRequest::ListResourceTemplatesRequest(request)
        };
        let read = |result| match result {
            ServerResult::ListResourceTemplatesResult(page) => {
                Some((page.resource_templates, page.next_cursor))
            }
            _ => None,
        };
        self.pages("resource templates", ask, read).await
    }

    pub(super) async fn prompts(&self) -> Result<Vec<PromptModel>, MountError> {
        let ask =
            |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        let read = |result| match result {
            ServerResult::ListPromptsResult(page) => Some((page.prompts, page.next_cursor)),
            _ => None,
        };
        self.pages("prompts", ask, read).await
    }

    async fn pages<T>(
        &self,
        what: &'static str,
        ask: impl Fn(PaginatedRequestParams) -> ClientRequest,
        read: impl Fn(ServerResult) -> Option<Page<T>>,
    ) -> Result<Vec<T>, MountError> {
        let mut all = Vec::new();
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let request = ask(PaginatedRequestParams::default().with_cursor(cursor));
            let answer = self.handler.handle_request(request, self.context.clone());
            let result = match answer.await {
                Ok(result) => result,
                // A handler without such a list has nothing to put on it.
                Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => return Ok(all),
                Err(error) => return Err(MountError::List { what, error }),
            };
            let (mut page, next) = read(result).ok_or(MountError::NoList { what })?;
            all.append(&mut page);
            cursor = next;
            if cursor.is_none() {
                return Ok(all);
            }
        }
        Err(MountError::Endless { what })
    }
}
