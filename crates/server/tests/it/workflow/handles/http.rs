//! Workflows over HTTP by 2026-07-28: handles, and whose they are.

use crate::support::{
    desk::desk_with,
    handles::{by_handle, flow, server},
    http::{ALICE, BOB, SESSIONS, ask_age, authenticated, modern_call},
    messages::refusal,
    tools::tool,
};
use interlock::{
    Bounds, HttpOptions, Server,
    store::MemoryStore,
    workflow::{Scope, Settings},
};
use interlock_testkit::web::{Request, Session, Site};
use serde_json::{Value, json};
use std::sync::Arc;

async fn site() -> Site {
    Site::open(&server().build().unwrap(), authenticated()).await
}

async fn call(site: &Site, who: &str, name: &str, arguments: Value) -> Value {
    let request = modern_call(1, name, arguments).token(who);
    let answer = site.send(request).await.json().await;
    answer["result"].clone()
}

async fn start(site: &Site, who: &str) -> String {
    let result = call(site, who, "workflow_start", json!({})).await;
    let id = result["structuredContent"]["workflow"].as_str();
    id.unwrap_or_else(|| panic!("{result}")).to_owned()
}

async fn state(site: &Site, who: &str, id: &str) -> Value {
    let result = call(site, who, "workflow_status", json!({"workflow": id})).await;
    result["structuredContent"]["state"].clone()
}

#[tokio::test]
async fn two_clients_go_their_own_ways() {
    let site = site().await;
    let (of_alice, of_bob) = (start(&site, ALICE).await, start(&site, BOB).await);
    call(
        &site,
        ALICE,
        "work",
        json!({"workflow": of_alice, "hours": 1}),
    )
    .await;
    assert_eq!(state(&site, ALICE, &of_alice).await, "done");
    assert_eq!(state(&site, BOB, &of_bob).await, "open");
}

#[tokio::test]
async fn a_stolen_id_is_refused_like_one_that_was_made_up() {
    let site = site().await;
    let id = start(&site, ALICE).await;
    for name in ["peek", "close", "work", "workflow_status"] {
        let stolen = call(&site, BOB, name, json!({"workflow": id, "hours": 1})).await;
        let flipped = if id.ends_with('A') { "Q" } else { "A" };
        let made_up = format!("{}{flipped}", &id[..id.len() - 1]);
        let made_up = json!({"workflow": made_up, "hours": 1});
        assert_eq!(stolen, call(&site, BOB, name, made_up).await);
        assert_eq!(refusal(&stolen), 1021, "{stolen}");
    }
    assert_eq!(state(&site, ALICE, &id).await, "open");
}

#[tokio::test]
async fn lists_are_the_same_bytes_for_everybody() {
    let site = site().await;
    let list = async |who: &str| {
        let request = Request::modern(1, "tools/list", json!({}));
        let request = request.token(who);
        site.send(request).await.bytes().await
    };
    let before = list(ALICE).await;
    let id = start(&site, ALICE).await;
    call(&site, ALICE, "work", json!({"workflow": id, "hours": 1})).await;
    assert_eq!(list(ALICE).await, before);
    assert_eq!(list(BOB).await, before);
}

#[tokio::test]
async fn discover_tells_of_every_version() {
    let site = site().await;
    let request = Request::modern(1, "server/discover", json!({}));
    let request = request.token(ALICE);
    let answer = site.send(request).await.json().await;
    let versions = answer["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{answer}");
    assert!(versions.contains(&json!(SESSIONS)), "{answer}");
}

#[tokio::test]
async fn a_restart_on_the_same_store_finds_the_handle() {
    let store = Arc::new(MemoryStore::default());
    let open = async || {
        let server = server().store(store.clone()).build().unwrap();
        Site::open(&server, authenticated()).await
    };
    let mut first = open().await;
    let id = start(&first, ALICE).await;
    call(&first, ALICE, "work", json!({"workflow": id, "hours": 1})).await;
    first.drain();
    first.ended().await;
    let second = open().await;
    assert_eq!(state(&second, BOB, &id).await, Value::Null);
    assert_eq!(state(&second, ALICE, &id).await, "done");
    let closed = call(&second, ALICE, "close", json!({"workflow": id})).await;
    assert_eq!(closed["_meta"]["dev.interlock/workflow"]["state"], "closed");
}

#[tokio::test]
async fn each_principal_has_so_many_handles() {
    let bounds = Bounds {
        handles: 1,
        ..Bounds::default()
    };
    let site = Site::open(&server().bounds(bounds).build().unwrap(), authenticated()).await;
    start(&site, ALICE).await;
    let full = call(&site, ALICE, "workflow_start", json!({})).await;
    assert_eq!(refusal(&full), 1059, "{full}");
    start(&site, BOB).await;
}

/// A session that opens and closes has nothing to do with the handle.
#[tokio::test]
async fn a_handle_outlives_the_session_that_started_it() {
    let server = Server::builder("desk", "1.0.0")
        .tool(tool("work"))
        .tool(tool("peek"))
        .tool(tool("close"))
        .tool(tool("search"))
        .workflow(flow(by_handle()))
        .build()
        .unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let call = async |session: &Session, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        session.request("tools/call", params).await["result"].clone()
    };
    let first = Session::open(&site).await;
    let started = call(&first, "workflow_start", json!({})).await;
    let id = &started["structuredContent"]["workflow"];
    site.send(first.delete()).await;
    let second = Session::open(&site).await;
    let worked = call(&second, "work", json!({"workflow": id})).await;
    assert_eq!(
        worked["_meta"]["dev.interlock/workflow"]["state"], "done",
        "{worked}"
    );
    let request = modern_call(1, "close", json!({"workflow": id}));
    let closed = site.send(request).await.json().await;
    assert_eq!(
        closed["result"]["content"][0]["text"], "close is done",
        "{closed}"
    );
}

/// The handler is run again when the answers are there: the step is taken once, and the turn is
/// free in between.
#[tokio::test]
async fn a_call_that_asks_keeps_its_handle_from_round_to_round() {
    let flow = interlock::Workflow::builder("ages")
        .state("new", |s| {
            s.initial()
                .tool("ask_age", |t| t.success("known").error("failed"))
                .tool("peek", |t| t.success("new"))
        })
        .state("known", |s| {
            s.tool("peek", |t| t.success(interlock::workflow::end("over")))
        })
        .state("failed", |s| {
            s.tool("peek", |t| t.success(interlock::workflow::end("over")))
        })
        .build()
        .unwrap();
    let server = Server::builder("ages", "0")
        .tool(ask_age())
        .tool(tool("peek"));
    let site = Site::open(&server.workflow(flow).build().unwrap(), authenticated()).await;
    let id = start(&site, ALICE).await;
    let ask = |more: Value| {
        let capabilities = json!({"elicitation": {"form": {}}});
        let mut params = json!({
            "name": "ask_age",
            "arguments": {"workflow": id},
            "_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities},
        });
        if let (Some(params), Value::Object(more)) = (params.as_object_mut(), more) {
            params.extend(more);
        }
        Request::modern(1, "tools/call", params).token(ALICE)
    };
    let answer = site.send(ask(json!({}))).await.json().await;
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert_eq!(result["_meta"]["dev.interlock/workflow"]["instance"], *id);
    assert_eq!(state(&site, ALICE, &id).await, "new");
    let responses = json!({"age": {"action": "accept", "content": {"age": 7}}});
    let back = json!({"inputResponses": responses, "requestState": result["requestState"]});
    let answer = site.send(ask(back)).await.json().await;
    assert_eq!(answer["result"]["content"][0]["text"], "age 7", "{answer}");
    assert_eq!(state(&site, ALICE, &id).await, "known");
}

#[tokio::test]
async fn each_principal_has_an_instance_of_its_own_without_handles() {
    let settings = Settings {
        scope: Scope::Principal,
        ..Settings::default()
    };
    let store = Arc::new(MemoryStore::default());
    let open = async || {
        let server = desk_with(settings.clone(), tool("work")).store(store.clone());
        Site::open(&server.build().unwrap(), authenticated()).await
    };
    let site = open().await;
    let own = call(&site, ALICE, "workflow_start", json!({})).await;
    assert_eq!(own, Value::Null);
    let worked = call(&site, ALICE, "work", json!({})).await;
    assert_eq!(
        worked["_meta"]["dev.interlock/workflow"]["state"], "done",
        "{worked}"
    );
    let of_bob = call(&site, BOB, "nowhere", json!({})).await;
    assert_eq!(
        of_bob["_meta"]["dev.interlock/workflow"]["state"], "open",
        "{of_bob}"
    );
    let read = async |who: &str| {
        let request = Request::modern(1, "resources/read", json!({"uri": "note://rules"}));
        let request = request.token(who);
        site.send(request).await.json().await
    };
    let answer = read(BOB).await;
    let result = &answer["result"];
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    assert_eq!(read(ALICE).await["error"]["data"]["refusal"]["code"], 1081);
    // Another server on the same store goes on where this one was.
    let again = open().await;
    let refused = call(&again, ALICE, "work", json!({})).await;
    assert_eq!(refusal(&refused), 1081, "{refused}");
    let closed = call(&again, ALICE, "close", json!({})).await;
    assert_eq!(closed["isError"], false, "{closed}");
    let worked = call(&site, ALICE, "work", json!({})).await;
    assert_eq!(
        worked["_meta"]["dev.interlock/workflow"]["state"], "done",
        "{worked}"
    );
}
