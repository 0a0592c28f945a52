//! One connection for many requests: HTTP/2, keep-alive and pipelines.

use crate::support::{
    http::{SESSIONS, modern_call, plain, plain_site},
    messages::{request, text},
    puppet::{Act, Did, puppet},
};
use interlock::HttpOptions;
use interlock_testkit::web::{Hello, Request, Session, Site};
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn a_thousand_requests_at_once_on_one_connection_get_their_own_answers() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let line = Arc::new(site.web().line().await);
    let mut open = Vec::new();
    for n in 0..1000 {
        let arguments = json!({"text": n.to_string()});
        let post = if n % 2 == 0 {
            session.post(&request(
                n,
                "tools/call",
                json!({"name": "echo", "arguments": arguments}),
            ))
        } else {
            modern_call(n, "echo", arguments)
        };
        let line = Arc::clone(&line);
        open.push(tokio::spawn(async move {
            line.send(post).await.message().await
        }));
    }
    for (n, answer) in open.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        assert_eq!(answer["id"], n);
        assert_eq!(text(&answer), n.to_string());
    }
}

#[tokio::test]
async fn sessions_and_streams_are_the_same_over_http_2() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let line = site.web().line().await;
    let answer = line.send(Hello::version(SESSIONS).request()).await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("mcp-session-id").is_some());
    let session = Session::open(&site).await;
    let mut listening = line.send(session.get()).await.events();
    let subscribe = session.ask("resources/subscribe", json!({"uri": "note://rules"}));
    assert_eq!(line.send(subscribe).await.json().await["result"], json!({}));
    server.resource_updated("note://rules");
    let heard = listening.message().await.unwrap();
    assert_eq!(heard["params"]["uri"], "note://rules");
    let params =
        json!({"name": "walk", "arguments": {"steps": [1, 2]}, "_meta": {"progressToken": 1}});
    let (before, answer) = line
        .send(session.ask("tools/call", params))
        .await
        .exchange()
        .await;
    assert_eq!((before.len(), text(&answer)), (2, "there"));
    assert!([200, 202, 204].contains(&line.send(session.delete()).await.status));
    assert_eq!(listening.message().await, None);
    assert_eq!(line.send(session.ask("ping", json!({}))).await.status, 404);
}

#[tokio::test]
async fn dropping_one_request_cancels_it_on_2026_07_28_and_no_other() {
    let (tool, mut puppet) = puppet("act");
    let site = Site::open(&plain().tool(tool).build().unwrap(), HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let line = Arc::new(site.web().line().await);
    let begin = |request: Request| {
        let line = Arc::clone(&line);
        tokio::spawn(async move { line.send(request).await.message().await })
    };
    let dropped = begin(modern_call(1, "act", json!({})));
    let mut first = puppet.call().await;
    let kept = begin(modern_call(2, "act", json!({})));
    let mut second = puppet.call().await;
    let old = begin(session.tool("act", json!({})));
    let mut third = puppet.call().await;
    dropped.abort();
    old.abort();
    assert_eq!(first.did().await, Did::Stopped);
    for call in [&mut second, &mut third] {
        assert_eq!(call.make(Act::Log(interlock::Level::Debug)).await, Did::Act);
        call.tell(Act::Return("done"));
    }
    assert_eq!(text(&kept.await.unwrap()), "done");
}

#[tokio::test]
async fn hosts_and_pages_are_looked_at_over_http_2() {
    let site = plain_site().await;
    let line = site.web().line().await;
    let discover = || Request::modern(1, "server/discover", json!({}));
    assert_eq!(line.send(discover()).await.status, 200);
    assert_eq!(
        line.send(discover().header("host", "localhost:99"))
            .await
            .status,
        200
    );
    let answer = line.send(discover().header("host", "evil.example")).await;
    assert!([400, 403, 421].contains(&answer.status), "{answer:?}");
    let answer = line
        .send(discover().header("origin", "https://evil.example"))
        .await;
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn a_site_that_stops_lets_streams_on_one_connection_end() {
    let (tool, mut puppet) = puppet("act");
    let mut site = Site::open(&plain().tool(tool).build().unwrap(), HttpOptions::default()).await;
    let line = site.web().line().await;
    let params = json!({"notifications": {}});
    let mut listening = line
        .send(Request::modern(1, "subscriptions/listen", params))
        .await
        .events();
    listening.message().await.unwrap();
    let running = tokio::spawn({
        let (web, request) = (site.web(), modern_call(1, "act", json!({})));
        async move { web.line().await.send(request).await.message().await }
    });
    let call = puppet.call().await;
    site.drain();
    assert_eq!(listening.rest().await.len(), 2);
    call.tell(Act::Return("done"));
    assert_eq!(text(&running.await.unwrap()), "done");
    drop(line);
    site.ended().await;
}

fn written(site: &Site, session: &Session, id: i64, more: &str) -> String {
    let body = request(id, "ping", json!({})).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nmcp-session-id: {}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n{body}",
        site.web().address(),
        session.id,
        body.len(),
    )
}

#[tokio::test]
async fn requests_in_a_pipeline_are_answered_in_order() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let mut raw = site.web().raw().await;
    let all: String = (1..=20)
        .map(|id| written(&site, &session, id, ""))
        .collect();
    raw.send(all).await;
    let answers = raw.until("\"id\":20,\"result\":{}}").await;
    let at: Vec<_> = (1..=20)
        .map(|id| answers.find(&format!("\"id\":{id},")))
        .collect();
    assert!(at.iter().all(Option::is_some), "{answers}");
    assert!(at.is_sorted(), "{answers}");
}

#[tokio::test]
async fn a_client_may_ask_before_it_sends_its_body() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let whole = written(&site, &session, 1, "expect: 100-continue\r\n");
    let (head, body) = whole.split_once("\r\n\r\n").unwrap();
    let mut raw = site.web().raw().await;
    raw.send(format!("{head}\r\n\r\n")).await;
    let first = raw.until("\r\n\r\n").await;
    assert!(first.starts_with("HTTP/1.1 100"), "{first}");
    raw.send(body).await;
    let answer = raw.until("\"result\":{}}").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_connection_goes_on_after_a_refusal() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let mut raw = site.web().raw().await;
    let refused = written(&site, &session, 1, "").replace("\"ping\"", "\"pong\"");
    raw.send(refused).await;
    assert!(raw.until("}}}").await.contains("-32601"));
    let refused =
        written(&site, &session, 2, "").replace(&session.id, &"0".repeat(session.id.len()));
    raw.send(refused).await;
    assert!(raw.until("}}}").await.starts_with("HTTP/1.1 404"));
    raw.send(written(&site, &session, 3, "")).await;
    assert!(
        raw.until("\"result\":{}}")
            .await
            .starts_with("HTTP/1.1 200")
    );
}
