//! A mounted handler as a part of a server: behind a workflow, beside others, and as it changes.

use super::handler::{Event, Shop};
use crate::support::rmcp_client::stage::{
    Guest, HANDSHAKE, Heard, Start, Wire, call, join, on_every_wire, text,
};
use interlock::{
    BuildError, Mount, MountError, Resource, Server, Workflow,
    workflow::{Kind, end},
};
use interlock_testkit::PATIENCE;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::router::{Router, tool::ToolRoute},
    model::{
        CallToolResult, ContentBlock, ErrorCode, InitializeRequestParams, InitializeResult,
        JsonObject, ListToolsResult, PaginatedRequestParams, ResourceUpdatedNotificationParam,
        SubscribeRequestParams, Tool,
    },
    service::RequestContext,
};
use serde_json::json;
use std::sync::Arc;

mod handshake {
    use super::*;

    on_every_wire! { HANDSHAKE;
        a_workflow_decides_what_is_there
        a_call_that_was_taken_back_counts_as_such
        what_a_handler_says_of_its_resources_is_heard_by_who_subscribed
        a_handler_can_speak_between_calls
        a_list_that_has_changed_is_looked_at_again
    }
}

mod modern {
    use super::*;

    on_every_wire! { MODERN;
        what_no_workflow_binds_is_there
    }
}

async fn tools(guest: &Guest) -> Vec<String> {
    let tools = guest.client.list_all_tools().await.unwrap();
    tools
        .into_iter()
        .map(|tool| tool.name.into_owned())
        .collect()
}

fn order() -> Workflow {
    Workflow::builder("order")
        .state("empty", |s| s.initial().tool("add", |t| t.success("full")))
        .state("full", |s| {
            s.tool("fail", |t| t.success(end("empty")).error("empty"))
                .tool("look", |t| t.success("full"))
                .resource("shop://hours", |r| r.success("full"))
                .prompt("praise", |p| p.success("full"))
        })
        .always_tool("count")
        .build()
        .unwrap()
}

async fn a_workflow_decides_what_is_there(wire: Wire, start: Start) {
    let (shop, _events) = Shop::open();
    let mount = Mount::new(shop).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).workflow(order());
    let mut guest = join(&server.build().unwrap(), wire, start).await;
    assert_eq!(tools(&guest).await, ["add", "count"]);
    let refused = guest.call("look", json!({})).await;
    assert_eq!(refused.meta.unwrap()["dev.interlock/refusal"]["code"], 1081);

    guest.call("add", json!({"a": 1, "b": 1})).await;
    for _ in 0..3 {
        assert!(matches!(
            guest.hears().await,
            Heard::Tools | Heard::Resources | Heard::Prompts
        ));
    }
    let looked = guest.call("look", json!({})).await;
    assert!(text(&looked).contains("Some(\"full\")"), "{looked:?}");
    assert_eq!(guest.client.list_all_prompts().await.unwrap().len(), 1);

    // An error of the protocol's is one for the workflow, too.
    let fail = call("fail", json!({"which": "params"}));
    guest.client.call_tool(fail).await.unwrap_err();
    assert_eq!(tools(&guest).await, ["add", "count"]);
}

async fn a_call_that_was_taken_back_counts_as_such(wire: Wire, start: Start) {
    let (shop, mut events) = Shop::open();
    let mount = Mount::new(shop).await.unwrap();
    let flow = Workflow::builder("holding")
        .state("free", |s| {
            s.initial().tool("hold", |t| {
                t.success(end("free")).error("failed").cancelled("back")
            })
        })
        .state("failed", |s| s.tool("fail", |t| t.success(end("free"))))
        .state("back", |s| s.tool("add", |t| t.success(end("free"))))
        .build()
        .unwrap();
    let server = Server::builder("ours", "1").mount(mount).workflow(flow);
    let guest = join(&server.build().unwrap(), wire, start).await;
    let handle = guest.begin("hold").await;
    assert_eq!(events.recv().await, Some(Event::Started));
    handle.cancel(None).await.unwrap();
    assert_eq!(events.recv().await, Some(Event::Stopped));
    let moved = async {
        while tools(&guest).await == ["hold"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, moved).await.unwrap();
    assert_eq!(tools(&guest).await, ["add"]);
}

async fn what_no_workflow_binds_is_there(wire: Wire, start: Start) {
    let (shop, _events) = Shop::open();
    let mount = Mount::new(shop).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let guest = join(&server, wire, start).await;
    assert!(tools(&guest).await.contains(&"add".to_owned()));
    assert_eq!(text(&guest.call("touch", json!({})).await), "touched");
}

async fn what_a_handler_says_of_its_resources_is_heard_by_who_subscribed(wire: Wire, start: Start) {
    let (shop, _events) = Shop::open();
    let mount = Mount::new(shop).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let mut guest = join(&server, wire, start).await;
    guest.call("touch", json!({})).await;
    assert!(guest.has_heard().is_empty());
    let subscribe = SubscribeRequestParams::new("shop://hours");
    guest.client.subscribe(subscribe).await.unwrap();
    guest.call("touch", json!({})).await;
    let heard = guest.hears().await;
    assert!(
        matches!(&heard, Heard::Updated(uri) if uri == "shop://hours"),
        "{heard:?}"
    );
}

async fn a_handler_can_speak_between_calls(wire: Wire, start: Start) {
    let (shop, _events) = Shop::open();
    let mount = Mount::new(shop.clone()).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let mut guest = join(&server, wire, start).await;
    let subscribe = SubscribeRequestParams::new("shop://hours");
    guest.client.subscribe(subscribe).await.unwrap();
    let peer = shop.kept().expect("it was initialized");
    let said = ResourceUpdatedNotificationParam::new("shop://hours");
    peer.notify_resource_updated(said).await.unwrap();
    let heard = guest.hears().await;
    assert!(
        matches!(&heard, Heard::Updated(uri) if uri == "shop://hours"),
        "{heard:?}"
    );
    // There is nobody whom it could ask.
    assert!(peer.list_roots().await.is_err());

    guest.host.end().await;
    drop(server);
    let said = ResourceUpdatedNotificationParam::new("shop://hours");
    let late = tokio::time::timeout(PATIENCE, peer.notify_resource_updated(said)).await;
    assert!(late.expect("it must not hang").is_err());
}

async fn a_list_that_has_changed_is_looked_at_again(wire: Wire, start: Start) {
    let (shop, _events) = Shop::open();
    let mount = Mount::new(shop).await.unwrap().prefix("shop_");
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let mut guest = join(&server, wire, start).await;
    assert!(!tools(&guest).await.contains(&"shop_extra".to_owned()));
    assert_eq!(text(&guest.call("shop_grow", json!({})).await), "grown");
    assert!(matches!(guest.hears().await, Heard::Tools));
    assert!(tools(&guest).await.contains(&"shop_extra".to_owned()));
    assert_eq!(text(&guest.call("shop_extra", json!({})).await), "new");
}

/// A handler whose tools are what the test says.
#[derive(Clone, Default)]
struct Various {
    pages: Vec<Vec<&'static str>>,
    endless: bool,
    error: Option<i32>,
    refuses: bool,
}

impl ServerHandler for Various {
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        if self.refuses {
            return Err(ErrorData::invalid_request("not you", None));
        }
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if let Some(code) = self.error {
            return Err(ErrorData::new(ErrorCode(code), "no", None));
        }
        let page = request.and_then(|page| page.cursor);
        let page: usize = page.map_or(0, |cursor| cursor.parse().unwrap());
        let names = self.pages.get(page).cloned().unwrap_or_default();
        let tool = |name: &'static str| Tool::new(name, "", Arc::new(JsonObject::new()));
        let mut result = ListToolsResult::with_all_items(names.into_iter().map(tool).collect());
        let more = self.endless || page + 1 < self.pages.len();
        result.next_cursor = more.then(|| (page + 1).to_string());
        Ok(result)
    }
}

#[tokio::test]
async fn pages_are_followed_to_their_end_and_no_further() {
    let pages = vec![vec!["a", "b"], vec![], vec!["c"]];
    let various = Various {
        pages,
        ..Various::default()
    };
    let mount = Mount::new(various).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let guest = join(&server, Wire::Stdio, HANDSHAKE).await;
    assert_eq!(tools(&guest).await, ["a", "b", "c"]);

    let various = Various {
        endless: true,
        ..Various::default()
    };
    let error = Mount::new(various).await.unwrap_err();
    assert!(
        matches!(error, MountError::Endless { what: "tools" }),
        "{error}"
    );
}

#[tokio::test]
async fn a_handler_that_does_not_list_what_it_has_cannot_be_mounted() {
    let with = |error| Various {
        error: Some(error),
        ..Various::default()
    };
    let error = Mount::new(with(-32603)).await.unwrap_err();
    assert!(
        matches!(error, MountError::List { what: "tools", .. }),
        "{error}"
    );
    // Unless it knows of no such list.
    Mount::new(with(-32601)).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_refuses_to_be_initialized_cannot_be_mounted() {
    let various = Various {
        refuses: true,
        ..Various::default()
    };
    let error = Mount::new(various).await.unwrap_err();
    assert!(matches!(error, MountError::Initialize(_)), "{error}");
}

#[tokio::test]
async fn two_handlers_can_be_told_apart_by_their_names() {
    let mount = async |prefix: &str| {
        let various = Various {
            pages: vec![vec!["a"]],
            ..Various::default()
        };
        Mount::new(various).await.unwrap().prefix(prefix)
    };
    let both = Server::builder("ours", "1")
        .mount(mount("left_").await)
        .mount(mount("right_").await)
        .build()
        .unwrap();
    let guest = join(&both, Wire::Stdio, HANDSHAKE).await;
    assert_eq!(tools(&guest).await, ["left_a", "right_a"]);

    let clash = Server::builder("ours", "1")
        .mount(mount("").await)
        .mount(mount("").await)
        .build()
        .unwrap_err();
    let [BuildError::Duplicate { kind, name }] = &*clash.0 else {
        panic!("{clash}");
    };
    assert_eq!((*kind, &**name), (Kind::Tool, "a"));
}

#[tokio::test]
async fn a_router_of_rmcps_can_be_mounted() {
    let schema = || Arc::new(json!({"type": "object"}).as_object().unwrap().clone());
    let route = ToolRoute::new_dyn(Tool::new("routed", "By a route", schema()), |_| {
        Box::pin(async { Ok(CallToolResult::success(vec![ContentBlock::text("there")]).into()) })
    });
    let router = Router::new(Various::default()).with_tool(route);
    let mount = Mount::new(router).await.unwrap();
    let server = Server::builder("ours", "1")
        .instructions("Ours.")
        .mount(mount)
        .resource(Resource::text("note://ours", "ours"))
        .build()
        .unwrap();
    let guest = join(&server, Wire::Stdio, HANDSHAKE).await;
    assert_eq!(text(&guest.call("routed", json!({})).await), "there");
    let told = guest.client.peer_info().unwrap();
    assert_eq!(told.instructions.as_deref(), Some("Ours."));
    assert!(told.capabilities.completions.is_none());
}

#[tokio::test]
async fn a_call_leaves_nothing_behind() {
    let (shop, _events) = Shop::open();
    let mount = Mount::new(shop).await.unwrap();
    let server = Server::builder("ours", "1").mount(mount).build().unwrap();
    let guest = join(&server, Wire::Stdio, HANDSHAKE).await;
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    guest.call("names", json!({})).await;
    let settled = async |most: usize| {
        while alive() > most {
            tokio::task::yield_now().await;
        }
    };
    let before = alive();
    for _ in 0..50 {
        guest.call("names", json!({})).await;
    }
    let settled = tokio::time::timeout(PATIENCE, settled(before)).await;
    assert!(settled.is_ok(), "{} tasks are left of {before}", alive());
}
