//! Calls of which nobody knows what they did: what the model is told, and what it may do then.

use crate::support::{
    client::client_of,
    held::{Held, OnCancel, held},
    journal::{entries, of_kind},
    messages::{at, modern, refusal, texts, told},
    tools::{echo, tool},
};
use interlock::{
    Builder, Context, NoArguments, Recorded, Server, Tool, Workflow,
    journal::What,
    store::MemoryStore,
    workflow::{BindingBuilder, Outcome, Scope, Settings, end},
};
use interlock_testkit::{Client, ManualClock, PATIENCE, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const WARNING: &str = "Nobody knows how an earlier call of tool 'pay' ended, and it may have taken \
                       effect. Find out before you repeat it.";
const SAFE: &str = "Nobody knows how an earlier call of tool 'pay' ended, and it may have taken \
                    effect. It may be repeated safely.";

fn builder(
    scope: Scope,
    pay: Tool,
    bind: impl FnOnce(BindingBuilder) -> BindingBuilder,
) -> Builder {
    let settings = Settings {
        scope,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("due", |s| {
            s.initial()
                .tool("pay", |t| bind(t.success(end("due")).error("failed")))
                .tool("peek", |t| t.success("due"))
        })
        .state("failed", |s| {
            s.tool("peek", |t| t.success("failed"))
                .tool("check", |t| t.success("due"))
        })
        .state("unclear", |s| s.tool("check", |t| t.success("due")))
        .build()
        .unwrap();
    Server::builder("s", "0")
        .tool(pay)
        .tool(tool("peek"))
        .tool(echo("check"))
        .tool(tool("other"))
        .cancel_grace(Duration::ZERO)
        .workflow(flow)
}

/// Waits until the journal tells of one more call of which nobody knows what it did.
async fn is_lost(server: &Server, id: &str, before: usize) {
    let is_unknown = |one: &Recorded| {
        matches!(
            one.entry.what,
            What::Step {
                outcome: Outcome::Unknown,
                ..
            }
        )
    };
    let lost = async {
        loop {
            let history = server.operator().history(id, None, 100).await.unwrap();
            if history.iter().filter(|one| is_unknown(one)).count() > before {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let lost = tokio::time::timeout(PATIENCE, lost).await;
    lost.expect("it must be torn down");
}

/// A call that is torn down in the middle, after so many others.
async fn lose(server: &Server, client: &mut Client, payments: &mut Held, before: usize) {
    let id = client.begin("tools/call", json!({"name": "pay"})).await;
    payments.started().await;
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    is_lost(server, "global:w", before).await;
    // Lists that are not what they were are told of.
    client.exchange("ping", json!({})).await;
}

#[tokio::test]
async fn the_model_is_told_once_that_the_last_call_may_have_taken_effect() {
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let store = MemoryStore::default();
    let server = builder(Scope::Global, pay, |t| t).store(Arc::new(store.clone()));
    let server = server.build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    lose(&server, &mut client, &mut payments, 0).await;
    let (_, peeked) = client.call("peek", json!({})).await;
    assert_eq!(at(&peeked), "failed", "{peeked}");
    assert_eq!(texts(&peeked), ["peek is done", WARNING]);
    assert_eq!(*told(&peeked), WARNING);
    let (_, peeked) = client.call("peek", json!({})).await;
    assert_eq!(texts(&peeked), ["peek is done"]);
    let journal = entries(&store, "global:w").await;
    let steps = of_kind(&journal, "step");
    assert_eq!(steps[0]["outcome"], "unknown", "{journal:?}");
}

/// A reset instance equals a fresh one.
#[tokio::test]
async fn it_is_not_told_of_what_was_before_a_reset() {
    let store = Arc::new(MemoryStore::default());
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let server = builder(Scope::Global, pay, |t| t).store(store.clone());
    let server = server.build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let (_, fresh) = client.call("peek", json!({})).await;
    lose(&server, &mut client, &mut payments, 0).await;
    server.operator().reset("global:w", "anew").await.unwrap();
    let (mut elsewhere, _elsewhere) = {
        let (pay, _) = held("pay", OnCancel::GoesOn);
        let other = builder(Scope::Global, pay, |t| t).store(store);
        client_of(&other.build().unwrap()).await
    };
    for client in [&mut client, &mut elsewhere] {
        let (_, peeked) = client.call("peek", json!({})).await;
        assert_eq!(peeked, fresh);
    }
}

#[tokio::test]
async fn a_refusal_and_a_failure_tell_it_as_well() {
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let server = builder(Scope::Global, pay, |t| t).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    lose(&server, &mut client, &mut payments, 0).await;
    let (_, refused) = client.call("other", json!({})).await;
    assert_eq!(refusal(&refused), 1081);
    let [text] = texts(&refused)[..] else {
        panic!("{refused}");
    };
    assert!(text.ends_with(WARNING), "{text}");

    let (_, checked) = client.call("check", json!({})).await;
    assert_eq!(texts(&checked), ["done"]);
    lose(&server, &mut client, &mut payments, 1).await;
    let (_, failed) = client.call("check", json!({"fail": 1})).await;
    assert_eq!(texts(&failed), ["as asked", WARNING]);
    assert_eq!(failed["isError"], true);
}

#[tokio::test]
async fn it_is_told_by_the_next_server_if_nobody_was_there_to_hear_it() {
    let store = MemoryStore::default();
    let server = |pay| {
        let server = builder(Scope::Global, pay, |t| t).store(Arc::new(store.clone()));
        server.build().unwrap()
    };
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let first = server(pay);
    let (mut client, _first) = client_of(&first).await;
    lose(&first, &mut client, &mut payments, 0).await;
    let (mut client, _second) = client_of(&server(tool("pay"))).await;
    let (_, checked) = client.call("check", json!({})).await;
    assert_eq!(texts(&checked), ["done", WARNING]);
    let (mut client, _third) = client_of(&server(tool("pay"))).await;
    let (_, peeked) = client.call("peek", json!({})).await;
    assert_eq!(texts(&peeked), ["peek is done"]);
}

#[tokio::test]
async fn whoever_asks_where_a_workflow_stands_is_told() {
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let server = builder(Scope::Handle, pay, |t| t).build().unwrap();
    let (mut client, _connection) = connect(&server);
    let call = |name: &str, arguments: Value| modern(json!({"name": name, "arguments": arguments}));
    let params = call("workflow_start", json!({}));
    let started = client.request("tools/call", params).await;
    let id = started["result"]["structuredContent"]["workflow"].clone();
    let params = call("pay", json!({"workflow": id}));
    let paid = client.begin("tools/call", params).await;
    payments.started().await;
    let params = json!({"requestId": paid});
    client.notify("notifications/cancelled", params).await;
    is_lost(&server, id.as_str().unwrap(), 0).await;
    let params = call("workflow_status", json!({"workflow": id}));
    let status = client.request("tools/call", params.clone()).await;
    let said = &status["result"]["structuredContent"];
    assert_eq!(said["state"], "failed", "{status}");
    assert_eq!(said["instructions"], WARNING, "{status}");
    let status = client.request("tools/call", params).await;
    let said = &status["result"]["structuredContent"];
    assert_eq!(said["instructions"], Value::Null, "{status}");
}

#[tokio::test]
async fn a_workflow_that_says_where_that_leads_says_enough() {
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let server = builder(Scope::Global, pay, |t| t.unknown("unclear"));
    let server = server.build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    lose(&server, &mut client, &mut payments, 0).await;
    let (_, checked) = client.call("check", json!({})).await;
    assert_eq!(texts(&checked), ["done"]);
}

/// Without it, the instance would have gone where an error leads.
#[tokio::test]
async fn a_call_that_may_be_repeated_leaves_the_instance_where_it_was() {
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let server = builder(Scope::Global, pay, BindingBuilder::idempotent);
    let server = server.build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    lose(&server, &mut client, &mut payments, 0).await;
    let (_, peeked) = client.call("peek", json!({})).await;
    assert_eq!(at(&peeked), "due", "{peeked}");
    assert_eq!(texts(&peeked), ["peek is done", SAFE]);
    payments.let_go(1);
    let (_, paid) = client.call("pay", json!({})).await;
    assert_eq!(texts(&paid), ["done"], "{paid}");
}

/// Waits until the instance is in that state. Each look takes so long on its own clock.
async fn comes_to(server: &Server, clock: &ManualClock, look: Duration, state: &str) {
    let comes = async {
        let operator = server.operator();
        while operator.show("global:w").await.unwrap().summary.state != state {
            clock.advance(look);
            tokio::task::yield_now().await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, comes).await;
    came.expect("it must get there");
}

/// Seen to fail with a call that was taken back, ended well and took it along.
#[tokio::test]
async fn it_is_not_told_to_whoever_took_the_call_back() {
    let clock = Arc::new(ManualClock::new());
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let check = Tool::new("check", move |_: NoArguments, context: Context| {
        on_start.send(()).unwrap();
        async move {
            context.cancelled().await;
            "done all the same"
        }
    });
    let settings = Settings {
        scope: Scope::Global,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("due", |s| {
            s.initial()
                .tool("pay", |t| t.success(end("due")).error("failed"))
                .tool("peek", |t| t.success("due"))
        })
        .state("failed", |s| s.tool("check", |t| t.success("due")));
    let server = Server::builder("s", "0")
        .tool(pay)
        .tool(check)
        .tool(tool("peek"))
        .clock(clock.clone())
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let second = Duration::from_secs(1);
    for (name, look, state) in [("pay", second, "failed"), ("check", Duration::ZERO, "due")] {
        let id = client.begin("tools/call", json!({"name": name})).await;
        match name {
            "pay" => payments.started().await,
            _ => started.recv().await.unwrap(),
        }
        let params = json!({"requestId": id});
        client.notify("notifications/cancelled", params).await;
        client.exchange("ping", json!({})).await;
        comes_to(&server, &clock, look, state).await;
    }
    let (_, peeked) = client.call("peek", json!({})).await;
    assert_eq!(texts(&peeked), ["peek is done", WARNING]);
}
