//! Where the end of a call leads: alternatives, memory, limits and holds.

use crate::support::{
    client::{client_of, nothing_comes},
    held::{OnCancel, held},
    messages::{at, refusal},
    tools::{echo, tool},
};
use interlock::{
    Prompt, Server, Workflow,
    workflow::{Builder, Busy, Finish, Settings, end, to},
};
use interlock_testkit::ManualClock;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

fn serve(flow: Builder, tools: &[&'static str]) -> Server {
    let builder = Server::builder("s", "0").workflow(flow.build().unwrap());
    let tools = tools.iter().map(|name| echo(name));
    tools
        .fold(builder, interlock::Builder::tool)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_guard_on_the_result_chooses_the_edge() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().tool("go", |t| {
                t.success(to("some").when("result.structuredContent.n < 3"))
                    .success(to("many").set("n", "result.structuredContent.n"))
                    .error(to("odd").when("result.isError && result.content[0].text == 'as asked'"))
                    .error("a")
            })
        })
        .state("some", |s| s.tool("end", |t| t.success(end("a"))))
        .state("many", |s| {
            s.tool("end", |t| t.when("args.n == ctx.n").success(end("a")))
        })
        .state("odd", |s| s.tool("end", |t| t.success(end("a"))));
    let (mut client, _connection) = client_of(&serve(flow, &["go", "end"])).await;
    let (_, result) = client.call("go", json!({"n": 1})).await;
    assert_eq!(at(&result), "some");
    client.call("end", json!({})).await;
    let (_, result) = client.call("go", json!({"n": 7})).await;
    assert_eq!(at(&result), "many");
    let (_, refused) = client.call("end", json!({"n": 1})).await;
    assert_eq!(refusal(&refused), 1082);
    client.call("end", json!({"n": 7})).await;
    // A guard without an answer counts as false.
    let (_, result) = client.call("go", json!({})).await;
    assert_eq!(at(&result), "many");
    let (_, refused) = client.call("end", json!({"n": 7})).await;
    assert_eq!(
        refusal(&refused),
        1082,
        "the number could not be remembered"
    );
}

#[tokio::test]
async fn a_failure_is_a_result_that_guards_can_look_at() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().tool("go", |t| {
                t.success(end("a"))
                    .error(to("odd").when("result.isError && result.content[0].text == 'as asked'"))
                    .error("a")
            })
        })
        .state("odd", |s| s.tool("go", |t| t.success(end("a"))));
    let (mut client, _connection) = client_of(&serve(flow, &["go"])).await;
    let (_, result) = client.call("go", json!({"fail": true})).await;
    assert_eq!(at(&result), "odd");
}

#[tokio::test]
async fn the_result_of_a_prompt_can_be_remembered() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().prompt("ask", |p| {
                p.success(to("b").set("said", "result.messages[0].content.text"))
            })
        })
        .state("b", |s| {
            s.tool("go", |t| t.when("args.said == ctx.said").success(end("a")))
        });
    let server = Server::builder("s", "0")
        .tool(echo("go"))
        .prompt(Prompt::text("ask", "What?"))
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, _connection) = client_of(&server).await;
    client.request("prompts/get", json!({"name": "ask"})).await;
    let (_, result) = client.call("go", json!({"said": "What?"})).await;
    assert_eq!(at(&result), "a", "{result}");
}

#[tokio::test]
async fn only_what_is_kept_survives_a_new_beginning() {
    let settings = Settings {
        keep: vec!["who".to_owned()],
        ..Settings::default()
    };
    let flow = Workflow::builder("w").settings(settings).state("a", |s| {
        let all = |t: interlock::workflow::BindingBuilder| {
            t.success(end("a").set("who", "args.who").set("what", "args.what"))
        };
        s.initial()
            .tool("go", all)
            .tool("kept", |t| t.when("ctx.who == 'me'").success("a"))
            .tool("gone", |t| t.when("!has(ctx.what)").success("a"))
    });
    let (mut client, _connection) = client_of(&serve(flow, &["go", "kept", "gone"])).await;
    client.call("go", json!({"who": "me", "what": "it"})).await;
    for tool in ["kept", "gone"] {
        let (_, result) = client.call(tool, json!({})).await;
        assert_eq!(result["isError"], false, "{tool}: {result}");
    }
}

#[tokio::test]
async fn a_state_that_was_visited_too_often_allows_nothing() {
    let flow = Workflow::builder("w")
        .state("a", |s| s.initial().tool("go", |t| t.success("b")))
        .state("b", |s| {
            s.max_visits(2)
                .tool("back", |t| t.success("a"))
                .tool("peek", |t| t.success("b"))
                .tool("end", |t| t.success(end("a")))
        });
    let (mut client, _connection) = client_of(&serve(flow, &["go", "back", "peek", "end"])).await;
    for _ in 0..2 {
        client.call("go", json!({})).await;
        client.call("back", json!({})).await;
    }
    let (before, _) = client.call("go", json!({})).await;
    assert_eq!(before, ["notifications/tools/list_changed"]);
    assert_eq!(client.tools().await, [] as [&str; 0]);
    for tool in ["back", "peek", "end"] {
        let (_, refused) = client.call(tool, json!({})).await;
        assert_eq!(refusal(&refused), 1082, "{refused}");
        let allowed = &refused["_meta"]["dev.interlock/refusal"]["allowed"];
        assert_eq!(*allowed, json!([]));
        assert_eq!(
            refused["content"][0]["text"],
            format!(
                "Tool '{tool}' is not allowed: state 'b' may be visited 2 times. No tool is \
                 allowed now."
            )
        );
    }
}

#[tokio::test]
async fn a_finished_instance_takes_no_more_calls() {
    let settings = Settings {
        finish: Finish::Stay,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("a", |s| s.initial().tool("go", |t| t.success(end("b"))));
    let (mut client, _connection) = client_of(&serve(flow, &["go"])).await;
    let (before, result) = client.call("go", json!({})).await;
    assert_eq!(before, ["notifications/tools/list_changed"]);
    assert_eq!(at(&result), "b");
    let (_, refused) = client.call("go", json!({})).await;
    assert_eq!(refusal(&refused), 1085);
}

#[tokio::test]
async fn a_busy_instance_refuses_where_it_is_told_to() {
    let settings = Settings {
        busy: Busy::Refuse,
        ..Settings::default()
    };
    let flow = Workflow::builder("w")
        .settings(settings)
        .state("a", |s| s.initial().tool("go", |t| t.success(end("a"))));
    let (go, mut held) = held("go", OnCancel::GoesOn);
    let server = Server::builder("s", "0").tool(go);
    let server = server.workflow(flow.build().unwrap()).build().unwrap();
    let (mut client, _connection) = client_of(&server).await;
    let id = client.begin("tools/call", json!({"name": "go"})).await;
    held.started().await;
    let (_, refused) = client.call("go", json!({})).await;
    assert_eq!(refusal(&refused), 1084);
    held.let_go(1);
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

/// A call that is torn down, because it does not stop when it is asked to.
async fn tear_down(flow: Builder) -> (interlock_testkit::Client, interlock_testkit::Connection) {
    let (go, mut held) = held("go", OnCancel::GoesOn);
    let clock = Arc::new(ManualClock::new());
    let server = Server::builder("s", "0")
        .tool(go)
        .tool(tool("end"))
        .tool(tool("peek"))
        .clock(clock.clone())
        .workflow(flow.build().unwrap())
        .build()
        .unwrap();
    let (mut client, connection) = client_of(&server).await;
    let id = client.begin("tools/call", json!({"name": "go"})).await;
    held.started().await;
    let params = json!({"requestId": id});
    client.notify("notifications/cancelled", params).await;
    nothing_comes(&mut client).await;
    clock.advance(Duration::from_secs(10));
    nothing_comes_but_lists(&mut client).await;
    (client, connection)
}

async fn nothing_comes_but_lists(client: &mut interlock_testkit::Client) {
    // The call is a task of its own; when its turn is free, it has ended.
    for _ in 0..50 {
        let (before, _) = client.exchange("ping", json!({})).await;
        let lists = |message: &Value| message["method"] == "notifications/tools/list_changed";
        assert!(before.iter().all(lists), "{before:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn nobody_knows_what_a_held_call_did_and_nothing_goes_on() {
    let flow = Workflow::builder("w").state("a", |s| {
        s.initial()
            .tool("go", |t| t.success(end("a")).hold())
            .tool("end", |t| t.success(end("a")))
            .tool("peek", |t| t.success("a"))
    });
    let (mut client, _connection) = tear_down(flow).await;
    assert_eq!(client.tools().await, [] as [&str; 0]);
    for tool in ["go", "end", "peek"] {
        let (_, refused) = client.call(tool, json!({})).await;
        assert_eq!(refusal(&refused), 1084, "{refused}");
        assert_eq!(
            refused["content"][0]["text"],
            format!(
                "Tool '{tool}' is not allowed: nobody knows what tool 'go' did, and an operator \
                 must decide. No tool is allowed now."
            )
        );
        // Seen to fail with `retryable` and "wait for it to end".
        let facts = &refused["_meta"]["dev.interlock/refusal"];
        assert_eq!(facts["retryable"], false);
        let hint = facts["hint"].as_str().unwrap();
        assert!(hint.contains("settles it"), "{hint}");
    }
}

#[tokio::test]
async fn a_call_of_which_nobody_knows_what_it_did_leads_where_an_error_does() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial().tool("go", |t| t.success(end("a")).error("b"))
        })
        .state("b", |s| {
            s.tool("go", |t| t.success(end("a")))
                .tool("end", |t| t.success(end("a")))
        });
    let (mut client, _connection) = tear_down(flow).await;
    let (_, result) = client.call("end", json!({})).await;
    assert_eq!(result["content"][0]["text"], "end is done", "{result}");
}
