//! What a mounted handler has changes while it is served.

use crate::support::rmcp_client::stage::{Guest, HANDSHAKE, Heard, Wire, join, text};
use interlock::{Context, Mount, NoArguments, Server, Tool as OurTool};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, Prompt, Resource, ResourceTemplate, SubscribeRequestParams, Tool,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// What it has at the moment.
#[derive(Clone, Default)]
struct Stock {
    tools: Vec<(&'static str, &'static str)>,
    resources: Vec<&'static str>,
    templates: Vec<&'static str>,
    prompts: Vec<&'static str>,
}

#[derive(Clone, Default)]
struct Market {
    stock: Arc<Mutex<Stock>>,
    peer: Arc<Mutex<Option<Peer<RoleServer>>>>,
}

impl Market {
    fn new(stock: Stock) -> Self {
        Self {
            stock: Arc::new(Mutex::new(stock)),
            peer: Arc::default(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Stock)) -> Peer<RoleServer> {
        change(&mut self.stock.lock().unwrap());
        let peer = self.peer.lock().unwrap();
        peer.clone().expect("it was initialized")
    }

    fn stock(&self) -> Stock {
        self.stock.lock().unwrap().clone()
    }
}

impl ServerHandler for Market {
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        *self.peer.lock().unwrap() = Some(context.peer);
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |(name, text)| Tool::new(name, text, Arc::new(JsonObject::new()));
        let tools = self.stock().tools.into_iter().map(tool);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text(request.name)]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.stock().resources.into_iter();
        let resources = resources.map(|uri| Resource::new(uri, uri)).collect();
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.stock().templates.into_iter();
        let templates = templates
            .map(|uri| ResourceTemplate::new(uri, uri))
            .collect();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.stock().prompts.into_iter();
        let prompts = prompts
            .map(|name| Prompt::new(name, None::<String>, None))
            .collect();
        Ok(ListPromptsResult::with_all_items(prompts))
    }
}

async fn described(guest: &Guest) -> Vec<(String, String)> {
    let tools = guest.client.list_all_tools().await.unwrap();
    let described = tools.into_iter().map(|tool| {
        let description = tool.description.unwrap_or_default();
        (tool.name.into_owned(), description.into_owned())
    });
    described.collect()
}

fn pair(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

#[tokio::test]
async fn tools_come_and_go_and_change() {
    let market = Market::new(Stock {
        tools: vec![("apples", "red"), ("pears", "green")],
        ..Stock::default()
    });
    let mount = Mount::new(market.clone()).await.unwrap();
    let own =
        OurTool::new("own", |_: NoArguments, _: Context| async { "ours" }).description("ours");
    let server = Server::builder("ours", "1").tool(own).mount(mount).build();
    let mut guest = join(&server.unwrap(), Wire::Stdio, HANDSHAKE).await;
    let peer = market.change(|stock| {
        // One of them has a name that is taken.
        stock.tools = vec![("pears", "yellow"), ("plums", "blue"), ("own", "theirs")];
    });
    peer.notify_tool_list_changed().await.unwrap();
    assert!(matches!(guest.hears().await, Heard::Tools));
    assert_eq!(
        described(&guest).await,
        [
            pair("own", "ours"),
            pair("pears", "yellow"),
            pair("plums", "blue")
        ]
    );
    assert_eq!(text(&guest.call("plums", json!({})).await), "plums");
    assert_eq!(text(&guest.call("own", json!({})).await), "ours");

    // What was never theirs does not go with theirs.
    let peer = market.change(|stock| stock.tools.clear());
    peer.notify_tool_list_changed().await.unwrap();
    assert!(matches!(guest.hears().await, Heard::Tools));
    assert_eq!(described(&guest).await, [pair("own", "ours")]);
}

#[tokio::test]
async fn resources_templates_and_prompts_come_and_go() {
    let market = Market::new(Stock {
        resources: vec!["stall://1", "stall://2"],
        templates: vec!["stall://a/{n}"],
        prompts: vec!["haggle"],
        ..Stock::default()
    });
    let mount = Mount::new(market.clone()).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let mut guest = join(&server, Wire::Stdio, HANDSHAKE).await;
    let subscribe = SubscribeRequestParams::new("stall://1");
    guest.client.subscribe(subscribe).await.unwrap();
    let peer = market.change(|stock| {
        stock.resources = vec!["stall://2", "stall://3"];
        stock.templates = vec!["stall://b/{n}"];
        stock.prompts = vec!["praise"];
    });
    peer.notify_resource_list_changed().await.unwrap();
    peer.notify_prompt_list_changed().await.unwrap();
    let mut heard_of_its_end = false;
    loop {
        let heard = guest.hears().await;
        heard_of_its_end |= matches!(&heard, Heard::Updated(uri) if uri == "stall://1");
        if matches!(heard, Heard::Prompts) {
            break;
        }
    }
    assert!(heard_of_its_end);
    let resources = guest.client.list_all_resources().await.unwrap();
    let uris: Vec<_> = resources.into_iter().map(|one| one.uri).collect();
    assert_eq!(uris, ["stall://2", "stall://3"]);
    let templates = guest.client.list_all_resource_templates().await.unwrap();
    let templates: Vec<_> = templates.into_iter().map(|one| one.uri_template).collect();
    assert_eq!(templates, ["stall://b/{n}"]);
    let prompts = guest.client.list_all_prompts().await.unwrap();
    assert_eq!(prompts[0].name, "praise");
}

#[tokio::test]
async fn what_changed_before_the_server_was_built_is_there_when_it_is() {
    let market = Market::new(Stock {
        tools: vec![("apples", "red")],
        ..Stock::default()
    });
    let mount = Mount::new(market.clone()).await.unwrap();
    // It is told of `initialized` while it is asked for its lists.
    while market.peer.lock().unwrap().is_none() {
        tokio::task::yield_now().await;
    }
    let peer = market.change(|stock| stock.tools = vec![("pears", "green")]);
    peer.notify_tool_list_changed().await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let mut guest = join(&server, Wire::Stdio, HANDSHAKE).await;
    if described(&guest).await != [pair("pears", "green")] {
        assert!(matches!(guest.hears().await, Heard::Tools));
    }
    assert_eq!(described(&guest).await, [pair("pears", "green")]);
}
