//! What befalls a call in the middle of it. Afterwards the instance stands in one known place, its
//! journal says how it came there, and the next call works.
//!
//! Other harms, with the same three things asked: a handler that panics in `races.rs`, an effect
//! that fails, panics or hangs in `effects.rs`, time that is up while a call runs in `timers.rs`, a
//! server that must stop in `transport/stdio/shutdown.rs`, a store that fails in `stores.rs`.

use crate::support::{
    client::{client_of, nothing_comes},
    desk::desk_with,
    ends::{Ends, ended, ends, send_line},
    held::{Held, OnCancel, held},
    http::modern_call,
    journal::{entries, of_kind},
    messages::{at, hello, refusal, text},
    tools::{echo, tool},
};
use interlock::{
    HttpOptions, Server, Tool, Workflow,
    store::{self, MemoryStore, Store},
    workflow::{Outcome, Scope, Settings, end, to},
};
use interlock_testkit::{
    ManualClock, soon,
    web::{Session, Site},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// No call of these comes to its own deadline.
fn patient(scope: Scope) -> Settings {
    Settings {
        scope,
        tool_timeout: HOUR,
        ..Settings::default()
    }
}

/// The journal's only step is the one of `work`, with this outcome, to this state.
async fn is_written_down(store: &MemoryStore, instance: &str, outcome: &str, to: &str) {
    let journal = entries(store, instance).await;
    let steps = of_kind(&journal, "step");
    let [step] = &steps[..] else {
        panic!("{journal:?}");
    };
    let told = ["name", "outcome", "from", "to"].map(|part| step[part].as_str().unwrap());
    assert_eq!(told, ["work", outcome, "open", to], "{journal:?}");
}

#[tokio::test]
async fn a_session_goes_on_without_its_client_which_can_fetch_the_result() {
    let store = MemoryStore::default();
    let (work, mut held) = held("work", OnCancel::Stops);
    let server = desk_with(Settings::default(), work).store(Arc::new(store.clone()));
    // Every answer is a stream at once, so that there is an event to come back to.
    let options = HttpOptions::default().patience(Duration::ZERO);
    let site = Site::open(&server.build().unwrap(), options).await;
    let session = Session::open(&site).await;
    let mut events = session.send(session.tool("work", json!({}))).await.events();
    held.started().await;
    let primed = events.event().await.unwrap();
    assert!(primed.id.is_some(), "{primed:?}");
    let last = events.last_id().to_owned();
    drop(events);
    for _ in 0..5 {
        let pong = session.request("ping", json!({})).await;
        assert_eq!(pong["result"], json!({}));
    }
    held.let_go(1);

    let mut messages = session.resume(&last).await.rest().await;
    let answer = messages.pop().unwrap();
    assert_eq!(text(&answer), "done");
    assert_eq!(at(&answer["result"]), "done");
    let told: Vec<_> = messages.iter().map(|one| one["method"].clone()).collect();
    let changed = |kind| json!(format!("notifications/{kind}/list_changed"));
    assert_eq!(told, ["tools", "resources", "prompts"].map(changed));
    let place = &answer["result"]["_meta"]["dev.interlock/workflow"];
    let instance = place["instance"].as_str().unwrap();
    is_written_down(&store, instance, "success", "done").await;
    let closed = session.call("close", json!({})).await;
    assert_eq!(at(&closed), "open");
}

/// Both pipes are gone; the server ends, and not before the call has.
#[tokio::test]
async fn a_call_of_a_process_whose_client_is_gone_is_drained() {
    let store = MemoryStore::default();
    let (work, mut held) = held("work", OnCancel::Stops);
    let server = desk_with(patient(Scope::Global), work).store(Arc::new(store.clone()));
    let server = server.build().unwrap();
    let Ends {
        mut to_server,
        from_server,
        task,
    } = ends(&server);
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello("2025-11-25")}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "work"}}),
    ] {
        send_line(&mut to_server, &message).await;
    }
    held.started().await;
    drop((to_server, from_server));
    let (mut witness, _witness) = client_of(&server).await;
    for _ in 0..5 {
        nothing_comes(&mut witness).await;
    }
    assert!(!task.is_finished(), "the call still runs");
    assert_eq!(
        of_kind(&entries(&store, "global:desk").await, "step").len(),
        0
    );
    held.let_go(1);
    ended(task).await;

    is_written_down(&store, "global:desk", "success", "done").await;
    let (_, closed) = witness.call("close", json!({})).await;
    assert_eq!(at(&closed), "open");
}

/// A session that belongs to the process is over with it, and its journal says what came last.
#[tokio::test]
async fn the_journal_of_a_process_whose_client_is_gone_ends_with_its_last_step() {
    let store = MemoryStore::default();
    let (work, mut held) = held("work", OnCancel::Stops);
    let server = desk_with(patient(Scope::Session), work).store(Arc::new(store.clone()));
    let (mut client, connection) = client_of(&server.build().unwrap()).await;
    client.begin("tools/call", json!({"name": "work"})).await;
    held.started().await;
    drop(client);
    held.let_go(1);
    connection.ended().await;
    let kind = store::Kind::from_static("instance");
    let journals = store.journals(&kind, None, 10).await.unwrap();
    assert_eq!(journals.len(), 1, "{journals:?}");
    let instance = journals[0].key.id();
    is_written_down(&store, instance, "success", "done").await;
    let journal = entries(&store, instance).await;
    assert_eq!(journal.last().unwrap()["what"], "ended", "{journal:?}");
}

/// A site, its clock and store, and an instance behind a handle.
async fn by_handle(work: Tool) -> (Site, Arc<ManualClock>, MemoryStore, String) {
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let server = desk_with(patient(Scope::Session), work)
        .clock(clock.clone())
        .store(Arc::new(store.clone()));
    let site = Site::open(&server.build().unwrap(), HttpOptions::default()).await;
    let started = call(&site, "workflow_start", json!({})).await;
    let id = started["structuredContent"]["workflow"].as_str().unwrap();
    let id = id.to_owned();
    (site, clock, store, id)
}

async fn call(site: &Site, tool: &str, arguments: Value) -> Value {
    let answer = site.send(modern_call(1, tool, arguments)).await;
    answer.message().await["result"].take()
}

async fn status(site: &Site, id: &str) -> Value {
    let status = call(site, "workflow_status", json!({"workflow": id})).await;
    status["structuredContent"]["state"].clone()
}

/// Calls `work`, and closes the connection when the call has started.
async fn vanish(site: &Site, id: &str, held: &mut Held) {
    let (web, post) = (site.web(), modern_call(7, "work", json!({"workflow": id})));
    let open = tokio::spawn(async move { web.send(post).await.message().await });
    held.started().await;
    open.abort();
    assert!(open.await.is_err());
}

#[tokio::test]
async fn a_stateless_call_whose_client_is_gone_is_cancelled_if_its_handler_says_so() {
    let (work, mut held) = held("work", OnCancel::Stops);
    let (site, _clock, store, id) = by_handle(work).await;
    vanish(&site, &id, &mut held).await;
    held.stopped().await;
    let moved = async { while status(&site, &id).await == "open" {} };
    soon("the step must be taken", moved).await;
    assert_eq!(status(&site, &id).await, "back");
    is_written_down(&store, &id, "cancelled", "back").await;
    let closed = call(&site, "close", json!({"workflow": id})).await;
    assert_eq!(closed["isError"], false, "{closed}");
}

#[tokio::test]
async fn a_stateless_call_whose_client_is_gone_is_unknown_if_it_must_be_torn_down() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let (site, clock, store, id) = by_handle(work).await;
    vanish(&site, &id, &mut held).await;
    // Its grace begins when the server has noticed.
    let moved = async {
        while status(&site, &id).await == "open" {
            clock.advance(Duration::from_secs(1));
        }
    };
    soon("the step must be taken", moved).await;
    assert_eq!(status(&site, &id).await, "unclear");
    is_written_down(&store, &id, "unknown", "unclear").await;
    let closed = call(&site, "close", json!({"workflow": id})).await;
    assert_eq!(closed["isError"], false, "{closed}");
}

/// Nobody knows what it did, and the binding says that this must not be guessed.
#[tokio::test]
async fn a_stateless_call_that_must_be_torn_down_holds_its_instance_if_it_is_told_to() {
    let flow = Workflow::builder("desk")
        .settings(patient(Scope::Session))
        .state("open", |s| {
            s.initial().tool("work", |t| t.success("done").hold())
        })
        .state("done", |s| s.tool("close", |t| t.success(end("open"))))
        .build()
        .unwrap();
    let (clock, store) = (Arc::new(ManualClock::new()), MemoryStore::default());
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = Server::builder("s", "0").tool(work).tool(tool("close"));
    let server = server.clock(clock.clone()).store(Arc::new(store.clone()));
    let server = server.workflow(flow).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let started = call(&site, "workflow_start", json!({})).await;
    let id = started["structuredContent"]["workflow"].as_str().unwrap();
    vanish(&site, id, &mut held).await;
    let operator = server.operator();
    let stopped = async {
        while operator.show(id).await.unwrap().summary.held.is_none() {
            clock.advance(Duration::from_secs(1));
            status(&site, id).await;
        }
    };
    soon("the instance must be held", stopped).await;
    assert_eq!(status(&site, id).await, "open");
    let journal = entries(&store, id).await;
    let last = journal.last().unwrap();
    let told = ["what", "name", "from"].map(|part| last[part].as_str().unwrap());
    assert_eq!(told, ["held", "work", "open"], "{journal:?}");
    let refused = call(&site, "work", json!({"workflow": id})).await;
    assert_eq!(refusal(&refused), 1084, "{refused}");
    assert!(held.is_quiet(), "it has run again");
    let settled = operator
        .settle(id, Outcome::Success, "the books say so")
        .await;
    assert_eq!(settled.unwrap().state, "done");
    let closed = call(&site, "close", json!({"workflow": id})).await;
    assert_eq!(closed["isError"], false, "{closed}");
}

/// `go` wants an even `n`, and leads to `big` if the result says so and to `small` if not.
fn guarded(store: &MemoryStore) -> Server {
    let flow = Workflow::builder("w")
        .settings(patient(Scope::Global))
        .state("new", |s| {
            s.initial().tool("go", |t| {
                t.when("args.n % args.by == 0")
                    .success(to("big").when("result.structuredContent.size > 10"))
                    .success("small")
            })
        })
        .state("big", |s| s.tool("end", |t| t.success(end("new"))))
        .state("small", |s| s.tool("end", |t| t.success(end("new"))))
        .build()
        .unwrap();
    Server::builder("s", "0")
        .tool(echo("go"))
        .tool(echo("end"))
        .store(Arc::new(store.clone()))
        .workflow(flow)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_guard_on_arguments_that_has_no_answer_refuses_and_moves_nothing() {
    let store = MemoryStore::default();
    let (mut client, _connection) = client_of(&guarded(&store)).await;
    for arguments in [
        json!({}),
        json!({"n": "x", "by": 2}),
        json!({"n": 4, "by": 0}),
    ] {
        let (before, refused) = client.call("go", arguments).await;
        assert_eq!(before, [] as [&str; 0]);
        assert_eq!(refusal(&refused), 1082, "{refused}");
        assert_eq!(at(&refused), "new");
        assert_eq!(client.tools().await, ["go"]);
    }
    let (_, done) = client
        .call("go", json!({"n": 4, "by": 2, "size": 11}))
        .await;
    assert_eq!(at(&done), "big", "{done}");
    let journal = entries(&store, "global:w").await;
    let refused = of_kind(&journal, "refused");
    assert_eq!(refused.len(), 3, "{journal:?}");
    for entry in refused {
        assert_eq!(
            (&entry["name"], &entry["code"]),
            (&json!("go"), &json!(1082))
        );
        let why = entry["why"].as_str().unwrap();
        assert!(
            why.contains("args.n % args.by == 0 has no answer: "),
            "{why}"
        );
    }
    assert_eq!(of_kind(&journal, "step").len(), 1, "{journal:?}");
}

#[tokio::test]
async fn a_guard_on_a_result_that_has_no_answer_is_not_true() {
    let store = MemoryStore::default();
    let (mut client, _connection) = client_of(&guarded(&store)).await;
    for (size, place, faults) in [
        (json!({}), "small", 1),
        (json!({"size": "huge"}), "small", 1),
        (json!({"size": 9}), "small", 0),
        (json!({"size": 11}), "big", 0),
    ] {
        let mut arguments = size;
        arguments["n"] = json!(4);
        arguments["by"] = json!(2);
        let (_, done) = client.call("go", arguments).await;
        assert_eq!(
            (&done["isError"], at(&done)),
            (&json!(false), place),
            "{done}"
        );
        let journal = entries(&store, "global:w").await;
        let step = *of_kind(&journal, "step").last().unwrap();
        assert_eq!((&step["from"], &step["to"]), (&json!("new"), &json!(place)));
        let told = step["faults"].as_array().map_or(0, Vec::len);
        assert_eq!(told, faults, "{step}");
        if faults > 0 {
            let fault = step["faults"][0].as_str().unwrap();
            let guard = "guard \"result.structuredContent.size > 10\" has no answer: ";
            assert!(fault.starts_with(guard), "{fault}");
        }
        let (_, ended) = client.call("end", json!({})).await;
        assert_eq!(at(&ended), "new", "{ended}");
    }
}
