//! A site that is told to stop.

use crate::support::{
    http::{is_served, modern_call, plain},
    messages::{codes, refusal, text},
    puppet::{Act, Did, Puppet, acting_on, begin_all},
};
use interlock::{HttpOptions, Rules};
use interlock_testkit::{
    soon,
    web::{Request, Session, Site},
};
use serde_json::{Value, json};
use std::time::Duration;

async fn acting(options: HttpOptions, drain: Duration) -> (Site, Puppet) {
    let rules = Rules {
        drain,
        ..Rules::default()
    };
    acting_on(plain().connections(rules), options).await
}

/// Tells the site to stop, and waits until it takes nothing new.
async fn stop(site: &mut Site, session: &Session) {
    site.drain();
    let refused = async {
        while let Ok(answer) = site.web().try_send(session.ask("ping", json!({}))).await {
            let body = answer.json().await;
            if body.get("error").is_some() {
                assert_eq!(codes(&body).1, 1077, "{body}");
                return;
            }
        }
    };
    soon("the site must take nothing new", refused).await;
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_site_with_nothing_to_do_closes_at_once() {
    let (mut site, _) = acting(HttpOptions::default(), LONG).await;
    let session = Session::open(&site).await;
    is_served(&session).await;
    // A connection that is open and silent holds nothing up.
    let mut idle = site.web().raw().await;
    let head = format!(
        "GET /mcp HTTP/1.1\r\nhost: {}\r\n\r\n",
        site.web().address()
    );
    idle.send(head).await;
    idle.until("\r\n\r\n").await;
    site.drain();
    site.ended().await;
    idle.rest().await;
}

#[tokio::test]
async fn what_runs_may_end_and_nothing_new_is_taken() {
    for patience in [Duration::ZERO, LONG] {
        let (mut site, mut puppet) = acting(HttpOptions::default().patience(patience), LONG).await;
        let session = Session::open(&site).await;
        let requests = [
            session.tool("act", json!({})),
            modern_call(1, "act", json!({})),
        ];
        let (open, calls) = begin_all(&site, &mut puppet, requests).await;
        let mut listening = session.listen().await;
        stop(&mut site, &session).await;
        for request in [
            session.ask("ping", json!({})),
            session.tool("act", json!({})),
            interlock_testkit::web::Hello::version("2025-11-25").request(),
            modern_call(2, "act", json!({})),
            Request::modern(2, "subscriptions/listen", json!({"notifications": {}})),
        ] {
            match site.web().try_send(request).await {
                // Nobody answers the door.
                Err(_) => {}
                Ok(answer) => {
                    let body = answer.json().await;
                    assert_eq!(codes(&body).1, 1077, "{body}");
                }
            }
        }
        assert!(puppet.is_quiet());
        for call in &calls {
            call.tell(Act::Return("done"));
        }
        for answer in open {
            assert_eq!(text(&answer.await.unwrap()), "done");
        }
        assert_eq!(listening.message().await, None);
        site.ended().await;
    }
}

#[tokio::test]
async fn new_requests_on_a_connection_that_is_open_are_refused() {
    let (mut site, mut puppet) = acting(HttpOptions::default(), LONG).await;
    let session = Session::open(&site).await;
    let (web, request) = (site.web(), session.tool("act", json!({})));
    let open = tokio::spawn(async move { web.send(request).await.message().await });
    let call = puppet.call().await;
    let body = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"act"}}"#;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nmcp-session-id: {}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        site.web().address(),
        session.id,
        body.len(),
    );
    // Its head has come, so it is a request in the making when the site is told to stop.
    let mut raw = site.web().raw().await;
    raw.send(&head[..head.len() - 2]).await;
    stop(&mut site, &session).await;
    let _ = raw.try_send(&head[head.len() - 2..]).await;
    let _ = raw.try_send(body).await;
    let answer = raw.until("}}}").await;
    assert!(answer.is_empty() || answer.contains("1077"), "{answer}");
    assert!(puppet.is_quiet());
    call.tell(Act::Return("done"));
    assert_eq!(text(&open.await.unwrap()), "done");
    drop(raw);
    site.ended().await;
}

#[tokio::test]
async fn streams_are_closed_both_ways() {
    let (mut site, _) = acting(HttpOptions::default(), LONG).await;
    let session = Session::open(&site).await;
    let mut listening = session.listen().await;
    let params = json!({"notifications": {"resourceSubscriptions": ["note://rules"]}});
    let mut modern = site
        .send(Request::modern("m", "subscriptions/listen", params))
        .await
        .events();
    modern.message().await.unwrap();
    site.drain();
    let rest = modern.rest().await;
    let methods: Vec<_> = rest
        .iter()
        .map(|message| message["method"].as_str())
        .collect();
    assert_eq!(methods, [Some("notifications/cancelled"), None], "{rest:?}");
    assert_eq!(rest[1]["result"]["resultType"], "complete", "{rest:?}");
    assert_eq!(listening.rest().await, [] as [Value; 0]);
    site.ended().await;
}

#[tokio::test]
async fn what_does_not_end_in_time_is_torn_down_and_answered_where_it_can_be() {
    for patience in [Duration::ZERO, LONG] {
        let options = HttpOptions::default().patience(patience);
        let (mut site, mut puppet) = acting(options, Duration::from_millis(50)).await;
        let session = Session::open(&site).await;
        let requests = [
            session.tool("act", json!({})),
            modern_call(1, "act", json!({})),
        ];
        let (open, calls) = begin_all(&site, &mut puppet, requests).await;
        site.drain();
        for answer in open {
            let answer = answer.await.expect("a client must be answered");
            assert_eq!(refusal(&answer["result"]), 1077, "{answer}");
        }
        site.ended().await;
        for mut call in calls {
            while call.did().await != Did::Gone {}
        }
    }
}

#[tokio::test]
async fn a_client_that_stalls_cannot_keep_the_site_from_closing() {
    let (mut site, _) = acting(HttpOptions::default(), Duration::from_millis(50)).await;
    let mut stalled = site.web().raw().await;
    stalled
        .send("POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99\r\n")
        .await;
    let mut half = site.web().raw().await;
    let head = "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    half.send(head).await;
    Session::open(&site).await;
    site.drain();
    site.ended().await;
}
