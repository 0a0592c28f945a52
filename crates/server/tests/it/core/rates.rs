//! How many calls and completions a client may make: over stdio, in sessions and without.

use crate::support::{
    messages::{codes, refusal, result_text},
    tools::tool,
};
use interlock::{Builder, Context, HttpOptions, Partial, Prompt, Rates, Server};
use interlock_testkit::{
    Client, ManualClock, connect,
    web::{Request, Site},
};
use serde_json::{Value, json};
use std::{num::NonZeroU32, sync::Arc, time::Duration};

fn rates(per_second: u32) -> Rates {
    Rates::per_second(NonZeroU32::new(per_second).unwrap())
}

fn hasty(clock: &Arc<ManualClock>) -> Builder {
    let prompt = Prompt::text("p", "{{x}}").required("x");
    Server::builder("s", "0")
        .tool(tool("work"))
        .prompt(prompt.complete("x", |_: Partial, _: Context| async { ["done"].to_vec() }))
        .clock(clock.clone())
        .call_rates(rates(4))
        .completion_rates(rates(2))
}

fn completion() -> Value {
    json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": ""}})
}

async fn complete(client: &mut Client) -> Value {
    client.request("completion/complete", completion()).await
}

#[tokio::test]
async fn a_call_too_many_is_refused_and_told_how_long_to_wait() {
    let clock = Arc::new(ManualClock::new());
    let server = hasty(&clock).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    for _ in 0..4 {
        let (_, result) = client.call("work", json!({})).await;
        assert_eq!(result["isError"], false, "{result}");
    }
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(refusal(&result), 1057, "{result}");
    let told = &result["_meta"]["dev.interlock/refusal"];
    assert_eq!(told["retryAfterMs"], 250);
    assert_eq!(told["retryable"], true);
    let words = "too many requests in this second: try again in 250 ms";
    assert_eq!(result_text(&result), words);
    let params = json!({"name": "p", "arguments": {"x": ""}});
    let answer = client.request("prompts/get", params).await;
    assert_eq!(codes(&answer), (-32603, 1057), "a prompt counts, too");
    assert_eq!(answer["error"]["data"]["refusal"]["retryAfterMs"], 250);
    let listed = client.request("tools/list", json!({})).await;
    assert!(listed["result"].is_object(), "{listed}");

    let (mut other, _connection) = connect(&server);
    other.initialize().await;
    let (_, result) = other.call("work", json!({})).await;
    assert_eq!(
        result["isError"], false,
        "another connection is another client"
    );

    clock.advance(Duration::from_millis(250));
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
}

#[tokio::test]
async fn completions_have_a_rate_of_their_own() {
    let clock = Arc::new(ManualClock::new());
    let server = hasty(&clock).build().unwrap();
    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    for _ in 0..2 {
        let answer = complete(&mut client).await;
        assert_eq!(answer["result"]["completion"]["values"], json!(["done"]));
    }
    let answer = complete(&mut client).await;
    assert_eq!(codes(&answer), (-32603, 1057), "{answer}");
    assert_eq!(answer["error"]["data"]["refusal"]["retryAfterMs"], 500);
    let (_, result) = client.call("work", json!({})).await;
    assert_eq!(result["isError"], false, "{result}");
    clock.advance(Duration::from_millis(500));
    let answer = complete(&mut client).await;
    assert_eq!(answer["result"]["completion"]["values"], json!(["done"]));
}

#[tokio::test]
async fn a_server_has_rates_unless_it_says_otherwise() {
    let clock = Arc::new(ManualClock::new());
    let server = |builder: Builder| {
        let prompt = Prompt::text("p", "{{x}}").optional("x");
        builder.prompt(prompt.complete("x", |_: Partial, _: Context| async { vec![""] }))
    };
    let bare = || Server::builder("s", "0").clock(clock.clone());
    let unlimited = bare().completion_rates(Rates::default());
    for (builder, passed) in [(bare(), 1_000), (unlimited, 1_001)] {
        let (mut client, _connection) = connect(&server(builder).build().unwrap());
        client.initialize().await;
        for _ in 0..passed {
            let answer = complete(&mut client).await;
            assert!(answer["result"].is_object(), "{answer}");
        }
        if passed == 1_000 {
            assert_eq!(codes(&complete(&mut client).await), (-32603, 1057));
        }
    }
}

#[tokio::test]
async fn clients_without_a_session_are_counted_together_if_nobody_can_tell_them_apart() {
    let clock = Arc::new(ManualClock::new());
    let server = hasty(&clock).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let mut passed = 0;
    for id in 0..6 {
        let params = json!({"name": "work", "arguments": {}});
        let request = Request::modern(id, "tools/call", params);
        let answer = site.send(request).await.message().await;
        match answer["result"]["isError"] == json!(false) {
            true => passed += 1,
            false => assert_eq!(refusal(&answer["result"]), 1057, "{answer}"),
        }
    }
    assert_eq!(passed, 4);
}
