//! A handler that panics, hangs or blocks costs its own call and nothing else.

use crate::support::{
    client::{begin, nothing_comes},
    desk::{desk, desk_flow, desk_with, desk_without_workflow, state},
    held::{OnCancel, held},
    messages::{codes, refusal},
    tools::tool,
};
use interlock::{
    Builder, Context, Failure, NoArguments, Prompt, Resource, Server, Tool, Workflow,
    model::JsonObject,
    workflow::{Settings, end},
};
use interlock_testkit::{Client, Connection, ManualClock, connect};
use serde_json::{Value, json};
use std::{
    future::Ready,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

fn any_object() -> JsonObject {
    JsonObject::from_iter([("type".to_owned(), json!("object"))])
}

/// Calls `work`, which panics: the call fails, its step is an error, and the server goes on.
async fn check_panic(work: Tool) {
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let (before, result) = client.call("work", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(refusal(&result), 1079, "{result}");
    let told = &result["_meta"]["dev.interlock/refusal"];
    assert_eq!(told["retryable"], false, "it has moved: {result}");
    assert_eq!(before.len(), 3, "{before:?}");
    assert_eq!(result["_meta"]["dev.interlock/workflow"]["state"], "failed");
    assert_eq!(state(&mut client).await, "failed");
    client.call("close", json!({})).await;
    assert_eq!(state(&mut client).await, "open");
    // Once more, so that nothing of the first is left behind.
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(refusal(&result), 1079, "{result}");
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn a_panic_before_the_future() {
    check_panic(Tool::raw("work", any_object(), |_, _| -> Ready<&str> {
        panic!("before the future")
    }))
    .await;
}

#[tokio::test]
async fn a_panic_in_the_closure_of_a_typed_tool() {
    check_panic(Tool::new(
        "work",
        |_: NoArguments, _: Context| -> Ready<&str> { panic!("before the future") },
    ))
    .await;
}

#[tokio::test]
async fn a_panic_after_an_await() {
    check_panic(Tool::new("work", |_: NoArguments, _: Context| async {
        tokio::task::yield_now().await;
        if true {
            panic!("after an await");
        }
        ""
    }))
    .await;
}

#[tokio::test]
async fn a_panic_with_something_that_is_no_string() {
    check_panic(Tool::new("work", |_: NoArguments, _: Context| async {
        if true {
            std::panic::panic_any(vec![5]);
        }
        ""
    }))
    .await;
}

#[tokio::test]
async fn a_panic_in_a_blocking_tool() {
    check_panic(Tool::blocking(
        "work",
        |_: NoArguments, _: Context| -> &str { panic!("on its own thread") },
    ))
    .await;
}

/// Panics when it is dropped, as a guard may that unwraps something.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[tokio::test]
async fn a_panic_whose_payload_panics_again() {
    check_panic(Tool::new("work", |_: NoArguments, _: Context| async {
        if true {
            std::panic::panic_any(Bomb);
        }
        ""
    }))
    .await;
}

#[tokio::test]
async fn a_handler_that_panics_while_it_is_torn_down_has_still_timed_out() {
    let clock = Arc::new(ManualClock::new());
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let work = Tool::new("work", move |_: NoArguments, _: Context| {
        let on_start = on_start.clone();
        async move {
            let _bomb = Bomb;
            on_start.send(()).unwrap();
            std::future::pending::<()>().await;
        }
    });
    let (mut client, _connection) = ready(desk(work), &clock).await;
    let id = begin(&mut client, "work").await;
    started.recv().await.unwrap();
    clock.advance(Duration::from_secs(30));
    let (_, answer) = client.until(id).await;
    assert_eq!(refusal(&answer["result"]), 1069, "{answer}");
    assert_eq!(state(&mut client).await, "late");
}

#[tokio::test]
async fn a_panicking_resource_or_prompt_is_an_internal_error_and_takes_the_error_edge() {
    let flow = Workflow::builder("w")
        .state("a", |s| {
            s.initial()
                .resource("r://x", |r| r.success("c").error("b"))
                .prompt("p", |p| p.success("c").error("b"))
        })
        .state("b", |s| s.tool("back", |t| t.success(end("a"))))
        .state("c", |s| s.tool("back", |t| t.success(end("a"))))
        .build()
        .unwrap();
    let server = Server::builder("s", "0")
        .resource(Resource::new("r://x", |_| async {
            if true {
                panic!("resource");
            }
            ""
        }))
        .prompt(Prompt::raw("p", |_, _| async {
            if true {
                panic!("prompt");
            }
            ""
        }))
        .tool(tool("back"))
        .tool(tool("nowhere"))
        .workflow(flow)
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    for (method, params) in [
        ("resources/read", json!({"uri": "r://x"})),
        ("prompts/get", json!({"name": "p"})),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert_eq!(state(&mut client).await, "b");
        client.call("back", json!({})).await;
    }
}

#[tokio::test]
async fn a_failing_resource_or_prompt_is_an_internal_error_that_says_why() {
    let server = Server::builder("s", "0")
        .resource(Resource::new("r://x", |_| async {
            Err::<&str, _>(Failure::new("no disk"))
        }))
        .prompt(Prompt::raw("p", |_, _| async {
            Err::<String, _>(Failure::new("no words"))
        }))
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let answer = client
        .request("resources/read", json!({"uri": "r://x"}))
        .await;
    let error = json!({"code": -32603, "message": "no disk"});
    assert_eq!(answer["error"], error, "it is no refusal");
    let answer = client.request("prompts/get", json!({"name": "p"})).await;
    assert_eq!(answer["error"]["message"], "no words");
}

async fn ready(builder: Builder, clock: &Arc<ManualClock>) -> (Client, Connection) {
    let server = builder.clock(Arc::clone(clock) as _).build().unwrap();
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    (client, connection)
}

/// Calls `work`, which hangs, and proves that it ends at this deadline and not before.
async fn check_deadline(deadline: Duration, build: impl FnOnce(Tool) -> Builder) -> Value {
    let clock = Arc::new(ManualClock::new());
    let (work, mut held) = held("work", OnCancel::Stops);
    let (mut client, _connection) = ready(build(work), &clock).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    clock.advance(deadline - Duration::from_millis(1));
    nothing_comes(&mut client).await;
    nothing_comes(&mut client).await;
    clock.advance(Duration::from_millis(1));
    let (before, answer) = client.until(id).await;
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    assert_eq!(refusal(result), 1069, "{answer}");
    let place = &result["_meta"]["dev.interlock/workflow"];
    if place.is_object() {
        assert!(!before.is_empty());
        assert_eq!(place["state"], state(&mut client).await);
    }
    nothing_comes(&mut client).await;
    place["state"].clone()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_hanging_tool_times_out_after_30_seconds_and_takes_its_edge() {
    assert_eq!(check_deadline(30 * SECOND, desk).await, "late");
}

#[tokio::test]
async fn a_hanging_tool_times_out_without_a_workflow_too() {
    assert_eq!(
        check_deadline(30 * SECOND, desk_without_workflow).await,
        json!(null)
    );
}

#[tokio::test]
async fn a_timeout_without_an_edge_of_its_own_is_an_error() {
    let state = check_deadline(30 * SECOND, |work| {
        let flow = Workflow::builder("w")
            .state("open", |s| {
                s.initial()
                    .tool("work", |t| t.success("done").error("failed"))
            })
            .state("failed", |s| s.tool("close", |t| t.success(end("open"))))
            .state("done", |s| s.tool("close", |t| t.success(end("open"))))
            .build()
            .unwrap();
        Server::builder("s", "0")
            .tool(work)
            .tool(tool("close"))
            .tool(tool("nowhere"))
            .workflow(flow)
    });
    assert_eq!(state.await, "failed");
}

#[tokio::test]
async fn a_tool_may_have_a_deadline_of_its_own() {
    let state = check_deadline(2 * SECOND, |work| desk(work.timeout(2 * SECOND)));
    assert_eq!(state.await, "late");
}

#[tokio::test]
async fn the_deadline_of_a_binding_beats_that_of_the_tool() {
    for deadline in [3 * SECOND, 90 * SECOND] {
        let state = check_deadline(deadline, |work| {
            let flow = Workflow::builder("w")
                .state("open", |s| {
                    s.initial().tool("work", |t| {
                        t.success("done").timeout("late").deadline(deadline)
                    })
                })
                .state("late", |s| s.tool("close", |t| t.success(end("open"))))
                .state("done", |s| s.tool("close", |t| t.success(end("open"))))
                .build()
                .unwrap();
            Server::builder("s", "0")
                .tool(work.timeout(10 * SECOND))
                .tool(tool("close"))
                .tool(tool("nowhere"))
                .workflow(flow)
        });
        assert_eq!(state.await, "late");
    }
}

#[tokio::test]
async fn the_deadline_of_a_binding_holds_beside_others_too() {
    let flow = Workflow::builder("w")
        .state("open", |s| {
            s.initial()
                .tool("work", |t| t.success("open").deadline(4 * SECOND))
                .tool("close", |t| t.success(end("open")))
        })
        .build()
        .unwrap();
    let clock = Arc::new(ManualClock::new());
    let (work, mut held) = held("work", OnCancel::Stops);
    let builder = Server::builder("s", "0")
        .tool(work)
        .tool(tool("close"))
        .workflow(flow);
    let (mut client, _connection) = ready(builder, &clock).await;
    let id = begin(&mut client, "work").await;
    held.started().await;
    clock.advance(4 * SECOND);
    let (_, answer) = client.until(id).await;
    assert_eq!(refusal(&answer["result"]), 1069, "{answer}");
}

#[tokio::test]
async fn the_workflow_may_set_the_deadline_of_all() {
    let settings = Settings {
        tool_timeout: 7 * SECOND,
        ..Settings::default()
    };
    assert_eq!(
        check_deadline(7 * SECOND, |work| desk_with(settings, work)).await,
        "late"
    );
}

#[tokio::test]
async fn the_server_may_set_the_deadline_of_all() {
    let state = check_deadline(8 * SECOND, |work| desk(work).tool_timeout(8 * SECOND));
    assert_eq!(state.await, "late");
}

/// Setters only collect, so their order says nothing.
#[tokio::test]
async fn the_servers_deadline_holds_whether_it_is_set_before_or_after_the_workflow() {
    let state = check_deadline(8 * SECOND, |work| {
        desk_without_workflow(work)
            .tool_timeout(8 * SECOND)
            .workflow(desk_flow(Settings::default()))
    });
    assert_eq!(state.await, "late");
}

#[tokio::test]
async fn resources_and_prompts_have_the_deadline_of_all() {
    let clock = Arc::new(ManualClock::new());
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let on_start_too = on_start.clone();
    let builder = Server::builder("s", "0")
        .tool_timeout(SECOND)
        .resource(Resource::new("r://x", move |_| {
            on_start.send(()).unwrap();
            std::future::pending::<&str>()
        }))
        .prompt(Prompt::raw("p", move |_, _| {
            on_start_too.send(()).unwrap();
            std::future::pending::<&str>()
        }));
    let (mut client, _connection) = ready(builder, &clock).await;
    for (method, params) in [
        ("resources/read", json!({"uri": "r://x"})),
        ("prompts/get", json!({"name": "p"})),
    ] {
        let id = client.begin(method, params).await;
        started.recv().await.unwrap();
        clock.advance(SECOND);
        let (_, answer) = client.until(id).await;
        assert_eq!(codes(&answer), (-32603, 1069), "{answer}");
    }
}

#[tokio::test]
async fn waiting_too_long_for_its_turn_moves_nothing() {
    let clock = Arc::new(ManualClock::new());
    let (work, mut held) = held("work", OnCancel::Stops);
    let builder = desk(work.timeout(100 * SECOND)).queue_timeout(5 * SECOND);
    let (mut client, _connection) = ready(builder, &clock).await;
    let first = begin(&mut client, "work").await;
    held.started().await;
    let second = begin(&mut client, "work").await;
    nothing_comes(&mut client).await;
    clock.advance(5 * SECOND);
    let (before, answer) = client.until(second).await;
    assert_eq!(before, [] as [Value; 0]);
    assert_eq!(refusal(&answer["result"]), 1069, "{answer}");
    assert_eq!(state(&mut client).await, "open");
    held.let_go(1);
    let (_, answer) = client.until(first).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert!(held.is_quiet());
}

/// What a handler leaves behind sees the instance as the handler did, though its call was over at once
/// and has moved it. Seen to fail with a context that looks when it is asked.
#[tokio::test]
async fn a_context_that_outlives_its_call_shows_what_was_before_the_step() {
    let (on_kept, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let work = Tool::new("work", move |_: NoArguments, context: Context| {
        on_kept.send(context).unwrap();
        std::future::ready("worked")
    });
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let id = begin(&mut client, "work").await;
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "worked");
    assert_eq!(state(&mut client).await, "done");
    let context = kept.recv().await.unwrap();
    assert_eq!(context.state(), Some("open"));
}

#[tokio::test]
async fn a_blocking_tool_does_not_stall_the_loop() {
    let (let_go, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let work = Tool::blocking("work", move |_: NoArguments, context: Context| {
        on_start.send(context.state().map(str::to_owned)).unwrap();
        gate.lock().unwrap().recv().unwrap();
        "worked"
    });
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let id = begin(&mut client, "work").await;
    assert_eq!(started.recv().await.unwrap().as_deref(), Some("open"));
    nothing_comes(&mut client).await;
    let (_, result) = client.call("peek", json!({})).await;
    assert_eq!(result["content"][0]["text"], "peek is done");
    let_go.send(()).unwrap();
    let (_, answer) = client.until(id).await;
    assert_eq!(answer["result"]["content"][0]["text"], "worked");
    assert_eq!(state(&mut client).await, "done");
}

#[tokio::test]
async fn a_blocking_tool_past_its_deadline_goes_on_unheard() {
    let clock = Arc::new(ManualClock::new());
    let (let_go, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let (on_start, mut started) = tokio::sync::mpsc::unbounded_channel();
    let (on_end, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let work = Tool::blocking("work", move |_: NoArguments, _: Context| {
        on_start.send(()).unwrap();
        gate.lock().unwrap().recv().unwrap();
        on_end.send(()).unwrap();
    });
    let (mut client, _connection) = ready(desk(work), &clock).await;
    let id = begin(&mut client, "work").await;
    started.recv().await.unwrap();
    clock.advance(30 * SECOND);
    let (_, answer) = client.until(id).await;
    assert_eq!(refusal(&answer["result"]), 1069);
    let_go.send(()).unwrap();
    ended.recv().await.unwrap();
    nothing_comes(&mut client).await;
    assert_eq!(state(&mut client).await, "late");
}

#[tokio::test]
async fn a_handler_that_gives_up_unasked_has_failed() {
    let work = Tool::new("work", |_: NoArguments, _: Context| async {
        Err::<(), _>(Failure::stopped())
    });
    let (mut client, _connection) = connect(&desk(work).build().unwrap());
    client.initialize().await;
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(state(&mut client).await, "failed");
}
