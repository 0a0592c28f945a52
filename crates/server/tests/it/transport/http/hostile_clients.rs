//! Clients that are slow, greedy or somebody else's page.

use crate::support::{
    client::quiesce,
    http::{SESSIONS, is_served, plain, plain_site},
    messages::text,
};
use futures_util::future::join_all;
use interlock::{AllowedHosts, Context, HttpOptions, NoArguments, Tool};
use interlock_testkit::{
    soon,
    web::{Hello, Raw, Request, Session, Site},
};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

async fn is_alive(site: &Site) {
    let answer = site
        .send(Request::modern(1, "server/discover", json!({})))
        .await;
    assert_eq!(answer.status, 200);
}

/// What comes back is an error or nothing, and the connection is closed.
async fn is_turned_away(raw: &mut Raw, what: &str) {
    let answer = raw.rest().await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{what}: {answer}"
    );
}

/// Long enough for any client of ours on a busy machine; those that stall do so side by side.
async fn hasty() -> Site {
    let short = Duration::from_millis(500);
    let options = HttpOptions::default().request_timeouts(short, short);
    Site::open(&plain().build().unwrap(), options).await
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_headers_is_let_go() {
    let site = hasty().await;
    let stalls = [
        "",
        "P",
        "POST /mcp HTTP/1.1\r\n",
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ",
    ];
    join_all(stalls.map(async |start| {
        let mut raw = site.web().raw().await;
        raw.send(start).await;
        is_turned_away(&mut raw, start).await;
    }))
    .await;
    is_alive(&site).await;
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_body_is_let_go() {
    let site = hasty().await;
    let session = Session::open(&site).await;
    let stalls = [
        ("content-length: 100", ""),
        ("content-length: 100", "{\"jsonrpc\":"),
        ("transfer-encoding: chunked", ""),
        ("transfer-encoding: chunked", "5\r\n{\"jso\r\n"),
        ("transfer-encoding: chunked", "ffff\r\n{"),
    ];
    join_all(stalls.map(async |(length, start)| {
        let mut raw = site.web().raw().await;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nmcp-session-id: {}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n{length}\r\n\r\n{start}",
            session.id,
        );
        raw.send(head).await;
        let answer = raw.rest().await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
            "{answer}"
        );
    }))
    .await;
    is_served(&session).await;
}

#[tokio::test]
async fn a_hundred_stalled_clients_do_not_keep_one_out() {
    let site = plain_site().await;
    let mut stalled = Vec::new();
    for _ in 0..100 {
        let mut raw = site.web().raw().await;
        raw.send("POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 5\r\n")
            .await;
        stalled.push(raw);
    }
    is_alive(&site).await;
}

#[tokio::test]
async fn what_is_no_http_is_turned_away() {
    let site = hasty().await;
    let nonsense = [
        "nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET /mcp HTTP/9.9\r\n\r\n",
        "GET /mcp HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /mcp HTTP/1.1\r\nhost: a\0b\r\n\r\n",
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n",
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: nonsense\r\n\r\n{}",
        "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n",
    ];
    join_all(nonsense.map(async |bytes| {
        let mut raw = site.web().raw().await;
        raw.send(bytes).await;
        is_turned_away(&mut raw, bytes).await;
    }))
    .await;
    is_alive(&site).await;
}

#[tokio::test]
async fn headers_have_an_end() {
    let site = plain_site().await;
    let mut raw = site.web().raw().await;
    raw.send("GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n").await;
    let mut sent = 0_usize;
    let line = format!("x-{}: {}\r\n", "a".repeat(10), "b".repeat(1000));
    while sent < 8 * 1024 * 1024 {
        if raw.try_send(&line).await.is_err() {
            break;
        }
        sent += line.len();
    }
    assert!(sent < 8 * 1024 * 1024, "8 MB of headers were taken");
    is_alive(&site).await;
}

fn everything(session: &Session) -> Vec<Request> {
    vec![
        Hello::version(SESSIONS).request(),
        session.ask("ping", json!({})),
        session.get(),
        session.delete(),
        Request::modern(1, "server/discover", json!({})),
        Request::modern(1, "subscriptions/listen", json!({"notifications": {}})),
    ]
}

#[tokio::test]
async fn a_foreign_page_is_403() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for origin in [
        "https://evil.example",
        "http://evil.example:80",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://evil.example/127.0.0.1",
        "http://127.0.0.1@evil.example",
        "https://evil.example#localhost",
        "null",
        "file://",
        "nonsense",
        "",
        "http://0x7f.1.evil.example",
        "http://localhostx",
    ] {
        for request in everything(&session) {
            let answer = site.send(request.clone().header("origin", origin)).await;
            assert_eq!(answer.status, 403, "{origin:?} {request:?}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
            let body = answer.bytes().await;
            if !body.is_empty() {
                let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert!(
                    body.get("id").is_none_or(serde_json::Value::is_null),
                    "{body}"
                );
            }
        }
    }
    let two = session
        .ask("ping", json!({}))
        .header("origin", "http://localhost")
        .also("origin", "https://evil.example");
    assert_eq!(site.send(two).await.status, 403);
    for origin in [
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8080",
        "http://[::1]:1",
        "https://localhost",
    ] {
        let answer = site
            .send(session.ask("ping", json!({})).header("origin", origin))
            .await;
        assert_eq!(answer.status, 200, "{origin}");
    }
}

#[tokio::test]
async fn methods_that_are_not_there_are_no_way_around_it() {
    let site = plain_site().await;
    for method in ["OPTIONS", "PUT", "HEAD"] {
        let request = || Request::get().method(method);
        let answer = site
            .send(request().header("origin", "https://evil.example"))
            .await;
        assert_eq!(answer.status, 403, "{method}");
        let answer = site.send(request().header("host", "evil.example")).await;
        assert!([400, 403, 421].contains(&answer.status), "{method}");
    }
}

#[tokio::test]
async fn a_foreign_name_is_refused() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhostx",
        "0.0.0.0",
        "nonsense host",
        "",
    ] {
        for request in everything(&session) {
            let status = site.send(request.header("host", host)).await.status;
            assert!([400, 403, 421].contains(&status), "{host:?} {status}");
        }
    }
    for host in [
        "localhost",
        "localhost:1234",
        "LOCALHOST",
        "127.0.0.1",
        "[::1]:80",
    ] {
        let answer = site
            .send(session.ask("ping", json!({})).header("host", host))
            .await;
        assert_eq!(answer.status, 200, "{host}");
    }
    for head in [
        "GET /mcp HTTP/1.1\r\n",
        "GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: evil.example\r\n",
        "GET http://evil.example/mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n",
        "GET /mcp HTTP/1.0\r\n",
    ] {
        let mut raw = site.web().raw().await;
        raw.send(format!(
            "{head}mcp-session-id: {}\r\naccept: text/event-stream\r\n\r\n",
            session.id
        ))
        .await;
        let answer = raw.until("\r\n").await;
        let refused = answer.is_empty()
            || [" 400 ", " 403 ", " 421 "]
                .iter()
                .any(|status| answer.contains(status));
        assert!(refused, "{head}: {answer}");
    }
}

#[tokio::test]
async fn names_and_pages_may_be_allowed() {
    let hosts = AllowedHosts::new()
        .allow_host("mcp.example.com")
        .allow_origin("https://app.example.com");
    let options = HttpOptions::default().hosts(hosts);
    let site = Site::open(&plain().build().unwrap(), options).await;
    let discover = || Request::modern(1, "server/discover", json!({}));
    let status = async |request| site.send(request).await.status;
    for host in [
        "mcp.example.com",
        "MCP.Example.com",
        "mcp.example.com:8443",
        "localhost",
    ] {
        assert_eq!(status(discover().header("host", host)).await, 200, "{host}");
    }
    assert_ne!(
        status(discover().header("host", "other.example.com")).await,
        200
    );
    assert_eq!(
        status(discover().header("origin", "https://app.example.com")).await,
        200
    );
    for origin in [
        "http://app.example.com",
        "https://app.example.com:444",
        "https://other.example.com",
    ] {
        assert_eq!(
            status(discover().header("origin", origin)).await,
            403,
            "{origin}"
        );
    }
    let any = AllowedHosts::new().allow_any_host().allow_any_origin();
    let any = HttpOptions::default().hosts(any);
    let site = Site::open(&plain().build().unwrap(), any).await;
    let answer = site
        .send(
            discover()
                .header("host", "evil.example")
                .header("origin", "https://evil.example"),
        )
        .await;
    assert_eq!(answer.status, 200);
}

const BIG: usize = 16 * 1024;

/// A tool that says so many big things, and counts them.
fn flood(said: Arc<AtomicUsize>) -> Tool {
    Tool::new("flood", move |_: NoArguments, context: Context| {
        let said = Arc::clone(&said);
        async move {
            let text = "x".repeat(BIG);
            for step in 1..=FLOOD {
                context.progress(f64::from(step), None, Some(&text)).await;
                said.fetch_add(1, Ordering::SeqCst);
            }
            "said all"
        }
    })
}

const FLOOD: u32 = 700;

#[tokio::test]
async fn a_client_that_does_not_read_its_stream_holds_its_call_up_and_loses_nothing() {
    let said = Arc::new(AtomicUsize::new(0));
    let server = plain().tool(flood(Arc::clone(&said))).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let params = json!({"name": "flood", "arguments": {}, "_meta": {"progressToken": 1}});
    for request in [
        session.ask("tools/call", params.clone()),
        Request::modern(1, "tools/call", params),
    ] {
        said.store(0, Ordering::SeqCst);
        let mut events = site.send(request).await.events();
        let at = quiesce(&said).await;
        // What is on its way in the system's buffers does not count.
        assert!(
            at * BIG < 9 * 1024 * 1024,
            "{at} messages of 16 kB are kept for it"
        );
        is_served(&session).await;
        for step in 1..=FLOOD {
            let message = events.message().await.unwrap();
            assert_eq!(message["params"]["progress"], f64::from(step));
        }
        assert_eq!(text(&events.message().await.unwrap()), "said all");
        assert_eq!(events.message().await, None);
    }
}

#[tokio::test]
async fn a_handler_that_says_much_at_once_is_heard_to_the_last_word() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let steps: Vec<u32> = (1..=5000).collect();
    let params =
        json!({"name": "walk", "arguments": {"steps": steps}, "_meta": {"progressToken": 1}});
    for request in [
        session.ask("tools/call", params.clone()),
        Request::modern(1, "tools/call", params),
    ] {
        let (before, answer) = site.send(request).await.exchange().await;
        let told: Vec<_> = before
            .iter()
            .map(|message| message["params"]["progress"].as_f64().unwrap())
            .collect();
        let all: Vec<_> = steps.iter().copied().map(f64::from).collect();
        assert_eq!(told, all);
        assert_eq!(text(&answer), "there");
    }
}

#[tokio::test]
async fn what_nobody_listens_to_is_kept_only_so_far() {
    let server = plain().build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    session
        .request("resources/subscribe", json!({"uri": "note://rules"}))
        .await;
    for _ in 0..100_000 {
        server.resource_updated("note://rules");
    }
    let mut events = session.listen().await;
    assert!(events.message().await.is_some());
    site.send(session.delete()).await;
    let kept = events.rest().await.len();
    assert!(kept < 20_000, "{kept} are kept");
    is_alive(&site).await;
}

#[tokio::test]
async fn an_answer_of_many_megabytes_comes_through() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let long = "ü".repeat(4 * 1024 * 1024);
    let result = session.call("echo", json!({"text": long})).await;
    assert_eq!(
        result["content"][0]["text"].as_str().map(str::len),
        Some(long.len())
    );
}

#[tokio::test]
async fn clients_that_come_and_go_leave_nothing_behind() {
    let site = Site::open(
        &plain().build().unwrap(),
        HttpOptions::default().connections(20).in_flight(20),
    )
    .await;
    for _ in 0..200 {
        let mut raw = site.web().raw().await;
        raw.send("POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\n").await;
    }
    soon("there must be room again", is_alive(&site)).await;
}
