//! The client that the library gives to the tests of others.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling; until it is gone, it is served"
)]

use crate::support::{
    desk::desk,
    held::{OnCancel, held},
    tools::{echo, tool},
};
use interlock::{
    Context, Failure, Form, NoArguments, Server, Tool, Version, Visit,
    model::{
        CallToolResult, CreateMessageRequestParams, CreateMessageResult, ElicitResult,
        ElicitationAction, SamplingMessage,
    },
    schemars,
    testing::{ManualClock, TestClient},
};
use serde_json::{Value, json};
use std::{num::NonZeroUsize, sync::Arc, time::Duration};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Name {
    name: String,
}

#[tokio::test]
async fn a_workflow_is_walked_in_a_few_lines() {
    let server = desk(tool("work")).build().unwrap();
    let mut client = TestClient::connect(&server).await;
    assert_eq!(client.tools().await, ["work", "peek", "search"]);
    assert_eq!(client.resources().await, ["note://rules"]);
    assert_eq!(client.prompts().await, ["sorry"]);
    assert_eq!(client.read("note://rules").await.text(), "be kind");
    let said = client.prompt("sorry", json!({"who": "Ada"})).await;
    assert_eq!(said.text(), "Apologise to Ada.");

    let refused = client.call("close", json!({})).await;
    assert_eq!((refused.code(), refused.is_error()), (Some(1081), true));
    assert_eq!(refused.state(), Some("open"));
    let done = client.call("work", json!({})).await;
    assert_eq!((done.code(), done.is_error()), (None, false));
    assert_eq!(
        (done.state(), &*done.text()),
        (Some("done"), "work is done")
    );
    let told = client.told();
    assert!(
        told.contains(&"notifications/tools/list_changed".to_owned()),
        "{told:?}"
    );
    assert_eq!(client.told(), [] as [&str; 0], "they are told once");
    let refused = client.read("note://rules").await;
    assert_eq!(
        (refused.code(), refused.state()),
        (Some(1081), Some("done"))
    );
    let unknown = client.request("tools/none", json!({})).await;
    assert!(unknown.is_error());
    assert_eq!(unknown.text(), "method not found: tools/none");
    client.hang_up().await;
}

#[tokio::test]
async fn lists_are_read_to_their_end_and_results_as_types() {
    let two = NonZeroUsize::new(2).unwrap();
    let names = ["a", "b", "c", "d", "e"];
    let builder = Server::builder("s", "0").page_size(two);
    let server = names
        .into_iter()
        .fold(builder, |it, name| it.tool(echo(name)));
    let mut client = TestClient::connect(&server.build().unwrap()).await;
    assert_eq!(client.tools().await, names);
    let answer = client.call("a", json!({"n": 7})).await;
    assert_eq!(answer.structured::<Value>(), json!({"n": 7}));
    let result: CallToolResult = answer.result();
    assert_eq!(result.content.len(), 1);
}

#[tokio::test]
async fn questions_are_answered_by_closures() {
    let form = Tool::new("form", |_: NoArguments, context: Context| async move {
        let said = context.elicit("who", &Form::of::<Name>("Who?")).await?;
        Ok::<_, Failure>(format!("{:?}", said.content))
    });
    let page = Tool::new("page", |_: NoArguments, context: Context| async move {
        let visit = Visit::new("v", "https://example.com/");
        let said = context.visit("page", &visit).await?;
        Ok::<_, Failure>(format!("{:?}", said.action))
    });
    let model = Tool::new("model", |_: NoArguments, context: Context| async move {
        let text = vec![SamplingMessage::user_text("Capital?")];
        let asked = CreateMessageRequestParams::new(text, 100);
        Ok::<_, Failure>(context.sample("capital", &asked).await?.model)
    });
    let server = Server::builder("s", "0").tool(form).tool(page).tool(model);
    let server = server.build().unwrap();
    let mut count = 0;
    let mut client = TestClient::builder()
        .version(Version::V2025_11_25)
        .on_elicit(move |asked| {
            count += 1;
            match asked["mode"] == "url" {
                true => ElicitResult::new(ElicitationAction::Decline),
                false => ElicitResult::new(ElicitationAction::Accept)
                    .with_content(json!({"name": format!("Ada {count}")})),
            }
        })
        .on_sample(|asked| {
            assert_eq!(asked.max_tokens, 100);
            CreateMessageResult::new(SamplingMessage::assistant_text("Paris"), "m".to_owned())
        })
        .connect(&server)
        .await;
    for wanted in ["Ada 1", "Ada 2"] {
        let said = client.call("form", json!({})).await.text();
        assert!(said.contains(wanted), "{said}");
    }
    assert_eq!(client.call("page", json!({})).await.text(), "Decline");
    assert_eq!(client.call("model", json!({})).await.text(), "m");

    // What no closure answers is not offered, so the server does not ask.
    let mut client = TestClient::connect(&server).await;
    for tool in ["form", "page", "model"] {
        assert!(client.call(tool, json!({})).await.is_error());
    }
}

#[tokio::test]
async fn a_test_moves_its_clock_while_calls_run_and_answers_may_come_in_any_order() {
    let clock = Arc::new(ManualClock::new());
    let (work, mut held) = held("work", OnCancel::Stops);
    let server = Server::builder("s", "0").tool(work).tool(tool("quick"));
    let server = server.clock(clock.clone()).build().unwrap();
    let mut client = TestClient::connect(&server).await;
    let first = client.begin_call("work", json!({})).await;
    held.started().await;
    let second = client.begin_call("quick", json!({})).await;
    let back = client.begin_call("work", json!({})).await;
    held.started().await;
    client.cancel(back).await;
    assert_eq!(client.finish(second).await.text(), "quick is done");
    clock.advance(Duration::from_secs(30));
    assert_eq!(client.finish(first).await.code(), Some(1069));
}
