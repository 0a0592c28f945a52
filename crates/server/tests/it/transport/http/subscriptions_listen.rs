//! `subscriptions/listen` of 2026-07-28, over HTTP and on stdio.

use crate::support::{
    http::{modern_call, plain, plain_site, verdict},
    messages::{modern, request, text},
    tools::tool,
};
use interlock::{Bounds, HttpOptions, Server};
use interlock_testkit::{
    connect, soon,
    web::{Events, Item, Request, Session, Site},
};
use serde_json::{Value, json};
use std::time::Duration;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn listen(id: impl Into<Value>, filter: Value) -> Request {
    Request::modern(id, "subscriptions/listen", json!({"notifications": filter}))
}

/// Opens a stream, and gives what the server agreed to.
async fn open(site: &Site, id: impl Into<Value>, filter: Value) -> (Events, Value) {
    let id = id.into();
    let answer = site.send(listen(id.clone(), filter)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert_eq!(answer.header("mcp-session-id"), None);
    let mut events = answer.events();
    let first = events.message().await.unwrap();
    is_acknowledged(&first, &id);
    (events, first["params"]["notifications"].clone())
}

#[track_caller]
fn is_acknowledged(message: &Value, id: &Value) {
    assert_eq!(
        message["method"], "notifications/subscriptions/acknowledged",
        "{message}"
    );
    assert_eq!(&message["params"]["_meta"][SUBSCRIPTION], id, "{message}");
}

fn rules() -> Value {
    json!({"resourceSubscriptions": ["note://rules"]})
}

#[track_caller]
fn is_update(message: &Value, id: impl Into<Value>, uri: &str) {
    assert_eq!(
        message["method"], "notifications/resources/updated",
        "{message}"
    );
    assert_eq!(message["params"]["uri"], uri, "{message}");
    assert_eq!(
        message["params"]["_meta"][SUBSCRIPTION],
        id.into(),
        "{message}"
    );
}

#[tokio::test]
async fn it_is_acknowledged_first_and_carries_its_id_on_everything() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    for id in [json!(7), json!("seven"), json!("7"), json!(0)] {
        let (mut events, agreed) = open(&site, id.clone(), rules()).await;
        assert_eq!(agreed, rules());
        for _ in 0..3 {
            server.resource_updated("note://rules");
            is_update(&events.message().await.unwrap(), id.clone(), "note://rules");
        }
    }
}

#[tokio::test]
async fn only_what_was_asked_for_comes() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let (mut on_rules, _) = open(&site, 1, rules()).await;
    let (mut on_plan, _) = open(&site, 2, json!({"resourceSubscriptions": ["note://plan"]})).await;
    let (mut on_both, _) = open(
        &site,
        3,
        json!({"resourceSubscriptions": ["note://plan", "note://rules"]}),
    )
    .await;
    let (mut on_nothing, agreed) = open(&site, 4, json!({})).await;
    assert_eq!(agreed, json!({}));
    let (mut on_false, agreed) = open(
        &site,
        5,
        json!({"toolsListChanged": false, "resourceSubscriptions": []}),
    )
    .await;
    assert!(agreed["toolsListChanged"] != true, "{agreed}");
    server.resource_updated("note://plan");
    server.resource_updated("note://nowhere");
    server.resource_updated("note://rules");
    is_update(&on_rules.message().await.unwrap(), 1, "note://rules");
    is_update(&on_plan.message().await.unwrap(), 2, "note://plan");
    is_update(&on_both.message().await.unwrap(), 3, "note://plan");
    is_update(&on_both.message().await.unwrap(), 3, "note://rules");
    let mut site = site;
    site.drain();
    for (events, id) in [
        (&mut on_nothing, 4),
        (&mut on_false, 5),
        (&mut on_plan, 2),
        (&mut on_rules, 1),
    ] {
        is_closed_both_ways(&events.rest().await, &json!(id));
    }
}

#[track_caller]
fn is_closed_both_ways(messages: &[Value], id: &Value) {
    let [cancelled, result] = messages else {
        panic!("{messages:?}");
    };
    assert_eq!(
        cancelled["method"], "notifications/cancelled",
        "{cancelled}"
    );
    assert_eq!(&cancelled["params"]["requestId"], id, "{cancelled}");
    assert_eq!(
        &cancelled["params"]["_meta"][SUBSCRIPTION], id,
        "{cancelled}"
    );
    assert_eq!(&result["id"], id, "{result}");
    assert_eq!(result["result"]["resultType"], "complete", "{result}");
    assert_eq!(&result["result"]["_meta"][SUBSCRIPTION], id, "{result}");
}

#[tokio::test]
async fn a_server_agrees_only_to_what_it_offers() {
    let everything = || {
        json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
            "resourceSubscriptions": ["note://rules"],
            "somethingNew": true,
        })
    };
    let bare = Server::builder("bare", "1").build().unwrap();
    for server in [plain().build().unwrap(), bare] {
        let site = Site::open(&server, HttpOptions::default()).await;
        let found = site
            .send(Request::modern(1, "server/discover", json!({})))
            .await
            .json()
            .await;
        let offers = &found["result"]["capabilities"];
        let answer = site.send(listen(1, everything())).await;
        if !answer.is_stream() {
            // One that can tell nothing may have no such method.
            assert!(offers["resources"]["subscribe"] != true, "{offers}");
            assert_eq!(verdict(answer).await.1, -32601);
            continue;
        }
        let agreed = answer.events().message().await.unwrap()["params"]["notifications"].clone();
        for (field, kind) in [
            ("toolsListChanged", "tools"),
            ("promptsListChanged", "prompts"),
            ("resourcesListChanged", "resources"),
        ] {
            assert_eq!(
                agreed[field] == true,
                offers[kind]["listChanged"] == true,
                "{field} {agreed} {offers}"
            );
        }
        assert_eq!(
            agreed.get("resourceSubscriptions").is_some(),
            offers["resources"]["subscribe"] == true,
            "{agreed} {offers}"
        );
        assert_eq!(agreed.get("somethingNew"), None);
    }
}

#[tokio::test]
async fn resources_that_are_not_there_are_not_agreed_to() {
    let site = plain_site().await;
    let filter = json!({"resourceSubscriptions": ["note://rules", "note://nowhere"]});
    let answer = site.send(listen(1, filter)).await;
    if answer.is_stream() {
        let message = answer.events().message().await.unwrap();
        assert_eq!(message["params"]["notifications"], rules());
    } else {
        assert_eq!(verdict(answer).await.1, -32602);
    }
}

#[tokio::test]
async fn a_filter_must_be_one() {
    let site = plain_site().await;
    for params in [
        json!({}),
        json!({"notifications": null}),
        json!({"notifications": []}),
        json!({"notifications": {"resourceSubscriptions": "note://rules"}}),
        json!({"notifications": {"resourceSubscriptions": [5]}}),
        json!({"notifications": {"toolsListChanged": "yes"}}),
    ] {
        let answer = site
            .send(Request::modern(1, "subscriptions/listen", params.clone()))
            .await;
        assert!(!answer.is_stream(), "{params}");
        assert_eq!(verdict(answer).await.1, -32602, "{params}");
    }
}

#[tokio::test]
async fn streams_with_one_id_do_not_know_of_each_other() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let (mut one, _) = open(&site, 1, rules()).await;
    let (mut two, _) = open(&site, 1, rules()).await;
    server.resource_updated("note://rules");
    for events in [&mut one, &mut two] {
        is_update(&events.message().await.unwrap(), 1, "note://rules");
    }
    drop(one);
    server.resource_updated("note://rules");
    is_update(&two.message().await.unwrap(), 1, "note://rules");
}

#[tokio::test]
async fn a_quiet_stream_says_that_it_is_alive() {
    let server = plain().build().unwrap();
    let options = HttpOptions::default().keep_alive(Duration::from_millis(5));
    let site = Site::open(&server, options).await;
    let (mut events, _) = open(&site, 1, rules()).await;
    for _ in 0..3 {
        let item = events.item().await.unwrap();
        assert!(matches!(item, Item::Comment(_)), "{item:?}");
    }
    server.resource_updated("note://rules");
    is_update(&events.message().await.unwrap(), 1, "note://rules");
}

#[tokio::test]
async fn a_session_has_no_such_method() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let answer = session
        .request("subscriptions/listen", json!({"notifications": {}}))
        .await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[tokio::test]
async fn on_stdio_each_subscription_is_told_by_its_id() {
    let server = plain().build().unwrap();
    let (mut client, mut connection) = connect(&server);
    let ask = |id: Value, filter: Value| {
        request(
            id,
            "subscriptions/listen",
            modern(json!({"notifications": filter})),
        )
    };
    client.send(ask(json!("a"), rules())).await;
    is_acknowledged(&client.receive().await.unwrap(), &json!("a"));
    client
        .send(ask(
            json!(2),
            json!({"resourceSubscriptions": ["note://rules", "note://plan"]}),
        ))
        .await;
    is_acknowledged(&client.receive().await.unwrap(), &json!(2));
    server.resource_updated("note://rules");
    let mut heard = [
        client.receive().await.unwrap(),
        client.receive().await.unwrap(),
    ];
    heard.sort_by_key(|message| message["params"]["_meta"][SUBSCRIPTION].is_string());
    is_update(&heard[0], 2, "note://rules");
    is_update(&heard[1], "a", "note://rules");
    // One that is taken back is silent from then on, and its request is not answered.
    client
        .notify("notifications/cancelled", json!({"requestId": 2}))
        .await;
    client.request("server/discover", modern(json!({}))).await;
    server.resource_updated("note://plan");
    server.resource_updated("note://rules");
    is_update(&client.receive().await.unwrap(), "a", "note://rules");
    connection.drain();
    let rest = [
        client.receive().await.unwrap(),
        client.receive().await.unwrap(),
    ];
    is_closed_both_ways(&rest, &json!("a"));
    assert_eq!(client.receive().await, None);
    connection.ended().await;
}

#[tokio::test]
async fn listeners_that_leave_are_forgotten() {
    let bounds = Bounds {
        all_listens: 4,
        ..Bounds::default()
    };
    let server = plain().bounds(bounds).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    // Were they not, there would soon be no room for more.
    for id in 0..40 {
        let web = site.web();
        let events = soon("a place must become free", async move {
            loop {
                let answer = web.send(listen(id, rules())).await;
                if answer.status == 200 {
                    return answer.events();
                }
                tokio::task::yield_now().await;
            }
        });
        events.await.message().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_added_while_the_server_runs_is_told_to_those_who_asked() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let (mut on_tools, agreed) = open(&site, "t", json!({"toolsListChanged": true})).await;
    assert_eq!(agreed, json!({"toolsListChanged": true}));
    let (mut on_prompts, _) = open(&site, "p", json!({"promptsListChanged": true})).await;
    let session = Session::open(&site).await;
    let mut listening = session.listen().await;
    server.add_tool(tool("new")).unwrap();
    server
        .add_prompt(interlock::Prompt::text("new", "text"))
        .unwrap();
    for (events, id, method) in [
        (&mut on_tools, "t", "notifications/tools/list_changed"),
        (&mut on_prompts, "p", "notifications/prompts/list_changed"),
    ] {
        let message = events.message().await.unwrap();
        assert_eq!(message["method"], method, "{message}");
        assert_eq!(message["params"]["_meta"][SUBSCRIPTION], id, "{message}");
    }
    let answer = site.send(modern_call(1, "new", json!({}))).await;
    assert_eq!(text(&answer.json().await), "new is done");
    site.send(session.delete()).await;
    let heard = listening.rest().await;
    let methods: Vec<_> = heard
        .iter()
        .map(|m| m["method"].as_str().unwrap())
        .collect();
    assert_eq!(
        methods,
        [
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed"
        ]
    );
    let mut site = site;
    site.drain();
    is_closed_both_ways(&on_tools.rest().await, &json!("t"));
    is_closed_both_ways(&on_prompts.rest().await, &json!("p"));
}
