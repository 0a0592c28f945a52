//! Applications that start and stop with their server, and what sessions remember.

use crate::support::{
    ends::{ended, ends},
    messages::modern,
};
use interlock::{Context, Failure, NoArguments, Server, Tool};
use interlock_testkit::{PATIENCE, connect};
use serde_json::json;
use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

struct App {
    number: usize,
}

fn number() -> Tool {
    Tool::new("number", |_: NoArguments, context: Context| async move {
        match context.app::<App>() {
            Some(app) => format!("app {}", app.number),
            None => "no app".to_owned(),
        }
    })
}

#[tokio::test]
async fn hooks_run_before_the_first_client_and_after_the_last() {
    let (started, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (starts, stops) = (Arc::clone(&started), Arc::clone(&stopped));
    let server = Server::builder("app", "0")
        .tool(number())
        .lifespan(
            move || {
                let number = starts.fetch_add(1, Ordering::SeqCst) + 1;
                async move { Ok(App { number }) }
            },
            move |app: Arc<App>| {
                stops.store(app.number, Ordering::SeqCst);
                async {}
            },
        )
        .build()
        .unwrap();
    for round in 1..=2 {
        let (mut first, one) = connect(&server);
        let (mut second, two) = connect(&server);
        for client in [&mut first, &mut second] {
            client.initialize().await;
            let (_, result) = client.call("number", json!({})).await;
            assert_eq!(result["content"][0]["text"], format!("app {round}"));
        }
        first.hang_up();
        one.ended().await;
        assert_eq!(stopped.load(Ordering::SeqCst), round - 1);
        second.hang_up();
        two.ended().await;
        assert_eq!(stopped.load(Ordering::SeqCst), round);
        assert_eq!(started.load(Ordering::SeqCst), round);
    }
}

#[tokio::test]
async fn nobody_is_served_by_an_application_that_does_not_start() {
    let server = Server::builder("app", "0")
        .lifespan(
            || async { Err::<App, _>(Failure::new("no database")) },
            |_| async {},
        )
        .build()
        .unwrap();
    let served = ends(&server).task.await.unwrap();
    assert!(served.unwrap_err().to_string().contains("no database"));
}

#[tokio::test]
async fn an_application_that_needs_no_start_is_just_there() {
    let server = Server::builder("app", "0")
        .tool(number())
        .app(App { number: 7 })
        .build()
        .unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (_, result) = client.call("number", json!({})).await;
    assert_eq!(result["content"][0]["text"], "app 7");
}

#[tokio::test]
async fn a_session_remembers_and_nobody_elses_does() {
    let count = |_: NoArguments, context: Context| async move {
        let count = context.get::<u32>("count")?.unwrap_or(0) + 1;
        context.set("count", &count).await?;
        Ok::<_, Failure>(count.to_string())
    };
    let much = |_: NoArguments, context: Context| async move {
        context.set("much", &"x".repeat(2_000_000)).await?;
        Ok::<_, Failure>("kept")
    };
    let server = Server::builder("memory", "0")
        .tool(Tool::new("count", count))
        .tool(Tool::new("much", much))
        .build()
        .unwrap();
    let (mut first, _one) = connect(&server);
    let (mut second, _two) = connect(&server);
    first.initialize().await;
    second.initialize().await;
    for (client, count) in [(0, "1"), (0, "2"), (1, "1"), (0, "3")] {
        let client = [&mut first, &mut second][client].call("count", json!({}));
        assert_eq!(client.await.1["content"][0]["text"], count);
    }
    let (_, result) = first.call("much", json!({})).await;
    assert_eq!(result["isError"], true);
    let (_, result) = first.call("count", json!({})).await;
    assert_eq!(result["content"][0]["text"], "4");

    // A request that stands alone has no session.
    let params = modern(json!({"name": "count"}));
    let answer = first.request("tools/call", params).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

#[tokio::test]
async fn a_tool_runs_as_often_at_once_as_it_may() {
    let gate = Arc::new(Semaphore::new(0));
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tool = {
        let (gate, running, most) = (Arc::clone(&gate), Arc::clone(&running), Arc::clone(&most));
        Tool::new("narrow", move |_: NoArguments, _: Context| {
            let (gate, running, most) =
                (Arc::clone(&gate), Arc::clone(&running), Arc::clone(&most));
            async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                running.fetch_sub(1, Ordering::SeqCst);
                "done"
            }
        })
        .concurrency(NonZeroUsize::new(2).unwrap())
        .timeout(Duration::from_secs(60))
    };
    let server = Server::builder("narrow", "0").tool(tool).build().unwrap();
    let (mut client, connection) = connect(&server);
    client.initialize().await;
    for _ in 0..5 {
        client.begin("tools/call", json!({"name": "narrow"})).await;
    }
    // Everything that was sent before a ping has begun, or waits.
    client.request("ping", json!({})).await;
    assert_eq!(running.load(Ordering::SeqCst), 2);
    gate.add_permits(5);
    for _ in 0..5 {
        let answer = client.receive().await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "done");
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
    client.hang_up();
    connection.ended().await;
}

#[tokio::test]
async fn a_call_that_waits_too_long_for_its_place_is_refused() {
    let tool = Tool::new("narrow", |_: NoArguments, _: Context| {
        std::future::pending::<String>()
    })
    .concurrency(NonZeroUsize::MIN)
    .timeout(PATIENCE);
    let server = Server::builder("narrow", "0")
        .tool(tool)
        .queue_timeout(Duration::ZERO)
        .build()
        .unwrap();
    let ends = ends(&server);
    drop(ends.from_server);
    drop(ends.to_server);
    ended(ends.task).await;

    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let first = client.begin("tools/call", json!({"name": "narrow"})).await;
    let second = client.begin("tools/call", json!({"name": "narrow"})).await;
    let refused = client.receive().await.unwrap();
    assert!(refused["id"] == first || refused["id"] == second);
    let refusal = &refused["result"]["_meta"]["dev.interlock/refusal"];
    assert_eq!(refusal["code"], 1069, "{refused}");
}
