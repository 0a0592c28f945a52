//! Handlers that ask their client: a client that keeps a connection is asked over it.

#![expect(
    deprecated,
    reason = "sampling and roots are served until they are gone"
)]

use crate::support::{
    client::{answer, introduce_as, nothing_comes},
    messages::{codes, modern, refusal, text},
};
use interlock::{
    Ability, AskError, Context, Failure, Form, NoArguments, Server, Tool, Visit,
    model::{CreateMessageRequestParams, SamplingMessage},
    schemars,
};
use interlock_testkit::{Client, ManualClock, connect};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Contact {
    name: String,
}

fn asking(clock: Arc<ManualClock>) -> Server {
    let form = |_: NoArguments, context: Context| async move {
        let said = context
            .elicit("who", &Form::of::<Contact>("Who are you?"))
            .await?;
        Ok::<_, Failure>(format!("{:?} {:?}", said.action, said.content))
    };
    let sample = |_: NoArguments, context: Context| async move {
        let text = SamplingMessage::user_text("Capital?");
        let said = context
            .sample("capital", &CreateMessageRequestParams::new(vec![text], 100))
            .await?;
        Ok::<_, Failure>(said.model)
    };
    let roots = |_: NoArguments, context: Context| async move {
        let roots = context.roots("roots").await?;
        let uris: Vec<_> = roots.into_iter().map(|root| root.uri).collect();
        Ok::<_, Failure>(uris.join(" "))
    };
    let needs = |_: NoArguments, context: Context| async move {
        context.require(Ability::Sampling)?;
        Ok::<_, Failure>("yes")
    };
    let impatient = |_: NoArguments, context: Context| async move {
        let form = Form::of::<Contact>("Who?");
        tokio::select! {
            biased;
            _ = context.elicit("who", &form) => "answered",
            () = tokio::task::yield_now() => "gave up",
        }
    };
    let why = |_: NoArguments, context: Context| async move {
        match context.roots("roots").await {
            Err(AskError::Failed { code, message }) => format!("failed {code} {message}"),
            Err(AskError::Invalid(_)) => "invalid".to_owned(),
            Err(AskError::Late) => "late".to_owned(),
            other => format!("{other:?}"),
        }
    };
    Server::builder("asking", "0")
        .clock(clock)
        .tool(Tool::new("form", form))
        .tool(Tool::new("sample", sample))
        .tool(Tool::new("roots", roots))
        .tool(Tool::new("needs", needs))
        .tool(Tool::new("impatient", impatient))
        .tool(Tool::new("why", why))
        .build()
        .unwrap()
}

async fn ready(server: &Server, capabilities: Value) -> (Client, interlock_testkit::Connection) {
    let (mut client, connection) = connect(server);
    introduce_as(&mut client, "2025-11-25", capabilities).await;
    (client, connection)
}

/// Calls a tool and gives the call's id with the request that the server makes then.
async fn asked(client: &mut Client, tool: &str) -> (i64, Value) {
    let id = client.begin("tools/call", json!({"name": tool})).await;
    let question = client.receive().await.unwrap();
    assert!(question["id"].is_u64(), "{question}");
    (id, question)
}

fn everything() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

#[tokio::test]
async fn a_form_is_asked_for_and_what_was_said_comes_back() {
    let server = asking(Arc::default());
    let (mut client, _connection) = ready(&server, everything()).await;
    let (id, question) = asked(&mut client, "form").await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who are you?");
    let schema = &question["params"]["requestedSchema"];
    assert_eq!(schema["properties"]["name"]["type"], "string");
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    answer(&mut client, &question, result).await;
    let (before, answered) = client.until(id).await;
    assert_eq!(before, [] as [Value; 0]);
    assert!(text(&answered).contains("Ada"), "{answered}");

    let (id, question) = asked(&mut client, "form").await;
    answer(&mut client, &question, json!({"action": "decline"})).await;
    let (_, answered) = client.until(id).await;
    assert!(text(&answered).contains("Decline"), "{answered}");
}

#[tokio::test]
async fn samples_and_roots_come_back_by_their_types() {
    let server = asking(Arc::default());
    let (mut client, _connection) = ready(&server, everything()).await;
    let (id, question) = asked(&mut client, "sample").await;
    assert_eq!(question["method"], "sampling/createMessage");
    assert_eq!(question["params"]["maxTokens"], 100);
    let result =
        json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m-1"});
    answer(&mut client, &question, result).await;
    assert_eq!(text(&client.until(id).await.1), "m-1");

    let (id, question) = asked(&mut client, "roots").await;
    assert_eq!(question["method"], "roots/list");
    answer(
        &mut client,
        &question,
        json!({"roots": [{"uri": "file:///a"}]}),
    )
    .await;
    assert_eq!(text(&client.until(id).await.1), "file:///a");
}

#[tokio::test]
async fn a_client_that_declared_nothing_is_not_asked() {
    let server = asking(Arc::default());
    let (mut client, _connection) = ready(&server, json!({})).await;
    for tool in ["form", "sample", "roots", "needs"] {
        let (before, result) = client.call(tool, json!({})).await;
        assert_eq!(before, [] as [&str; 0], "{tool}");
        assert_eq!(result["isError"], true, "{tool}");
        assert_eq!(refusal(&result), 1066, "{tool}: {result}");
    }
    // A request that stands alone is told by the protocol's own code.
    for (tool, required) in [
        ("form", json!({"elicitation": {"form": {}}})),
        ("needs", json!({"sampling": {}})),
    ] {
        let params = modern(json!({"name": tool}));
        let answer = client.request("tools/call", params).await;
        assert_eq!(codes(&answer), (-32021, 1066), "{answer}");
        let data = &answer["error"]["data"];
        assert_eq!(data["requiredCapabilities"], required, "{answer}");
    }
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_to_the_handler() {
    let server = asking(Arc::default());
    let (mut client, _connection) = ready(&server, everything()).await;
    let (id, question) = asked(&mut client, "why").await;
    answer(&mut client, &question, json!({"roots": 5})).await;
    assert_eq!(text(&client.until(id).await.1), "invalid");

    let (id, question) = asked(&mut client, "why").await;
    let error = json!({"code": -1, "message": "no"});
    client
        .send(json!({"jsonrpc": "2.0", "id": question["id"], "error": error}))
        .await;
    assert_eq!(text(&client.until(id).await.1), "failed -1 no");

    // Stray and doubled answers change nothing.
    answer(&mut client, &question, json!({"roots": []})).await;
    answer(&mut client, &json!({"id": 999}), json!({"roots": []})).await;
    answer(&mut client, &json!({"id": "x"}), json!({})).await;
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn the_clock_stands_still_while_a_person_thinks() {
    let clock = Arc::new(ManualClock::new());
    let server = asking(Arc::clone(&clock));
    let (mut client, _connection) = ready(&server, everything()).await;
    let (id, question) = asked(&mut client, "form").await;
    // A call may run for 30 seconds, and a person may think for five minutes.
    clock.advance(Duration::from_secs(200));
    nothing_comes(&mut client).await;
    answer(&mut client, &question, json!({"action": "cancel"})).await;
    let (_, answered) = client.until(id).await;
    assert!(text(&answered).contains("Cancel"), "{answered}");
}

#[tokio::test]
async fn a_client_that_never_answers_is_given_up_and_told_so() {
    let clock = Arc::new(ManualClock::new());
    let server = asking(Arc::clone(&clock));
    let (mut client, _connection) = ready(&server, everything()).await;
    let (id, question) = asked(&mut client, "why").await;
    clock.advance(Duration::from_secs(5 * 60));
    let (before, answered) = client.until(id).await;
    assert_eq!(text(&answered), "late");
    assert_eq!(before[0]["method"], "notifications/cancelled");
    assert_eq!(before[0]["params"]["requestId"], question["id"]);
    // A late answer is a stray one.
    answer(&mut client, &question, json!({"roots": []})).await;
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn a_handler_that_stops_waiting_takes_its_question_back() {
    let server = asking(Arc::default());
    let (mut client, _connection) = ready(&server, everything()).await;
    let id = client
        .begin("tools/call", json!({"name": "impatient"}))
        .await;
    let (before, answered) = client.until(id).await;
    assert_eq!(text(&answered), "gave up");
    let methods: Vec<_> = before.iter().map(|message| &message["method"]).collect();
    assert_eq!(methods, ["elicitation/create", "notifications/cancelled"]);
}

#[tokio::test]
async fn a_call_that_is_taken_back_takes_its_question_with_it() {
    let server = asking(Arc::default());
    let (mut client, _connection) = ready(&server, everything()).await;
    let (id, question) = asked(&mut client, "form").await;
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    let taken_back = client.receive().await.unwrap();
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    // Nothing is said about the call itself, and a late answer is a stray one.
    answer(&mut client, &question, json!({"action": "decline"})).await;
    nothing_comes(&mut client).await;
}

/// Whatever a handler makes of an address, no person is led astray.
#[tokio::test]
async fn a_person_is_sent_only_to_https_or_to_this_machine() {
    let visit = Tool::new("visit", |url: Url, context: Context| async move {
        match context.visit("page", &Visit::new("v-1", url.url)).await {
            Err(AskError::NotAQuestion(why)) => format!("not asked: {why}"),
            other => format!("asked: {other:?}"),
        }
    });
    let server = Server::builder("s", "0").tool(visit).build().unwrap();
    let (mut client, _connection) = connect(&server);
    introduce_as(
        &mut client,
        "2025-11-25",
        json!({"elicitation": {"url": {}}}),
    )
    .await;
    for url in [
        "http://example.com/",
        "http://127.0.0.1.example.com/",
        "http://localhost@example.com/",
        "ftp://example.com/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "//example.com/",
        "https:///nowhere",
        "",
    ] {
        let (_, result) = client.call("visit", json!({"url": url})).await;
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(said.starts_with("not asked: "), "{url}: {said}");
    }
    for url in [
        "https://example.com/sign-in",
        "HTTPS://example.com",
        "http://localhost:8080/",
        "http://127.0.0.1/",
        "http://[::1]:9/",
    ] {
        let params = json!({"name": "visit", "arguments": {"url": url}});
        let id = client.begin("tools/call", params).await;
        let question = client.receive().await.unwrap();
        assert_eq!(question["params"]["url"], url, "{question}");
        let yes = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
        client.send(yes).await;
        client.until(id).await;
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Url {
    url: String,
}
