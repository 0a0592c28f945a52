//! What a workflow says besides edges holds for requests that stand alone, too: limits of visits,
//! calls that may be repeated, effects in order before the answer.

use crate::support::{
    desk::global,
    held::{OnCancel, held},
    messages::{at, modern, refusal},
    tools::tool,
};
use interlock::{
    Done, Effect, EffectContext, Server, Workflow,
    workflow::{end, to},
};
use interlock_testkit::{Client, connect, soon};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// Calls a tool by a request that stands alone. Nothing comes before its answer.
async fn call(client: &mut Client, name: &str) -> Value {
    let params = modern(json!({"name": name}));
    let (before, answer) = client.exchange("tools/call", params).await;
    assert_eq!(before, [] as [Value; 0], "{name}");
    answer["result"].clone()
}

#[tokio::test]
async fn a_state_that_was_visited_too_often_refuses() {
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| {
            s.max_visits(2)
                .tool("back", |t| t.success("a"))
                .tool("end", |t| t.success(end("a")))
        });
    let builder = Server::builder("s", "0").workflow(flow.build().unwrap());
    let tools = ["go", "back", "end"].map(tool).into_iter();
    let server = tools.fold(builder, interlock::Builder::tool);
    let (mut client, _connection) = connect(&server.build().unwrap());
    for _ in 0..2 {
        assert_eq!(at(&call(&mut client, "go").await), "b");
        assert_eq!(at(&call(&mut client, "back").await), "a");
    }
    assert_eq!(at(&call(&mut client, "go").await), "b");
    let refused = call(&mut client, "back").await;
    assert_eq!(refusal(&refused), 1082, "{refused}");
}

#[tokio::test]
async fn a_call_that_may_be_repeated_leaves_the_instance_where_it_was() {
    let (pay, mut payments) = held("pay", OnCancel::GoesOn);
    let flow = Workflow::builder("w").settings(global()).state("due", |s| {
        s.initial()
            .tool("pay", |t| {
                t.success(end("due")).error("failed").idempotent()
            })
            .tool("peek", |t| t.success("due"))
    });
    let flow = flow.state("failed", |s| s.tool("peek", |t| t.success("failed")));
    let server = Server::builder("s", "0")
        .tool(pay)
        .tool(tool("peek"))
        .cancel_grace(Duration::ZERO)
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    let params = modern(json!({"name": "pay"}));
    let id = client.begin("tools/call", params).await;
    payments.started().await;
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    let is_told = async {
        loop {
            let peeked = call(&mut client, "peek").await;
            assert_eq!(at(&peeked), "due", "{peeked}");
            let texts = peeked["content"].as_array().unwrap();
            if let [_, warning] = &texts[..] {
                return warning["text"].as_str().unwrap().to_owned();
            }
        }
    };
    let warning = soon("the model must be told", is_told).await;
    assert!(warning.contains("It may be repeated safely."), "{warning}");
    payments.let_go(1);
    let paid = call(&mut client, "pay").await;
    assert_eq!(paid["content"][0]["text"], "done", "{paid}");
}

#[tokio::test]
async fn effects_run_in_order_before_the_answer() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let logs = |name: &'static str| {
        let log = Arc::clone(&log);
        Effect::new(name, move |done: Done, _: EffectContext| {
            let log = Arc::clone(&log);
            async move {
                log.lock().unwrap().push((name, done.to));
                Ok(())
            }
        })
    };
    let flow = Workflow::builder("w")
        .settings(global())
        .state("a", |s| {
            let on = to("b").effect("first").effect("second");
            s.initial().tool("go", |t| t.success(on))
        })
        .state("b", |s| s.tool("end", |t| t.success(end("a"))));
    let server = Server::builder("s", "0")
        .tool(tool("go"))
        .tool(tool("end"))
        .effect(logs("first"))
        .effect(logs("second"))
        .workflow(flow.build().unwrap());
    let (mut client, _connection) = connect(&server.build().unwrap());
    assert_eq!(at(&call(&mut client, "go").await), "b");
    let ran = log.lock().unwrap().clone();
    assert_eq!(ran, [("first", "b".to_owned()), ("second", "b".to_owned())]);
}
