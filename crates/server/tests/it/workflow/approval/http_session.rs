//! A person's yes before a call runs, over an HTTP session: asked on the stream of the call, answered
//! by a POST of its own.

use crate::support::{
    http::SESSIONS,
    messages::{at, refusal},
    refund::{history, refund_with},
    tools::echo,
};
use interlock::{HttpOptions, Server, journal::Entry, workflow::Scope};
use interlock_testkit::{
    ManualClock,
    web::{Events, Hello, Session, Site},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// A site, and a session of a client of this version that knows forms, on its way to the refund.
async fn ready(server: &Server, version: &str) -> (Site, Session, String) {
    let site = Site::open(server, HttpOptions::default()).await;
    let hello = Hello::version(version).capabilities(json!({"elicitation": {}}));
    let session = hello.open(&site).await;
    let found = session.call("lookup", json!({"order": "A-1"})).await;
    assert_eq!(at(&found), "found", "{found}");
    let instance = &found["_meta"]["dev.interlock/workflow"]["instance"];
    let instance = instance.as_str().unwrap().to_owned();
    (site, session, instance)
}

/// Asks for a refund: the stream of the call, and the question on it.
async fn asked(session: &Session) -> (Events, Value) {
    let request = session.tool("refund", json!({"amount": 5}));
    let mut events = session.send(request).await.events();
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (events, question)
}

async fn says(session: &Session, question: &Value, action: &str) {
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": action}});
    session.tell(&answer).await;
}

/// The rest of the stream: what came before the result, and the result.
async fn result(mut events: Events) -> (Vec<Value>, Value) {
    let mut rest = events.rest().await;
    let mut answer = rest.pop().unwrap();
    (rest, answer["result"].take())
}

/// What the journal says, word by word, and that it leads to where the instance stands.
async fn told(server: &Server, instance: &str) -> Vec<String> {
    let history = history(&server.operator(), instance).await;
    let word = |entry: &Entry| serde_json::to_value(entry).unwrap()["what"].take();
    let words = history.iter().map(word);
    words
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_session_is_asked_on_the_stream_of_its_call_and_its_yes_lets_the_call_run() {
    for version in ["2025-06-18", SESSIONS] {
        let server = refund_with(echo("refund"), Scope::Session).build().unwrap();
        let (_site, session, instance) = ready(&server, version).await;
        let (events, question) = asked(&session).await;
        assert_eq!(question["params"]["message"], "Refund 5 for A-1?");
        let nothing = json!({"type": "object", "properties": {}});
        assert_eq!(question["params"]["requestedSchema"], nothing);
        assert_eq!(told(&server, &instance).await, ["started", "step", "asked"]);
        says(&session, &question, "accept").await;
        let (before, paid) = result(events).await;
        let before: Vec<_> = before.iter().map(|one| &one["method"]).collect();
        assert_eq!(before, ["notifications/tools/list_changed"]);
        assert_eq!(paid["isError"], false, "{paid}");
        assert_eq!(paid["structuredContent"], json!({"amount": 5}));
        assert_eq!(at(&paid), "new");
        assert_eq!(
            told(&server, &instance).await,
            ["started", "step", "asked", "approved", "step"]
        );
        // A yes is good for once, and saying it again changes nothing.
        says(&session, &question, "accept").await;
        session.call("lookup", json!({"order": "A-1"})).await;
        let (events, question) = asked(&session).await;
        says(&session, &question, "decline").await;
        let (before, refused) = result(events).await;
        assert_eq!(before, [] as [Value; 0]);
        assert_eq!(refusal(&refused), 1083, "{refused}");
        assert_eq!(at(&refused), "found");
    }
}

#[tokio::test]
async fn a_question_that_a_session_never_answers_ends_after_its_time_and_is_taken_back() {
    let clock = Arc::new(ManualClock::new());
    let server = refund_with(echo("refund"), Scope::Session);
    let server = server.clock(Arc::clone(&clock) as _).build().unwrap();
    let (_site, session, instance) = ready(&server, SESSIONS).await;
    let (mut events, question) = asked(&session).await;
    clock.advance(Duration::from_secs(9 * 60 + 59));
    for _ in 0..5 {
        let pong = session.request("ping", json!({})).await;
        assert_eq!(pong["result"], json!({}));
    }
    let asked_only = ["started", "step", "asked"];
    assert_eq!(told(&server, &instance).await, asked_only);
    clock.advance(Duration::from_secs(1));
    let withdrawn = events.message().await.unwrap();
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let (before, refused) = result(events).await;
    assert_eq!(before, [] as [Value; 0]);
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(refusal(&refused), 1083, "{refused}");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("in time"), "{text}");
    assert_eq!(at(&refused), "found");
    let denied = ["started", "step", "asked", "denied"];
    assert_eq!(told(&server, &instance).await, denied);
    // What comes too late is heard by nobody, and the next call works.
    says(&session, &question, "accept").await;
    assert_eq!(told(&server, &instance).await, denied);
    assert_eq!(at(&session.call("back", json!({})).await), "new");
}
