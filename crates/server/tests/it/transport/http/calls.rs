//! Calls in sessions over HTTP: taken back, with one id, a thousand at once.

use crate::support::{
    desk::desk,
    held::{OnCancel, held},
    http::{is_served, modern_call, plain},
    messages::{codes, notification, request, text},
    puppet::{Act, Did, puppet},
    tools::tool,
};
use interlock::HttpOptions;
use interlock_testkit::{
    ManualClock, soon,
    web::{Request, Session, Site},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

fn call(id: impl Into<Value>, tool: &str) -> Value {
    request(id, "tools/call", json!({"name": tool}))
}

async fn state(session: &Session) -> String {
    let result = session.call("nowhere", json!({})).await;
    let state = &result["_meta"]["dev.interlock/refusal"]["state"];
    state
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
        .to_owned()
}

/// Whatever a POST that was taken back ends with, it is no JSON-RPC response.
async fn ends_without_a_response(answer: interlock_testkit::web::Answer) {
    assert!((200..300).contains(&answer.status), "{answer:?}");
    if answer.is_stream() {
        for message in answer.events().rest().await {
            assert!(message.get("id").is_none(), "{message}");
        }
    } else {
        assert_eq!(answer.bytes().await, b"");
    }
}

#[tokio::test]
async fn a_call_that_is_taken_back_ends_its_post_without_a_response() {
    for patience in [Duration::from_secs(3), Duration::ZERO] {
        let (work, mut held) = held("work", OnCancel::Stops);
        let server = desk(work).build().unwrap();
        let site = Site::open(&server, HttpOptions::default().patience(patience)).await;
        let session = Session::open(&site).await;
        let (web, post) = (site.web(), session.post(&call(900, "work")));
        let open = tokio::spawn(async move { ends_without_a_response(web.send(post).await).await });
        held.started().await;
        session
            .notify("notifications/cancelled", json!({"requestId": 900}))
            .await;
        held.stopped().await;
        soon("the POST must end", open).await.unwrap();
        assert_eq!(state(&session).await, "back");
    }
}

#[tokio::test]
async fn a_handler_that_takes_no_notice_is_torn_down_and_its_post_ends() {
    let clock = Arc::new(ManualClock::new());
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let server = desk(work).clock(clock.clone()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let (web, post) = (site.web(), session.post(&call(900, "work")));
    let open = tokio::spawn(async move { ends_without_a_response(web.send(post).await).await });
    held.started().await;
    session
        .notify("notifications/cancelled", json!({"requestId": 900}))
        .await;
    // The handler may take its grace, but not a moment more.
    while state(&session).await != "unclear" {
        clock.advance(Duration::from_millis(100));
    }
    soon("the POST must end", open).await.unwrap();
}

#[tokio::test]
async fn a_cancellation_that_crosses_its_response_does_no_harm() {
    let server = desk(tool("work")).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    for _ in 0..5 {
        let answer = session.send(session.post(&call(900, "search"))).await;
        assert_eq!(text(&answer.message().await), "search is done");
        session
            .notify("notifications/cancelled", json!({"requestId": 900}))
            .await;
    }
    // Sent at once, either comes first; a response or none, and never a second.
    for id in 0..20 {
        let (web, post) = (site.web(), session.post(&call(id, "search")));
        let open = tokio::spawn(async move { web.send(post).await });
        session
            .notify("notifications/cancelled", json!({"requestId": id}))
            .await;
        let answer = open.await.unwrap();
        assert!((200..300).contains(&answer.status));
        let body = answer.bytes().await;
        assert!(body.is_empty() || body.windows(14).any(|w| w == b"search is done"));
    }
    is_served(&session).await;
}

#[tokio::test]
async fn a_call_of_another_session_cannot_be_taken_back() {
    let (tool, mut puppet) = puppet("act");
    let site = Site::open(&plain().tool(tool).build().unwrap(), HttpOptions::default()).await;
    let (mine, other) = (Session::open(&site).await, Session::open(&site).await);
    let (web, post) = (site.web(), mine.post(&call(900, "act")));
    let open = tokio::spawn(async move { web.send(post).await.message().await });
    let mut running = puppet.call().await;
    other
        .notify("notifications/cancelled", json!({"requestId": 900}))
        .await;
    // Nor by somebody without a session.
    let loose = Request::post(&notification(
        "notifications/cancelled",
        json!({"requestId": 900}),
    ));
    site.send(loose.header("mcp-protocol-version", "2026-07-28"))
        .await;
    assert_eq!(
        running.make(Act::Log(interlock::Level::Debug)).await,
        Did::Act
    );
    running.tell(Act::Return("done"));
    assert_eq!(text(&open.await.unwrap()), "done");
}

#[tokio::test]
async fn a_second_post_with_an_id_in_flight_is_refused_and_the_first_is_answered() {
    let (work, mut held) = held("work", OnCancel::GoesOn);
    let site = Site::open(&desk(work).build().unwrap(), HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let (web, post) = (site.web(), session.post(&call(900, "work")));
    let open = tokio::spawn(async move { web.send(post).await.exchange().await });
    held.started().await;
    for method in ["ping", "tools/list", "tools/call", "nobody/knows"] {
        let second = request(900, method, json!({"name": "search"}));
        let answer = session.send(session.post(&second)).await.message().await;
        assert_eq!(answer["id"], 900, "{answer}");
        assert_eq!(codes(&answer), (-32600, 1052), "{answer}");
    }
    let answer = session
        .send(session.post(&request("900", "ping", json!({}))))
        .await;
    assert_eq!(
        answer.json().await["result"],
        json!({}),
        "a string is another id"
    );
    held.let_go(1);
    let (_, answer) = open.await.unwrap();
    assert_eq!(text(&answer), "done");
    assert!(held.is_quiet());
    // Now it is free again.
    let answer = session.send(session.post(&call(900, "search"))).await;
    assert_eq!(text(&answer.message().await), "search is done");
}

#[tokio::test]
async fn ids_of_two_sessions_and_of_2026_07_28_never_clash() {
    let (tool, mut puppet) = puppet("act");
    let site = Site::open(&plain().tool(tool).build().unwrap(), HttpOptions::default()).await;
    let (one, two) = (Session::open(&site).await, Session::open(&site).await);
    let mut open = Vec::new();
    let mut running = Vec::new();
    for post in [
        one.post(&call(5, "act")),
        two.post(&call(5, "act")),
        modern_call(5, "act", json!({})),
        modern_call(5, "act", json!({})),
        modern_call(5, "act", json!({})).header("mcp-session-id", &one.id),
    ] {
        let web = site.web();
        open.push(tokio::spawn(
            async move { web.send(post).await.message().await },
        ));
        running.push(puppet.call().await);
    }
    let texts = ["a", "b", "c", "d", "e"];
    for (call, text) in running.iter().zip(texts) {
        call.tell(Act::Return(text));
    }
    for (answer, said) in open.into_iter().zip(texts) {
        let answer = answer.await.unwrap();
        assert_eq!((answer["id"].as_i64(), text(&answer)), (Some(5), said));
    }
}

#[tokio::test]
async fn a_thousand_requests_at_once_get_their_own_answers() {
    let site = Site::open(&plain().build().unwrap(), HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let mut open = Vec::new();
    for n in 0..1000 {
        let web = site.web();
        let post = if n % 2 == 0 {
            session.post(&request(
                n,
                "tools/call",
                json!({"name": "echo", "arguments": {"text": n.to_string()}}),
            ))
        } else {
            modern_call(n, "echo", json!({"text": n.to_string()}))
        };
        open.push(tokio::spawn(
            async move { web.send(post).await.message().await },
        ));
    }
    for (n, answer) in open.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        assert_eq!(answer["id"], n);
        assert_eq!(text(&answer), n.to_string());
    }
}

#[tokio::test]
async fn a_session_ended_while_it_calls_lets_nobody_wait() {
    let (tool, mut puppet) = puppet("act");
    let site = Site::open(&plain().tool(tool).build().unwrap(), HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let (web, post) = (site.web(), session.tool("act", json!({})));
    let open =
        tokio::spawn(async move { web.try_send(post).await.map(|answer| answer.status).ok() });
    let mut listening = session.listen().await;
    let mut running = puppet.call().await;
    let answer = site.send(session.delete()).await;
    assert!((200..300).contains(&answer.status));
    assert_eq!(site.send(session.ask("ping", json!({}))).await.status, 404);
    // Whether the call was stopped or may end, nothing is left waiting after it.
    running.tell(Act::Return("done"));
    let _ = running.did().await;
    soon("the POST must end", open).await.unwrap();
    assert_eq!(listening.message().await, None);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_finds_its_work_done() {
    for patience in [Duration::from_secs(3), Duration::ZERO] {
        let (work, mut held) = held("work", OnCancel::Stops);
        let server = desk(work).build().unwrap();
        let site = Site::open(&server, HttpOptions::default().patience(patience)).await;
        let session = Session::open(&site).await;
        let (web, post) = (site.web(), session.tool("work", json!({})));
        let open = tokio::spawn(async move { web.send(post).await.message().await });
        held.started().await;
        open.abort();
        let _ = open.await;
        // While it runs, others of the session wait for their turn or do what needs none.
        is_served(&session).await;
        held.let_go(1);
        let done = async { while state(&session).await != "done" {} };
        soon("the work must be done", done).await;
    }
}
