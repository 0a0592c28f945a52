//! What the journal of an instance says.

use crate::support::{
    client::client_of,
    desk::{desk_with, global},
    held::{OnCancel, held},
    http::age_form,
    journal::{entries, entries_when, of_kind},
    messages::{CAPABILITIES, refusal},
    tools::{echo, tool},
};
use interlock::{
    Context, Failure, HttpOptions, NoArguments, Prompt, Server, Tool, Workflow,
    journal::{Entry, What},
    store::MemoryStore,
    workflow::{Busy, Settings, end, to},
};
use interlock_testkit::{
    ManualClock,
    web::{Request, Site},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_journal_tells_everything_in_order() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            s.initial().tool("go", |t| {
                t.when("args.n > 0")
                    .success(to("b").when("result.nothing == 1"))
                    .success(to("b").set("n", "args.n").set("m", "args.m"))
            })
        })
        .state("b", |s| s.tool("end", |t| t.success(end("done"))))
        .build()
        .unwrap();
    let store = MemoryStore::default();
    let server = Server::builder("s", "0").tool(echo("go")).tool(echo("end"));
    let server = server.store(Arc::new(store.clone())).workflow(flow);
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    client.call("end", json!({})).await;
    client.call("go", json!({"n": 0})).await;
    client.call("go", json!({})).await;
    client.call("go", json!({"n": 1})).await;
    client.call("end", json!({})).await;
    let journal = entries(&store, "global:w").await;
    let mut said: Vec<Value> = journal;
    for entry in &mut said {
        let entry = entry.as_object_mut().unwrap();
        assert!(entry.remove("at").unwrap().as_u64() > Some(0));
        assert_eq!(entry.remove("format"), Some(json!(2)));
        entry.remove("fingerprint");
    }
    let refused = |name: &str, code: u16, why: &str| {
        let why = format!("tool {name:?} is not allowed {why}");
        json!({"what": "refused", "kind": "tool", "name": name, "code": code, "why": why})
    };
    assert_eq!(
        said,
        [
            json!({"what": "started", "workflow": "w"}),
            refused("end", 1081, "in state \"a\""),
            refused("go", 1082, "with these arguments: args.n > 0 is not true"),
            refused(
                "go",
                1082,
                "with these arguments: args.n > 0 has no answer: there is no `args.n`"
            ),
            json!({
                "call": 1, "what": "step", "kind": "tool", "name": "go", "outcome": "success",
                "from": "a", "to": "b", "enters": true, "set": {"n": 1}, "forgets": ["m"],
                "faults": [
                    "guard \"result.nothing == 1\" has no answer: there is no `result.nothing`",
                    "\"m\" could not be worked out: there is no `args.m`",
                ],
            }),
            json!({
                "call": 2, "what": "step", "kind": "tool", "name": "end", "outcome": "success",
                "from": "b", "to": "done", "terminal": true, "after": "a", "enters": true,
            }),
        ]
    );
}

#[tokio::test]
async fn refusals_are_written_down_although_nothing_else_happens() {
    let store = MemoryStore::default();
    let server = desk_with(global(), tool("work")).store(Arc::new(store.clone()));
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    for _ in 0..3 {
        let (_, refused) = client.call("close", json!({})).await;
        assert_eq!(refusal(&refused), 1081);
    }
    let journal = entries_when(&store, "global:desk", 4).await;
    assert_eq!(of_kind(&journal, "refused").len(), 3);
}

/// Whoever reads the journal finds every call that came: those that moved nothing, those whose
/// arguments were wrong, and those whose turn never came or was not waited for.
#[tokio::test]
async fn every_call_leaves_an_entry() {
    #[derive(serde::Deserialize, interlock::schemars::JsonSchema)]
    struct Sum {
        #[expect(dead_code, reason = "nobody pays")]
        amount: u32,
    }
    for is_given in [true, false] {
        let clock = Arc::new(ManualClock::new());
        let (work, mut held) = held("work", OnCancel::Stops);
        let pay = Tool::new("pay", |_: Sum, _: Context| async { "paid" });
        let flow = Workflow::builder("w")
            .settings(if is_given {
                global()
            } else {
                Settings::default()
            })
            .state("a", |s| {
                s.initial()
                    .tool("work", |t| t.success("b"))
                    .tool("pay", |t| t.success("b"))
                    .tool("peek", |t| t.success("a"))
                    .prompt("say", |p| p.success("a"))
            })
            .state("b", |s| s.tool("pay", |t| t.success(end("a"))));
        let mut builder = Server::builder("s", "0")
            .tool(work.timeout(100 * SECOND))
            .tool(pay)
            .tool(echo("peek"))
            .prompt(Prompt::text("say", "it"))
            .queue_timeout(5 * SECOND)
            .clock(clock.clone())
            .workflow(flow.build().unwrap());
        if is_given {
            builder = builder.store(Arc::new(MemoryStore::default()));
        }
        let server = builder.build().unwrap();
        let (mut client, _connection) = client_of(&server).await;
        client.call("peek", json!({})).await;
        client.call("peek", json!({"fail": true})).await;
        client.request("prompts/get", json!({"name": "say"})).await;
        let (_, wrong) = client.call("pay", json!({"amount": "much"})).await;
        assert_eq!(refusal(&wrong), 1022, "{wrong}");
        let first = client.begin("tools/call", json!({"name": "work"})).await;
        held.started().await;
        let second = client.begin("tools/call", json!({"name": "work"})).await;
        client.request("ping", json!({})).await;
        clock.advance(5 * SECOND);
        let (_, late) = client.until(second).await;
        assert_eq!(refusal(&late["result"]), 1069, "{late}");
        let third = client.begin("tools/call", json!({"name": "work"})).await;
        let taken_back = json!({"requestId": third});
        client.notify("notifications/cancelled", taken_back).await;
        client.request("ping", json!({})).await;
        held.let_go(1);
        let (_, done) = client.until(first).await;
        let id = &done["result"]["_meta"]["dev.interlock/workflow"]["instance"];
        let id = id.as_str().unwrap();
        let journal = server.operator().history(id, None, 100).await.unwrap();
        let told = journal.iter().map(|one| {
            let entry = serde_json::to_value(&one.entry).unwrap();
            let part = |name: &str| entry[name].as_str().unwrap();
            match part("what") {
                "ran" => {
                    let told = ["kind", "name", "outcome", "state"].map(part);
                    told.join(" ")
                }
                "refused" => format!("{} refused {}", part("name"), entry["code"]),
                "taken_back" => format!("{} taken back", part("name")),
                "step" => format!("{} moved {}", part("name"), part("outcome")),
                other => other.to_owned(),
            }
        });
        let wanted = [
            "started",
            "tool peek success a",
            "tool peek error a",
            "prompt say success a",
            "pay refused 1022",
            "work refused 1069",
            "work taken back",
            "work moved success",
        ];
        assert_eq!(told.collect::<Vec<_>>(), wanted, "given: {is_given}");
    }
}

/// By 2026-07-28 a handler that asks is over, and begins anew with the answer.
#[tokio::test]
async fn a_journal_tells_of_handlers_that_ask() {
    let ask = |name, keys: [&'static str; 2]| {
        Tool::new(name, move |_: NoArguments, context: Context| async move {
            let form = age_form();
            let [one, two] = keys.map(|key| context.elicit(key, &form));
            tokio::try_join!(one, two)?;
            Ok::<_, Failure>("done")
        })
    };
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            s.initial()
                .tool("peek", |t| t.success("a"))
                .tool("go", |t| t.success(end("a")))
                .tool("wrong", |t| t.success(end("a")))
        })
        .build()
        .unwrap();
    let server = Server::builder("s", "0")
        .tool(ask("peek", ["x", "y"]))
        .tool(ask("go", ["x", "y"]))
        .tool(ask("wrong", ["x", "x"]))
        .workflow(flow)
        .build()
        .unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let call = async |name: &str, more: Value| {
        let mut params = more;
        params["name"] = name.into();
        params["_meta"] = json!({CAPABILITIES: {"elicitation": {"form": {}}}});
        let request = Request::modern(1, "tools/call", params);
        let answer: Value = site.send(request).await.json().await;
        answer["result"].clone()
    };
    for name in ["peek", "go"] {
        let asked = call(name, json!({})).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let age = json!({"action": "accept", "content": {"age": 7}});
        let state = &asked["requestState"];
        let first = json!({"requestState": state, "inputResponses": {"x": age}});
        let asked = call(name, first).await;
        let state = &asked["requestState"];
        let both = json!({"requestState": state, "inputResponses": {"x": age, "y": age}});
        assert_eq!(call(name, both).await["isError"], false);
    }
    let wrong = call("wrong", json!({})).await;
    assert_eq!(refusal(&wrong), 1079, "{wrong}");
    let journal = server
        .operator()
        .history("global:w", None, 100)
        .await
        .unwrap();
    let told = journal.iter().map(|one| {
        let entry = serde_json::to_value(&one.entry).unwrap();
        let part = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        (part("what"), part("name"), one.entry.call)
    });
    let told: Vec<_> = told.collect();
    let told = told
        .iter()
        .map(|(what, name, call)| (&**what, &**name, *call));
    let wanted = [
        ("started", "", None),
        ("paused", "peek", None),
        ("paused", "peek", None),
        ("ran", "peek", None),
        ("paused", "go", Some(1)),
        ("paused", "go", Some(2)),
        ("step", "go", Some(3)),
        ("paused", "wrong", Some(4)),
    ];
    assert_eq!(told.collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn a_busy_instance_says_so_in_its_journal() {
    let settings = Settings {
        busy: Busy::Refuse,
        ..global()
    };
    let store = MemoryStore::default();
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = desk_with(settings, work).store(Arc::new(store.clone()));
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    let (_, refused) = client.call("work", json!({})).await;
    assert_eq!(refusal(&refused), 1084);
    let journal = entries_when(&store, "global:desk", 2).await;
    assert_eq!(journal[1]["code"], 1084, "{journal:?}");
}

/// Whoever is refused a hundred thousand times does not fill the memory with it.
#[tokio::test]
async fn refusals_that_come_too_fast_are_counted() {
    const MANY: usize = 2_000;
    let store = MemoryStore::default();
    let server = desk_with(global(), tool("work")).store(Arc::new(store.clone()));
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    let mut lines = String::new();
    for id in 0..MANY {
        let call = json!({"jsonrpc": "2.0", "id": format!("c{id}"), "method": "tools/call", "params": {"name": "close"}});
        lines.push_str(&format!("{call}\n"));
    }
    client.send_bytes(lines.as_bytes()).await;
    for _ in 0..MANY {
        client.receive().await.unwrap();
    }
    client.call("work", json!({})).await;
    let written = entries(&store, "global:desk").await;
    let unwritten = of_kind(&written, "unwritten");
    let unwritten = unwritten
        .iter()
        .map(|entry| entry["entries"].as_u64().unwrap());
    let unwritten = usize::try_from(unwritten.sum::<u64>()).unwrap();
    assert_eq!(of_kind(&written, "refused").len() + unwritten, MANY);
}

#[tokio::test]
async fn entries_are_what_the_public_type_says() {
    let store = MemoryStore::default();
    let server = desk_with(global(), tool("work")).store(Arc::new(store.clone()));
    let (mut client, _connection) = client_of(&server.build().unwrap()).await;
    client.call("work", json!({})).await;
    let read = |value: &Value| serde_json::from_value::<Entry>(value.clone()).unwrap();
    let journal = entries(&store, "global:desk").await;
    let journal: Vec<_> = journal.iter().map(read).collect();
    assert!(matches!(&journal[0].what, What::Started { workflow, .. } if workflow == "desk"));
    assert!(matches!(&journal[1].what, What::Step { name, .. } if name == "work"));
    assert_eq!(journal[1].call, Some(1));
}

/// A session that is gone leaves its journal where journals are kept whole.
#[tokio::test]
async fn the_end_of_a_session_is_the_last_that_its_journal_says() {
    let store = MemoryStore::default();
    let server = desk_with(Settings::default(), tool("work")).store(Arc::new(store.clone()));
    let (mut client, connection) = client_of(&server.build().unwrap()).await;
    let (_, result) = client.call("work", json!({})).await;
    let instance = result["_meta"]["dev.interlock/workflow"]["instance"].clone();
    client.hang_up();
    connection.ended().await;
    let journal = entries(&store, instance.as_str().unwrap()).await;
    let said: Vec<_> = journal.iter().map(|entry| &entry["what"]).collect();
    assert_eq!(said, ["started", "step", "ended"]);
}
