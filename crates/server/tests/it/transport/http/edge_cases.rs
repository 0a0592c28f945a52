//! Corners of streams and sessions that are easily forgotten.

use crate::support::{
    http::{SESSIONS, is_served, modern_call, plain, plain_site, verdict},
    messages::{hello, request, text},
    puppet::{Act, Did, acting},
    tools::count,
};
use interlock::{Bounds, HttpOptions, Resource, Server};
use interlock_testkit::web::{Hello, Request, Session, Site};
use serde_json::{Value, json};
use std::time::Duration;

fn act(session: &Session) -> Request {
    let params = json!({"name": "act", "_meta": {"progressToken": "t"}});
    session.ask("tools/call", params)
}

#[tokio::test]
async fn hanging_up_before_anything_is_said_primes_the_client_and_tells_it_when_to_come_back() {
    let options = HttpOptions::default().retry(Duration::from_millis(1234));
    let (site, mut puppet) = acting(options).await;
    let session = Session::open(&site).await;
    let (web, post) = (site.web(), act(&session));
    let open = tokio::spawn(async move { web.send(post).await.events() });
    let call = puppet.call().await;
    call.tell(Act::HangUp);
    let mut events = open.await.unwrap();
    let first = events.event().await.unwrap();
    assert_eq!(first.data.as_deref(), Some(""));
    let mut retry = first.retry;
    while let Some(event) = events.event().await {
        retry = retry.or(event.retry);
    }
    assert_eq!(retry, Some(1234));
    call.tell(Act::Return("done"));
    let mut events = session.resume(events.last_id()).await;
    assert_eq!(text(&events.message().await.unwrap()), "done");
    assert_eq!(events.message().await, None);
}

#[tokio::test]
async fn a_question_that_was_asked_while_the_client_was_away_is_asked_when_it_comes_back() {
    let (site, mut puppet) = acting(HttpOptions::default().patience(Duration::ZERO)).await;
    let session = Hello::version(SESSIONS)
        .capabilities(json!({"elicitation": {}}))
        .open(&site)
        .await;
    let mut events = session.send(act(&session)).await.events();
    let mut call = puppet.call().await;
    events.event().await.unwrap();
    let primed = events.last_id().to_owned();
    drop(events);
    call.tell(Act::Age);
    let mut events = session.resume(&primed).await;
    let question = events.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    // It may come once more after another break, with the same id, and is answered once.
    drop(events);
    let mut events = session.resume(&primed).await;
    assert_eq!(events.message().await.unwrap(), question);
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    session.tell(&answer).await;
    assert_eq!(call.did().await, Did::Asked(Ok("None".to_owned())));
    call.tell(Act::Return("done"));
    assert_eq!(text(&events.message().await.unwrap()), "done");
}

#[tokio::test]
async fn the_answer_is_there_however_much_was_said_while_the_client_was_away() {
    let (site, mut puppet) = acting(HttpOptions::default().patience(Duration::ZERO)).await;
    let session = Session::open(&site).await;
    let mut events = session.send(act(&session)).await.events();
    let mut call = puppet.call().await;
    events.event().await.unwrap();
    let primed = events.last_id().to_owned();
    drop(events);
    for step in 1..=2000 {
        call.make(Act::Progress(f64::from(step))).await;
    }
    call.tell(Act::Return("done"));
    let mut messages = session.resume(&primed).await.rest().await;
    assert_eq!(text(&messages.pop().unwrap()), "done");
    let steps: Vec<_> = messages
        .iter()
        .map(|m| m["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(steps.is_sorted(), "{steps:?}");
    assert!(messages.len() <= 2000);
}

#[tokio::test]
async fn text_that_looks_like_events_is_text() {
    let site = Site::open(
        &plain().build().unwrap(),
        HttpOptions::default().patience(Duration::ZERO),
    )
    .await;
    let session = Session::open(&site).await;
    let nasty = "a\n\ndata: {}\r\nid: 7\r\r\n: x\n\u{2028}\u{85}\0event: endpoint\n\n";
    for request in [
        session.tool("echo", json!({"text": nasty})),
        modern_call(1, "echo", json!({"text": nasty})),
    ] {
        let (before, answer) = site.send(request).await.exchange().await;
        assert_eq!(before, [] as [Value; 0]);
        assert_eq!(text(&answer), nasty);
    }
}

#[tokio::test]
async fn streamable_http_counter_offers_a_version_that_has_it_or_serves_the_old_one() {
    let site = plain_site().await;
    for version in ["2024-11-05", "2099-01-01", "1.0", "2026-07-28"] {
        let answer = site.send(Hello::version(version).request()).await;
        let id = answer.header("mcp-session-id").map(str::to_owned);
        let answer = answer.message().await;
        if answer.get("error").is_some() {
            assert_eq!(id, None, "{answer}");
            assert_eq!(answer["error"]["code"], -32602, "{version} {answer}");
            continue;
        }
        let agreed = answer["result"]["protocolVersion"].as_str().unwrap();
        assert_ne!(agreed, "2026-07-28", "that version has no handshake");
        let ping = Request::post(&request(1, "ping", json!({})));
        let ping = ping.header("mcp-session-id", &id.unwrap());
        assert_eq!(site.send(ping).await.json().await["result"], json!({}));
    }
}

#[tokio::test]
async fn the_version_header_of_initialize_is_looked_at() {
    let site = plain_site().await;
    let hello = || Hello::version(SESSIONS).request();
    for version in ["2025-06-18", SESSIONS] {
        assert_eq!(
            site.send(hello().header("mcp-protocol-version", version))
                .await
                .status,
            200
        );
    }
    assert_eq!(
        site.send(hello().header("mcp-protocol-version", "nonsense"))
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn a_session_has_so_many_subscriptions_and_no_more() {
    let server = (0..4).fold(Server::builder("many", "1"), |server, n| {
        server.resource(Resource::text(format!("note://{n}"), "x"))
    });
    let bounds = Bounds {
        subscriptions: 2,
        ..Bounds::default()
    };
    let server = server.bounds(bounds).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let subscribe = async |n: u32| {
        session
            .request("resources/subscribe", json!({"uri": format!("note://{n}")}))
            .await
    };
    for n in [0, 1, 1] {
        assert_eq!(subscribe(n).await["result"], json!({}));
    }
    let answer = subscribe(2).await;
    assert!(
        answer["error"]["data"]["refusal"]["code"].is_i64(),
        "{answer}"
    );
    session
        .request("resources/unsubscribe", json!({"uri": "note://0"}))
        .await;
    assert_eq!(subscribe(2).await["result"], json!({}));
    let all = json!({"notifications": {"resourceSubscriptions": ["note://0", "note://1", "note://2", "note://3"]}});
    let answer = site
        .send(Request::modern(1, "subscriptions/listen", all))
        .await;
    if answer.is_stream() {
        let agreed = answer.events().message().await.unwrap();
        let agreed = agreed["params"]["notifications"]["resourceSubscriptions"]
            .as_array()
            .unwrap()
            .len();
        assert!(agreed <= 2, "{agreed}");
    } else {
        assert!(verdict(answer).await.2.is_some());
    }
}

#[tokio::test]
async fn what_a_session_remembers_is_its_own_and_2026_07_28_remembers_nothing() {
    let site = Site::open(
        &plain().tool(count()).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let (one, two) = (Session::open(&site).await, Session::open(&site).await);
    let said = |result: Value| result["content"][0]["text"].clone();
    assert_eq!(said(one.call("count", json!({})).await), "1");
    assert_eq!(said(one.call("count", json!({})).await), "2");
    assert_eq!(said(two.call("count", json!({})).await), "1");
    let answer = site
        .send(modern_call(1, "count", json!({})).header("mcp-session-id", &one.id))
        .await;
    assert_eq!(answer.json().await["result"]["isError"], true);
    assert_eq!(said(one.call("count", json!({})).await), "3");
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_its_body_has_asked_nothing() {
    let (site, mut puppet) = acting(HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let body = request(1, "tools/call", json!({"name": "act"})).to_string();
    for sent in [0, 1, body.len() / 2, body.len() - 1] {
        let mut raw = site.web().raw().await;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nmcp-session-id: {}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{}",
            site.web().address(),
            session.id,
            body.len(),
            &body[..sent],
        );
        raw.send(head).await;
    }
    is_served(&session).await;
    assert!(puppet.is_quiet());
}

#[tokio::test]
async fn a_panic_before_anything_is_said_is_a_plain_answer() {
    let (site, mut puppet) = acting(HttpOptions::default()).await;
    let session = Session::open(&site).await;
    for request in [act(&session), modern_call(1, "act", json!({}))] {
        let web = site.web();
        let open = tokio::spawn(async move { web.send(request).await });
        puppet.call().await.tell(Act::Panic);
        let answer = open.await.unwrap();
        assert_eq!((answer.status, answer.is_stream()), (200, false));
        let answer = answer.json().await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(
            !answer.to_string().contains("on purpose"),
            "a panic's words are not the client's: {answer}"
        );
    }
}

#[tokio::test]
async fn a_second_client_with_the_same_name_is_another() {
    let site = plain_site().await;
    let (one, two) = (Session::open(&site).await, Session::open(&site).await);
    site.send(one.delete()).await;
    is_served(&two).await;
    let again = site
        .send(one.post(&request(9, "initialize", hello(SESSIONS))))
        .await;
    assert_eq!(
        again.status, 404,
        "a new session begins without the old one's id"
    );
}

#[tokio::test]
async fn a_session_is_named_once_and_exactly() {
    let site = plain_site().await;
    let (one, two) = (Session::open(&site).await, Session::open(&site).await);
    let status = async |request| site.send(request).await.status;
    let both = one.ask("ping", json!({})).also("mcp-session-id", &two.id);
    assert_eq!(status(both).await, 400);
    let twice = one.ask("ping", json!({})).also("mcp-session-id", &one.id);
    assert!([200, 400].contains(&status(twice).await));
    for id in [
        String::new(),
        one.id.to_uppercase(),
        format!("{} ", &one.id[..one.id.len() - 1]),
        format!("{},{}", one.id, two.id),
        format!("\"{}\"", one.id),
    ] {
        if id != one.id {
            let named = one.ask("ping", json!({})).header("mcp-session-id", &id);
            assert!([400, 404].contains(&status(named).await), "{id:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_too_deep_or_has_too_long_an_id_is_refused() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = "x".repeat(100_000);
    for body in [
        deep.clone(),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{deep}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"ping"}}"#),
    ] {
        for request in [
            session.ask("ping", json!({})),
            Request::modern(1, "tools/list", json!({})),
        ] {
            let answer = site.send(request.body(body.clone())).await;
            assert_eq!(answer.status, 400, "{}", &body[..60]);
            let body = answer.json().await;
            assert!(body["error"]["code"].is_i64(), "{body}");
            assert!(body.to_string().len() < 2000, "it is not repeated");
        }
    }
    is_served(&session).await;
}
