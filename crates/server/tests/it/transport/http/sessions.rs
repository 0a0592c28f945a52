//! Sessions over HTTP: how they begin, whom they serve, and how they end.

use crate::support::{
    desk::desk,
    http::{SESSIONS, is_served, plain, plain_site, verdict},
    messages::{hello, notification, request},
    tools::tool,
};
use interlock::HttpOptions;
use interlock_testkit::{
    ManualClock,
    web::{Hello, Request, Session, Site},
};
use serde_json::json;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// The three versions that have sessions.
const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test]
async fn a_session_begins_with_initialize_and_serves_every_version_that_has_sessions() {
    let site = plain_site().await;
    for version in VERSIONS {
        let session = Hello::version(version).open(&site).await;
        assert_eq!(session.version, version);
        let answer = session.request("tools/list", json!({})).await;
        assert!(answer["result"]["tools"].is_array(), "{answer}");
        assert_eq!(
            session.call("echo", json!({"text": "hi"})).await["content"][0]["text"],
            "hi"
        );
    }
}

#[tokio::test]
async fn ids_are_visible_ascii_long_and_never_the_same() {
    let site = plain_site().await;
    let mut seen = HashSet::new();
    for _ in 0..50 {
        let id = Session::open(&site).await.id;
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        // 128 bits are 32 hexadecimal digits, or 22 of base 64.
        assert!(id.len() >= 22, "{id}");
        assert!(seen.insert(id.clone()), "{id} was given twice");
    }
    // Nothing is counted up: any two ids differ in most places.
    let ids: Vec<_> = seen.iter().collect();
    for pair in ids.windows(2) {
        let same = pair[0].bytes().zip(pair[1].bytes()).filter(|(a, b)| a == b);
        assert!(same.count() < pair[0].len() / 2, "{pair:?}");
    }
}

#[tokio::test]
async fn only_the_answer_to_initialize_carries_an_id() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let answer = session.send(session.ask("ping", json!({}))).await;
    let said = answer.header("mcp-session-id");
    assert!(said.is_none() || said == Some(session.id.as_str()));
    let refused = Hello::version("2025-11-25")
        .request()
        .body(request(1, "initialize", json!({"protocolVersion": 5})).to_string());
    let answer = site.send(refused).await;
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_eq!(answer.json().await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_request_without_a_session_is_400_and_told_both_ways_in() {
    let site = plain_site().await;
    for method in [
        "tools/list",
        "tools/call",
        "resources/read",
        "prompts/get",
        "logging/setLevel",
        "completion/complete",
        "server/discover",
        "subscriptions/listen",
        "nobody/knows",
    ] {
        let message = request(7, method, json!({}));
        for version in [
            None,
            Some("2025-03-26"),
            Some("2025-06-18"),
            Some("2025-11-25"),
        ] {
            let mut post = Request::post(&message);
            if let Some(version) = version {
                post = post.header("mcp-protocol-version", version);
            }
            let (status, body) = site.send(post).await.refused().await;
            assert_eq!(status, 400, "{method} {body}");
            assert_eq!(body["error"]["code"], -32602, "{method} {body}");
            assert_eq!(
                body["error"]["data"]["refusal"]["code"], 1076,
                "{method} {body}"
            );
            assert_eq!(body["id"], 7, "{method} {body}");
            let words = body["error"]["message"].as_str().unwrap();
            assert!(
                words.contains("initialize") && words.contains("_meta"),
                "{words}"
            );
        }
    }
}

#[tokio::test]
async fn notifications_and_responses_without_a_session_are_not_accepted() {
    let site = plain_site().await;
    for message in [
        notification("notifications/initialized", json!({})),
        notification("notifications/cancelled", json!({"requestId": 1})),
        notification("nobody/knows", json!({})),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}),
    ] {
        let answer = site.send(Request::post(&message)).await;
        assert_eq!(answer.status, 400, "{message}");
        let body = answer.bytes().await;
        if !body.is_empty() {
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert!(
                body.get("id").is_none_or(serde_json::Value::is_null),
                "{body}"
            );
            assert!(body.get("error").is_some(), "{body}");
        }
    }
}

#[tokio::test]
async fn get_and_delete_without_a_session_are_400() {
    let site = plain_site().await;
    for request in [
        Request::get(),
        Request::delete(),
        Request::get().header("mcp-protocol-version", SESSIONS),
        Request::delete().header("mcp-protocol-version", SESSIONS),
    ] {
        assert_eq!(site.send(request.clone()).await.status, 400, "{request:?}");
    }
}

#[tokio::test]
async fn a_session_that_was_made_up_is_404_for_whatever_comes() {
    let site = plain_site().await;
    let real = Session::open(&site).await;
    let almost = {
        let mut id = real.id.clone();
        let last = id.pop().unwrap();
        id.push(if last == '0' { '1' } else { '0' });
        id
    };
    for id in ["x", "00000000000000000000000000000000", almost.as_str()] {
        for request in [
            real.ask("ping", json!({})),
            real.ask("tools/list", json!({})),
            real.ask("nobody/knows", json!({})),
            real.post(&notification("notifications/initialized", json!({}))),
            real.post(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
            real.get(),
            real.delete(),
            real.get().header("last-event-id", "1"),
        ] {
            let answer = site.send(request.header("mcp-session-id", id)).await;
            assert_eq!(answer.status, 404, "{id}");
        }
    }
    let answer = site
        .send(real.ask("ping", json!({})).header("mcp-session-id", "x"))
        .await;
    let (status, _, refusal) = verdict(answer).await;
    assert_eq!(status, 404);
    assert!([Some(1016), Some(1026)].contains(&refusal), "{refusal:?}");
    // What cannot be an id may also be called malformed.
    let long = "a".repeat(4096);
    let answer = site.send(real.ask("ping", json!({})).header("mcp-session-id", &long));
    assert!([400, 404].contains(&answer.await.status));
    is_served(&real).await;
}

#[tokio::test]
async fn a_session_ends_with_delete_and_is_404_ever_after() {
    let site = plain_site().await;
    let (session, other) = (Session::open(&site).await, Session::open(&site).await);
    let answer = site.send(session.delete()).await;
    assert!([200, 202, 204].contains(&answer.status), "{answer:?}");
    for request in [
        session.ask("ping", json!({})),
        session.post(&notification("notifications/initialized", json!({}))),
        session.get(),
        session.delete(),
        session.ask("initialize", hello(SESSIONS)),
    ] {
        assert_eq!(site.send(request).await.status, 404);
    }
    is_served(&other).await;
}

#[tokio::test]
async fn errors_of_requests_in_a_session_go_with_200_and_never_with_404() {
    let site = plain_site().await;
    for version in VERSIONS {
        let session = Hello::version(version).open(&site).await;
        for (method, params, code) in [
            ("nobody/knows", json!({}), -32601),
            ("server/discover", json!({}), -32601),
            ("subscriptions/listen", json!({}), -32601),
            ("tools/call", json!({}), -32602),
            ("tools/call", json!({"name": "nowhere"}), -32602),
            ("resources/read", json!({"uri": "note://nowhere"}), -32002),
            ("prompts/get", json!({"name": "nowhere"}), -32602),
            ("initialize", hello(version), -32602),
        ] {
            let answer = session.send(session.ask(method, params)).await;
            assert_eq!(answer.status, 200, "{version} {method}");
            let answer = answer.message().await;
            let got = answer["error"]["code"].as_i64().unwrap();
            if method == "initialize" {
                // Which error it is, is ours to choose.
                assert!(got < 0, "{answer}");
            } else {
                assert_eq!(got, code, "{version} {method} {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_second_initialize_changes_nothing_not_even_the_clients_name() {
    let server = plain().tool(who()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    let mut params = hello("2025-06-18");
    params["clientInfo"] = json!({"name": "mallory", "version": "9"});
    params["capabilities"] = json!({"elicitation": {}});
    let answer = session.send(session.ask("initialize", params)).await;
    assert_eq!(
        answer.header("mcp-session-id").unwrap_or(&session.id),
        session.id
    );
    let answer = answer.message().await;
    assert!(answer["error"].is_object(), "{answer}");
    let result = session.call("who", json!({})).await;
    assert_eq!(result["content"][0]["text"], "testkit 0 2025-11-25");
}

fn who() -> interlock::Tool {
    use interlock::{Context, NoArguments, Tool};
    Tool::new("who", |_: NoArguments, context: Context| async move {
        let client = context.client().unwrap();
        format!("{} {} {}", client.name, client.version, context.version())
    })
}

#[tokio::test]
async fn a_second_initialize_without_a_session_opens_another() {
    let site = plain_site().await;
    let (one, two) = (Session::open(&site).await, Session::open(&site).await);
    assert_ne!(one.id, two.id);
    for session in [one, two] {
        is_served(&session).await;
    }
}

#[tokio::test]
async fn a_session_is_served_between_initialize_and_initialized() {
    let site = plain_site().await;
    let session = Hello::version(SESSIONS).open_only(&site).await;
    let answer = session.request("tools/list", json!({})).await;
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    session.notify("notifications/initialized", json!({})).await;
    session.notify("notifications/initialized", json!({})).await;
    is_served(&session).await;
}

#[tokio::test]
async fn the_version_header_must_be_one_there_is_and_fit_the_session() {
    let site = plain_site().await;
    for version in VERSIONS {
        let session = Hello::version(version).open(&site).await;
        for wrong in ["2099-01-01", "1", "latest", "2025-11-25x", ""] {
            for request in [
                session.ask("ping", json!({})),
                session.post(&notification("notifications/initialized", json!({}))),
                session.get(),
                session.delete(),
            ] {
                let answer = site
                    .send(request.header("mcp-protocol-version", wrong))
                    .await;
                assert_eq!(answer.status, 400, "{version} as {wrong:?}");
            }
        }
        let two = session
            .ask("ping", json!({}))
            .header("mcp-protocol-version", version)
            .also("mcp-protocol-version", "2099-01-01");
        assert_eq!(site.send(two).await.status, 400, "{version}");
        // The session knows its version, so a client may leave it out.
        let silent = session
            .ask("ping", json!({}))
            .without("mcp-protocol-version");
        assert_eq!(site.send(silent).await.json().await["result"], json!({}));
        is_served(&session).await;
    }
}

#[tokio::test]
async fn a_session_has_no_streams_for_a_client_that_speaks_2026_07_28() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for request in [session.get(), session.delete()] {
        // That version has neither, and it is not the session's.
        let request = request.header("mcp-protocol-version", "2026-07-28");
        let status = site.send(request.clone()).await.status;
        assert!([400, 405].contains(&status), "{status} {request:?}");
    }
    let ping = session.ask("ping", json!({}));
    let ping = ping.header("mcp-protocol-version", "2026-07-28");
    assert_eq!(site.send(ping).await.status, 400);
    is_served(&session).await;
}

#[tokio::test]
async fn each_session_has_an_instance_of_its_own_and_takes_it_along_when_it_ends() {
    let server = desk(tool("work")).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let (one, two) = (Session::open(&site).await, Session::open(&site).await);
    let state = async |session: &Session| {
        let result = session.call("nowhere", json!({})).await;
        let state = &result["_meta"]["dev.interlock/refusal"]["state"];
        state.as_str().unwrap().to_owned()
    };
    one.call("work", json!({})).await;
    assert_eq!(state(&one).await, "done");
    assert_eq!(state(&two).await, "open");
    site.send(one.delete()).await;
    assert_eq!(state(&Session::open(&site).await).await, "open");
}

#[tokio::test]
async fn a_session_that_nobody_uses_ends_after_five_minutes_and_any_after_a_day() {
    let clock = Arc::new(ManualClock::new());
    let server = plain().clock(clock.clone()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let unused = Hello::version(SESSIONS).open_only(&site).await;
    let used = Session::open(&site).await;
    clock.advance(Duration::from_secs(5 * 60));
    assert_eq!(site.send(unused.ask("ping", json!({}))).await.status, 404);
    is_served(&used).await;
    // Idle is not ended: it comes back with what it was.
    clock.advance(Duration::from_secs(31 * 60));
    is_served(&used).await;
    clock.advance(Duration::from_secs(24 * 60 * 60));
    assert_eq!(site.send(used.ask("ping", json!({}))).await.status, 404);
}

#[tokio::test]
async fn a_session_that_was_idle_stands_where_it_stood() {
    let clock = Arc::new(ManualClock::new());
    let server = desk(tool("work")).clock(clock.clone()).build().unwrap();
    let site = Site::open(&server, HttpOptions::default()).await;
    let session = Session::open(&site).await;
    session.call("work", json!({})).await;
    clock.advance(Duration::from_secs(40 * 60));
    // Somebody else comes by, so that the clocks are looked at.
    Session::open(&site).await;
    let result = session.call("nowhere", json!({})).await;
    assert_eq!(result["_meta"]["dev.interlock/refusal"]["state"], "done");
}
