//! Handles: how clients that are not remembered go through a workflow.

use crate::support::{
    client::{answers, nothing_comes},
    desk::{desk, desk_with},
    handles::{builder, by_handle, server, work},
    held::{OnCancel, held},
    messages::{codes, hello, modern, refusal, result_text},
    tools::tool,
};
use interlock::{
    Bounds, Server, Workflow,
    store::{Kind as StoreKind, MemoryStore, Store, Time},
    workflow::{Finish, Scope, Settings, end},
};
use interlock_testkit::{Client, ManualClock, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How a client of one era or the other sends a request.
#[derive(Clone, Copy, PartialEq)]
enum Speaks {
    Stateless,
    Handshake,
}

impl Speaks {
    fn params(self, params: Value) -> Value {
        match self {
            Self::Stateless => modern(params),
            Self::Handshake => params,
        }
    }

    /// The ways in which handles are in use, each with a server and a client.
    async fn all() -> Vec<(Self, Client, interlock_testkit::Connection)> {
        let mut all = Vec::new();
        let ways = [
            (Self::Stateless, Settings::default()),
            (Self::Stateless, by_handle()),
            (Self::Handshake, by_handle()),
        ];
        for (speaks, settings) in ways {
            let server = builder(settings, work()).build().unwrap();
            let (mut client, connection) = connect(&server);
            if speaks == Self::Handshake {
                client.initialize().await;
            }
            all.push((speaks, client, connection));
        }
        all
    }

    async fn call(self, client: &mut Client, name: &str, arguments: Value) -> Value {
        let params = self.params(json!({"name": name, "arguments": arguments}));
        let (before, answer) = client.exchange("tools/call", params).await;
        assert_eq!(before, [] as [Value; 0], "{name}");
        answer["result"].clone()
    }

    async fn start(self, client: &mut Client) -> String {
        let result = self.call(client, "workflow_start", json!({})).await;
        let id = result["structuredContent"]["workflow"].as_str();
        id.unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    async fn status(self, client: &mut Client, id: &str) -> Value {
        let result = self.call(client, "workflow_status", json!({"workflow": id}));
        result.await["structuredContent"].clone()
    }
}

#[tokio::test]
async fn a_workflow_is_gone_through_by_its_handle() {
    for (speaks, mut client, _connection) in Speaks::all().await {
        let started = speaks.call(&mut client, "workflow_start", json!({})).await;
        let said = &started["structuredContent"];
        assert_eq!(said["state"], "open", "{started}");
        assert_eq!(said["next"], json!(["work", "peek"]));
        assert_eq!(said["instructions"], "Work first.");
        assert_eq!(
            serde_json::from_str::<Value>(result_text(&started)).unwrap(),
            *said
        );
        let id = said["workflow"].as_str().unwrap();
        let place = &started["_meta"]["dev.interlock/workflow"];
        assert_eq!(
            *place,
            json!({"instance": id, "state": "open", "next": ["work", "peek"]})
        );

        let early = speaks
            .call(&mut client, "close", json!({"workflow": id}))
            .await;
        assert_eq!(refusal(&early), 1081, "{early}");
        assert_eq!(early["_meta"]["dev.interlock/workflow"]["instance"], id);
        let worked = json!({"workflow": id, "hours": 3});
        let worked = speaks.call(&mut client, "work", worked).await;
        assert_eq!(result_text(&worked), format!("{id} 3"));
        assert_eq!(
            worked["_meta"]["dev.interlock/workflow"],
            json!({"instance": id, "state": "done", "next": ["close"]})
        );
        assert_eq!(
            speaks.status(&mut client, id).await,
            json!({"workflow": id, "state": "done", "next": ["close"], "finished": false})
        );
    }
}

#[tokio::test]
async fn lists_hold_everything_and_never_vary() {
    for (speaks, mut client, _connection) in Speaks::all().await {
        let before = client.request("tools/list", speaks.params(json!({}))).await;
        let id = speaks.start(&mut client).await;
        let worked = json!({"workflow": id, "hours": 3});
        speaks.call(&mut client, "work", worked).await;
        let after = client.request("tools/list", speaks.params(json!({}))).await;
        assert_eq!(before["result"].to_string(), after["result"].to_string());
        let tools = before["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        let all = [
            "workflow_start",
            "workflow_status",
            "work",
            "peek",
            "close",
            "search",
        ];
        assert_eq!(names, all);
        for (tool, takes_handle) in tools.iter().zip([false, true, true, true, true, false]) {
            let schema = &tool["inputSchema"];
            let required = schema["required"].as_array();
            let is_required = required.is_some_and(|names| names.contains(&json!("workflow")));
            assert_eq!(is_required, takes_handle, "{tool}");
            let property = &schema["properties"]["workflow"]["type"];
            assert_eq!(*property == json!("string"), takes_handle, "{tool}");
        }
    }
}

#[tokio::test]
async fn sessions_need_no_handles() {
    let server = server().build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    assert_eq!(client.tools().await, ["work", "peek", "search"]);
    for own in ["workflow_start", "workflow_status"] {
        let answer = client.request("tools/call", json!({"name": own})).await;
        assert_eq!(codes(&answer), (-32602, 1048), "{answer}");
    }
    // The session's own instance is none of whoever stands alone on the same connection.
    let (_, result) = client.call("work", json!({"hours": 1})).await;
    let own = result["_meta"]["dev.interlock/workflow"]["instance"].clone();
    let params = modern(json!({"name": "close", "arguments": {"workflow": own}}));
    let answer = client.request("tools/call", params).await;
    assert_eq!(refusal(&answer["result"]), 1021, "{answer}");
    assert_eq!(client.tools().await, ["close", "search"]);
}

#[tokio::test]
async fn a_call_without_a_handle_is_told_where_to_get_one() {
    for (speaks, mut client, _connection) in Speaks::all().await {
        for arguments in [
            json!({"hours": 1}),
            json!({"hours": 1, "workflow": null}),
            json!({"hours": 1, "workflow": 5}),
            json!({"hours": 1, "workflow": ["wf_x"]}),
        ] {
            let result = speaks.call(&mut client, "work", arguments).await;
            assert_eq!(result["isError"], true);
            assert_eq!(refusal(&result), 1022, "{result}");
            assert!(result_text(&result).contains("workflow_start"), "{result}");
        }
        let result = speaks.call(&mut client, "workflow_status", json!({})).await;
        assert_eq!(refusal(&result), 1022, "{result}");
        // What no workflow binds takes none, and what is wrong with other arguments is still said.
        let result = speaks.call(&mut client, "search", json!({})).await;
        assert_eq!(result_text(&result), "search is done");
        let id = speaks.start(&mut client).await;
        for wrong in [
            json!({"workflow": id}),
            json!({"workflow": id, "hours": -1}),
            json!({"workflow": id, "hours": 1, "more": 1}),
        ] {
            let result = speaks.call(&mut client, "work", wrong).await;
            assert_eq!(refusal(&result), 1022, "{result}");
        }
        assert_eq!(speaks.status(&mut client, &id).await["state"], "open");
    }
}

#[tokio::test]
async fn an_id_that_nobody_made_is_refused_like_any_other() {
    for (speaks, mut client, _connection) in Speaks::all().await {
        let id = speaks.start(&mut client).await;
        let flipped = if id.ends_with('A') { "Q" } else { "A" };
        let mut said = Vec::new();
        for wrong in [
            String::new(),
            "x".to_owned(),
            "wf_".to_owned(),
            format!("{}{flipped}", &id[..id.len() - 1]),
            format!("{id}A"),
            format!("{id}\n"),
            "global:desk".to_owned(),
            "\u{0}".to_owned(),
            "w".repeat(100_000),
        ] {
            for name in ["peek", "close", "workflow_status"] {
                let result = speaks
                    .call(&mut client, name, json!({"workflow": wrong}))
                    .await;
                said.push(result);
            }
        }
        let first = said[0].clone();
        assert_eq!(first["isError"], true);
        assert_eq!(refusal(&first), 1021);
        assert!(result_text(&first).contains("workflow_start"), "{first}");
        assert!(said.iter().all(|result| *result == first), "{said:?}");
    }
}

#[tokio::test]
async fn two_handles_of_one_client_do_not_see_each_other() {
    for (speaks, mut client, _connection) in Speaks::all().await {
        let (one, other) = (
            speaks.start(&mut client).await,
            speaks.start(&mut client).await,
        );
        assert_ne!(one, other);
        let worked = json!({"workflow": one, "hours": 3});
        speaks.call(&mut client, "work", worked).await;
        assert_eq!(speaks.status(&mut client, &one).await["state"], "done");
        assert_eq!(speaks.status(&mut client, &other).await["state"], "open");
        let result = speaks
            .call(&mut client, "close", json!({"workflow": other}))
            .await;
        assert_eq!(refusal(&result), 1081, "{result}");
    }
}

#[tokio::test]
async fn a_handle_that_has_ended_stays_ended_and_points_to_a_new_one() {
    for finish in [Finish::Restart, Finish::Stay] {
        for scope in [Scope::Session, Scope::Handle] {
            let settings = Settings {
                scope,
                finish,
                ..Settings::default()
            };
            let server = builder(settings, work()).build().unwrap();
            let (mut client, _connection) = connect(&server);
            let speaks = Speaks::Stateless;
            let id = speaks.start(&mut client).await;
            let worked = json!({"workflow": id, "hours": 3});
            speaks.call(&mut client, "work", worked).await;
            let closed = speaks
                .call(&mut client, "close", json!({"workflow": id}))
                .await;
            assert_eq!(
                closed["_meta"]["dev.interlock/workflow"],
                json!({"instance": id, "state": "closed", "next": []})
            );
            for name in ["close", "peek"] {
                let result = speaks
                    .call(&mut client, name, json!({"workflow": id}))
                    .await;
                assert_eq!(refusal(&result), 1085, "{result}");
                assert!(result_text(&result).contains("workflow_start"), "{result}");
            }
            let status = speaks.status(&mut client, &id).await;
            let ended = json!({"workflow": id, "state": "closed", "next": [], "finished": true});
            assert_eq!(status, ended);
        }
    }
}

/// A session of the same server begins again, as its workflow says.
#[tokio::test]
async fn only_what_is_behind_a_handle_stays_finished() {
    let server = server().build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    client.call("work", json!({"hours": 1})).await;
    client.call("close", json!({})).await;
    assert_eq!(client.tools().await, ["work", "peek", "search"]);
}

#[tokio::test]
async fn calls_of_one_handle_take_turns_and_others_do_not_wait() {
    let (tool, mut held) = held("work", OnCancel::GoesOn);
    let server = builder(Settings::default(), tool).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let speaks = Speaks::Stateless;
    let (one, other) = (
        speaks.start(&mut client).await,
        speaks.start(&mut client).await,
    );
    let call = |name: &str, id: &str| modern(json!({"name": name, "arguments": {"workflow": id}}));
    client.begin("tools/call", call("work", &one)).await;
    held.started().await;
    client.begin("tools/call", call("close", &one)).await;
    let second = client.begin("tools/call", call("work", &one)).await;
    // It is refused at once, as the state does not bind it; the second `work` waits its turn.
    let result = client.receive().await.unwrap();
    assert_eq!(refusal(&result["result"]), 1081, "{result}");
    client.begin("tools/call", call("work", &other)).await;
    held.started().await;
    held.let_go(2);
    let (_, answers) = answers(&mut client, 3).await;
    let waited = answers
        .iter()
        .find(|answer| answer["id"] == second)
        .unwrap();
    assert_eq!(refusal(&waited["result"]), 1081, "{waited}");
    let worked = answers
        .iter()
        .filter(|answer| answer["result"]["isError"] != true);
    assert_eq!(worked.count(), 2, "{answers:?}");
    assert!(held.is_quiet());
}

#[tokio::test]
async fn a_call_that_is_taken_back_while_its_instance_is_sought_or_waits_moves_nothing() {
    let (tool, mut held) = held("work", OnCancel::GoesOn);
    let server = builder(Settings::default(), tool).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let speaks = Speaks::Stateless;
    let id = speaks.start(&mut client).await;
    let call = modern(json!({"name": "work", "arguments": {"workflow": id}}));
    client.begin("tools/call", call.clone()).await;
    held.started().await;
    let second = client.begin("tools/call", call).await;
    client
        .notify("notifications/cancelled", json!({"requestId": second}))
        .await;
    held.let_go(1);
    let answer = client.receive().await.unwrap();
    assert_eq!(result_text(&answer["result"]), "done");
    nothing_comes_alone(&mut client).await;
    assert_eq!(speaks.status(&mut client, &id).await["state"], "done");
    assert!(held.is_quiet());
}

/// The next thing that comes is the answer to what is asked next.
async fn nothing_comes_alone(client: &mut Client) {
    let (before, _) = client.exchange("tools/list", modern(json!({}))).await;
    assert_eq!(before, [] as [Value; 0]);
}

#[tokio::test]
async fn the_same_store_finds_the_handle_again() {
    let store = Arc::new(MemoryStore::default());
    let build = || server().store(store.clone()).build().unwrap();
    let speaks = Speaks::Stateless;
    let (mut client, _connection) = connect(&build());
    let id = speaks.start(&mut client).await;
    let worked = json!({"workflow": id, "hours": 3});
    speaks.call(&mut client, "work", worked).await;
    let (mut again, _again) = connect(&build());
    assert_eq!(speaks.status(&mut again, &id).await["state"], "done");
    // Both servers know it, and each sees what the other does.
    let closed = speaks
        .call(&mut again, "close", json!({"workflow": id}))
        .await;
    assert_eq!(result_text(&closed), "close is done");
    assert_eq!(speaks.status(&mut client, &id).await["finished"], true);
}

#[tokio::test]
async fn a_handle_of_another_definition_is_as_good_as_made_up() {
    let store = Arc::new(MemoryStore::default());
    let speaks = Speaks::Stateless;
    let (mut client, _connection) = connect(&server().store(store.clone()).build().unwrap());
    let id = speaks.start(&mut client).await;
    let other = desk(tool("work")).store(store).build().unwrap();
    let (mut again, _again) = connect(&other);
    let result = speaks
        .call(&mut again, "peek", json!({"workflow": id}))
        .await;
    assert_eq!(refusal(&result), 1021, "{result}");
}

#[tokio::test]
async fn a_handle_expires_when_nobody_uses_it() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let (clock, store) = (
        Arc::new(ManualClock::new()),
        Arc::new(MemoryStore::default()),
    );
    let server = server().clock(clock.clone()).store(store.clone());
    let server = server.handle_idle(HOUR).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let speaks = Speaks::Stateless;
    let (used, unused) = (
        speaks.start(&mut client).await,
        speaks.start(&mut client).await,
    );
    // Each use, be it a look, keeps it for the whole time again.
    for _ in 0..5 {
        clock.advance(HOUR - Duration::from_millis(1));
        assert_eq!(speaks.status(&mut client, &used).await["state"], "open");
    }
    let gone = speaks
        .call(&mut client, "peek", json!({"workflow": unused}))
        .await;
    assert_eq!(refusal(&gone), 1021, "{gone}");
    assert!(result_text(&gone).contains("workflow_start"), "{gone}");
    // What has expired leaves the store when others are started, at the latest.
    let kind = StoreKind::from_static("instance");
    let never = Time(u64::MAX);
    speaks.start(&mut client).await;
    let ids: Vec<_> = store.expired(&kind, never, 10).await.unwrap();
    assert!(ids.iter().all(|(key, _)| key.id() != unused), "{ids:?}");
    assert_eq!(ids.len(), 2);
    clock.advance(HOUR * 2);
    let gone = speaks
        .call(&mut client, "peek", json!({"workflow": used}))
        .await;
    assert_eq!(refusal(&gone), 1021, "{gone}");
}

/// Only every now and then: a look at an instance must not cost a commit.
#[tokio::test]
async fn a_use_is_not_written_down_more_often_than_needed() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let (clock, store) = (
        Arc::new(ManualClock::new()),
        Arc::new(MemoryStore::default()),
    );
    let server = server().clock(clock.clone()).store(store.clone());
    let server = server.handle_idle(HOUR).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let speaks = Speaks::Stateless;
    let id = speaks.start(&mut client).await;
    let kind = StoreKind::from_static("instance");
    let version = async || {
        store.expired(&kind, Time(u64::MAX), 1).await.unwrap()[0]
            .1
            .version
    };
    let first = version().await;
    for _ in 0..100 {
        speaks.status(&mut client, &id).await;
        clock.advance(Duration::from_secs(4));
    }
    assert_eq!(version().await, first);
    clock.advance(HOUR / 4);
    speaks.status(&mut client, &id).await;
    assert!(version().await > first);
}

#[tokio::test]
async fn there_are_only_so_many_handles() {
    let clock = Arc::new(ManualClock::new());
    let bounds = Bounds {
        anonymous_handles: 2,
        ..Bounds::default()
    };
    let server = server()
        .clock(clock.clone())
        .bounds(bounds)
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let speaks = Speaks::Stateless;
    speaks.start(&mut client).await;
    speaks.start(&mut client).await;
    let full = speaks.call(&mut client, "workflow_start", json!({})).await;
    assert_eq!(full["isError"], true);
    assert_eq!(refusal(&full), 1059, "{full}");
    clock.advance(Duration::from_secs(48 * 60 * 60));
    speaks.start(&mut client).await;
}

#[tokio::test]
async fn time_that_is_up_is_up_behind_a_handle_too() {
    let clock = Arc::new(ManualClock::new());
    let flow = Workflow::builder("offer")
        .state("open", |s| {
            s.initial()
                .tool("work", |t| t.success(end("taken")))
                .after(Duration::from_secs(60), end("lapsed"))
        })
        .build()
        .unwrap();
    let server = Server::builder("s", "0").tool(tool("work")).workflow(flow);
    let server = server.clock(clock.clone()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let speaks = Speaks::Stateless;
    let id = speaks.start(&mut client).await;
    clock.advance(Duration::from_secs(60));
    let result = speaks
        .call(&mut client, "work", json!({"workflow": id}))
        .await;
    assert_eq!(refusal(&result), 1085, "{result}");
    assert_eq!(speaks.status(&mut client, &id).await["state"], "lapsed");
}

#[tokio::test]
async fn what_cannot_carry_a_handle_is_refused_where_handles_are_in_use() {
    let server = desk(tool("work")).build().unwrap();
    let (mut client, _connection) = connect(&server);
    for (method, params) in [
        ("resources/read", json!({"uri": "note://rules"})),
        (
            "prompts/get",
            json!({"name": "sorry", "arguments": {"who": "me"}}),
        ),
    ] {
        let answer = client.request(method, modern(params)).await;
        assert_eq!(codes(&answer), (-32602, 1081), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("handle"), "{answer}");
    }
    // They are listed all the same.
    let answer = client.request("resources/list", modern(json!({}))).await;
    assert_eq!(
        answer["result"]["resources"][0]["uri"], "note://rules",
        "{answer}"
    );
    let answer = client.request("prompts/list", modern(json!({}))).await;
    assert_eq!(answer["result"]["prompts"][0]["name"], "sorry", "{answer}");
}

#[tokio::test]
async fn what_everybody_shares_needs_no_handle() {
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let server = desk_with(settings, tool("work")).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let (mut session, _session) = connect(&server);
    session.initialize().await;
    let answer = client.request("tools/list", modern(json!({}))).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 5, "{answer}");
    assert_eq!(tools[0]["inputSchema"].get("required"), None);
    let read = modern(json!({"uri": "note://rules"}));
    let answer = client.request("resources/read", read.clone()).await;
    let result = &answer["result"];
    assert_eq!(result["contents"][0]["text"], "be kind", "{answer}");
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    let answer = client
        .request("tools/call", modern(json!({"name": "workflow_start"})))
        .await;
    assert_eq!(codes(&answer), (-32602, 1048), "{answer}");
    // One moves it, and the other sees that; the one who stands alone is told nothing.
    let (before, answer) = client
        .exchange("tools/call", modern(json!({"name": "work"})))
        .await;
    assert_eq!(before, [] as [Value; 0]);
    assert_eq!(
        answer["result"]["_meta"]["dev.interlock/workflow"]["state"],
        "done"
    );
    let told = session.receive().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    let answer = client.request("resources/read", read).await;
    assert_eq!(codes(&answer), (-32602, 1081), "{answer}");
    let answer = client
        .request("prompts/get", modern(json!({"name": "sorry"})))
        .await;
    assert_eq!(codes(&answer), (-32602, 1081), "{answer}");
}

#[tokio::test]
async fn a_handshake_with_handles_is_told_of_no_lists() {
    let server = builder(by_handle(), work()).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.request("initialize", hello("2025-06-18")).await;
    client.notify("notifications/initialized", json!({})).await;
    let speaks = Speaks::Handshake;
    let id = speaks.start(&mut client).await;
    let worked = json!({"workflow": id, "hours": 3});
    speaks.call(&mut client, "work", worked).await;
    nothing_comes(&mut client).await;
}
