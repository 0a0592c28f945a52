//! Logs and progress: who hears them, where, and in what order.

use crate::support::{
    client::nothing_comes,
    http::{SESSIONS, plain, plain_site, verdict},
    messages::text,
    puppet::{Act, puppet},
};
use interlock::{Context, HttpOptions, NoArguments, Tool};
use interlock_testkit::{
    connect, soon,
    web::{Hello, Request, Session, Site},
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;

const META_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

fn levels(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/message", "{message}");
            assert_eq!(message["params"]["logger"], "chatter", "{message}");
            assert_eq!(message["params"]["data"]["at"], message["params"]["level"]);
            message["params"]["level"].as_str().unwrap()
        })
        .collect()
}

#[tokio::test]
async fn a_session_hears_logs_from_its_level_up_on_the_stream_of_the_call() {
    let site = plain_site().await;
    for version in ["2025-03-26", "2025-06-18", SESSIONS] {
        let session = Hello::version(version).open(&site).await;
        assert!(session.hello["capabilities"]["logging"].is_object());
        let mut listening = session.listen().await;
        for (at, level) in LEVELS.into_iter().enumerate() {
            let answer = session
                .request("logging/setLevel", json!({"level": level}))
                .await;
            assert_eq!(answer["result"], json!({}), "{answer}");
            let (before, answer) = session
                .exchange("tools/call", json!({"name": "chatter"}))
                .await;
            assert_eq!(levels(&before), LEVELS[at..], "from {level}");
            assert_eq!(text(&answer), "said");
        }
        site.send(session.delete()).await;
        assert_eq!(listening.rest().await, [] as [Value; 0]);
    }
}

#[tokio::test]
async fn the_level_of_one_session_is_not_anothers() {
    let site = plain_site().await;
    let (loud, quiet) = (Session::open(&site).await, Session::open(&site).await);
    loud.request("logging/setLevel", json!({"level": "debug"}))
        .await;
    quiet
        .request("logging/setLevel", json!({"level": "emergency"}))
        .await;
    for (session, heard) in [(&loud, 8), (&quiet, 1), (&loud, 8)] {
        let (before, _) = session
            .exchange("tools/call", json!({"name": "chatter"}))
            .await;
        assert_eq!(before.len(), heard);
    }
}

#[tokio::test]
async fn a_2026_07_28_request_hears_logs_only_if_it_asked_and_only_on_its_own_stream() {
    let site = plain_site().await;
    let call = |level: Option<&str>| {
        let mut params = json!({"name": "chatter", "arguments": {}, "_meta": {}});
        if let Some(level) = level {
            params["_meta"][META_LEVEL] = json!(level);
        }
        Request::modern(1, "tools/call", params)
    };
    let everything = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["note://rules"]}, "_meta": {META_LEVEL: "debug"}});
    let mut listening = site
        .send(Request::modern("l", "subscriptions/listen", everything))
        .await
        .events();
    listening.message().await.unwrap();
    for (at, level) in LEVELS.into_iter().enumerate() {
        let (before, answer) = site.send(call(Some(level))).await.exchange().await;
        assert_eq!(levels(&before), LEVELS[at..]);
        assert_eq!(text(&answer), "said");
        for message in &before {
            let meta = &message["params"]["_meta"];
            assert!(meta.get("io.modelcontextprotocol/subscriptionId").is_none());
        }
        // The next one did not ask.
        let answer = site.send(call(None)).await;
        assert!(!answer.is_stream());
        assert_eq!(text(&answer.json().await), "said");
    }
    for level in ["loud", "Debug", ""] {
        let answer = site.send(call(Some(level))).await;
        assert_eq!(verdict(answer).await.1, -32602, "{level}");
    }
    let mut site = site;
    site.drain();
    for message in listening.rest().await {
        assert_ne!(message["method"], "notifications/message", "{message}");
    }
}

#[tokio::test]
async fn progress_increases_and_carries_the_token_as_it_was_given() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for token in [json!("abc"), json!(7), json!(0), json!("")] {
        let params = json!({
            "name": "walk",
            "arguments": {"steps": [0.5, 0.5, 0.25, 1, 1e300, 2, -1]},
            "_meta": {"progressToken": token},
        });
        for request in [
            session.ask("tools/call", params.clone()),
            Request::modern(1, "tools/call", params),
        ] {
            let (before, answer) = site.send(request).await.exchange().await;
            let told: Vec<_> = before
                .iter()
                .map(|message| {
                    assert_eq!(message["method"], "notifications/progress");
                    assert_eq!(message["params"]["progressToken"], token);
                    assert_eq!(message["params"]["total"], 10.0);
                    assert_eq!(message["params"]["message"], "on the way");
                    message["params"]["progress"].as_f64().unwrap()
                })
                .collect();
            assert_eq!(told, [0.5, 1.0, 1e300]);
            assert_eq!(text(&answer), "there");
        }
    }
}

#[tokio::test]
async fn without_a_token_there_is_no_progress() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for meta in [
        json!({}),
        json!({"progressToken": null}),
        json!({"token": 1}),
    ] {
        let params = json!({"name": "walk", "arguments": {"steps": [1, 2]}, "_meta": meta});
        for request in [
            session.ask("tools/call", params.clone()),
            Request::modern(1, "tools/call", params),
        ] {
            let answer = site.send(request).await;
            let body = answer.json().await;
            assert!(
                body.get("result").is_some() || body["error"]["code"] == -32602,
                "{meta} {body}"
            );
        }
    }
}

/// A tool that goes on speaking after it has returned.
fn restless(gate: Arc<Notify>, said: Arc<Notify>) -> Tool {
    Tool::new("restless", move |_: NoArguments, context: Context| {
        let (gate, said) = (Arc::clone(&gate), Arc::clone(&said));
        async move {
            context.progress(1.0, None, None).await;
            tokio::spawn(async move {
                gate.notified().await;
                context.progress(2.0, None, None).await;
                context.log(interlock::Level::Emergency, "late").await;
                let _ = context.roots("late").await;
                said.notify_one();
            });
            "returned"
        }
    })
}

#[tokio::test]
async fn nothing_is_said_after_the_end() {
    let (gate, said) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let tool = restless(Arc::clone(&gate), Arc::clone(&said));
    let server = plain().tool(tool).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Hello::version(SESSIONS)
        .capabilities(json!({"roots": {}}))
        .open(&site)
        .await;
    let mut listening = session.listen().await;
    let params = json!({"name": "restless", "_meta": {"progressToken": 1}});
    let mut events = session
        .send(session.ask("tools/call", params.clone()))
        .await
        .events();
    assert_eq!(events.message().await.unwrap()["params"]["progress"], 1.0);
    assert_eq!(text(&events.message().await.unwrap()), "returned");
    gate.notify_one();
    soon("a late word must not hang", said.notified()).await;
    assert_eq!(events.message().await, None);
    let again = session.resume(events.last_id()).await.rest().await;
    assert_eq!(again, [] as [Value; 0]);
    site.send(session.delete()).await;
    assert_eq!(listening.rest().await, [] as [Value; 0]);

    let (mut client, _connection) = connect(&server);
    client.initialize().await;
    let (before, _) = client.exchange("tools/call", params).await;
    assert_eq!(before.len(), 1);
    gate.notify_one();
    soon("a late word must not hang", said.notified()).await;
    nothing_comes(&mut client).await;
}

#[tokio::test]
async fn what_one_call_says_is_heard_on_its_own_stream_only() {
    let (tool, mut puppet) = puppet("act");
    let site = Site::open(&plain().tool(tool).build().unwrap(), HttpOptions::default()).await;
    let session = Session::open(&site).await;
    session
        .request("logging/setLevel", json!({"level": "debug"}))
        .await;
    let mut listening = session.listen().await;
    let start = |token: &str| {
        let params = json!({"name": "act", "_meta": {"progressToken": token}});
        let (web, request) = (site.web(), session.ask("tools/call", params));
        tokio::spawn(async move { web.send(request).await.exchange().await })
    };
    let one = start("one");
    let call_one = puppet.call().await;
    let two = start("two");
    let call_two = puppet.call().await;
    for step in 1..=10 {
        call_one.tell(Act::Progress(f64::from(step)));
        call_two.tell(Act::Progress(f64::from(step)));
        call_two.tell(Act::Log(interlock::Level::Info));
    }
    call_one.tell(Act::Return("one"));
    call_two.tell(Act::Return("two"));
    for (exchange, token, count) in [(one, "one", 10), (two, "two", 20)] {
        let (before, answer) = exchange.await.unwrap();
        assert_eq!(before.len(), count);
        assert!(
            before
                .iter()
                .filter_map(|m| m["params"].get("progressToken"))
                .all(|t| t == token)
        );
        assert_eq!(text(&answer), token);
    }
    site.send(session.delete()).await;
    assert_eq!(listening.rest().await, [] as [Value; 0]);
}
