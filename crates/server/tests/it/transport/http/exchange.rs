//! One POST, one answer: media types, bodies, statuses.

use crate::support::{
    http::{is_served, plain, plain_site, verdict},
    messages::{hello, notification, request, text},
};
use interlock::{HttpOptions, Limits};
use interlock_testkit::web::{Hello, Request, Session, Site};
use serde_json::{Value, json};

#[tokio::test]
async fn a_client_must_accept_json_and_streams() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let posts = || {
        [
            session.ask("ping", json!({})),
            Hello::version("2025-11-25").request(),
            Request::modern(1, "server/discover", json!({})),
        ]
    };
    for accept in [
        "application/json",
        "text/event-stream",
        "text/html",
        "application/json;q=0, text/event-stream",
        "application/jsonx, text/event-streams",
        "image/*",
        "nonsense",
    ] {
        for post in posts() {
            let answer = site.send(post.header("accept", accept)).await;
            assert_eq!(answer.status, 406, "{accept:?}");
        }
    }
    for accept in [
        "application/json, text/event-stream",
        "text/event-stream,application/json",
        "Application/JSON;q=0.9, Text/Event-Stream; q=1",
        "*/*",
        "application/*, text/*",
    ] {
        for post in posts() {
            let answer = site.send(post.header("accept", accept)).await;
            assert_eq!(answer.status, 200, "{accept:?}");
        }
    }
    // Two headers are one list.
    let two = session
        .ask("ping", json!({}))
        .header("accept", "application/json")
        .also("accept", "text/event-stream");
    assert_eq!(site.send(two).await.status, 200);
}

#[tokio::test]
async fn a_get_must_accept_streams() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for accept in ["application/json", "text/html", "text/event-stream;q=0"] {
        let answer = site.send(session.get().header("accept", accept)).await;
        assert_eq!(answer.status, 406, "{accept:?}");
    }
}

#[tokio::test]
async fn a_body_must_be_called_json() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let posts = || {
        [
            session.ask("ping", json!({})),
            session.post(&notification("notifications/initialized", json!({}))),
            Hello::version("2025-11-25").request(),
            Request::modern(1, "server/discover", json!({})),
        ]
    };
    for wrong in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/jsonx",
        "application/json-rpc",
        "text/json",
        "",
    ] {
        for post in posts() {
            let answer = site.send(post.header("content-type", wrong)).await;
            assert_eq!(answer.status, 415, "{wrong:?}");
        }
    }
    for post in posts() {
        assert_eq!(site.send(post.without("content-type")).await.status, 415);
    }
    for right in ["application/json; charset=utf-8", "Application/Json"] {
        for post in posts() {
            let answer = site.send(post.header("content-type", right)).await;
            assert!([200, 202].contains(&answer.status), "{right:?}");
        }
    }
}

#[tokio::test]
async fn a_packed_body_is_415() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let post = session
        .ask("ping", json!({}))
        .header("content-encoding", "gzip");
    let (status, _, refusal) = verdict(site.send(post).await).await;
    assert_eq!(status, 415);
    assert!([Some(1024), Some(1070)].contains(&refusal), "{refusal:?}");
}

#[tokio::test]
async fn other_methods_are_405_and_say_what_would_do() {
    let site = plain_site().await;
    for method in ["PUT", "PATCH", "TRACE"] {
        let answer = site.send(Request::get().method(method)).await;
        assert_eq!(answer.status, 405, "{method}");
        let allow = answer.header("allow").unwrap_or_default().to_owned();
        assert!(allow.contains("POST") && allow.contains("GET"), "{allow}");
    }
}

#[tokio::test]
async fn a_head_is_answered_without_a_body() {
    let options = HttpOptions::default().legacy_sse(true);
    let site = Site::open(&plain().build().unwrap(), options).await;
    for (path, status) in [
        ("/mcp", 405),
        ("/sse", 200),
        ("/messages", 405),
        ("/x", 404),
    ] {
        let answer = site.send(Request::get().method("HEAD").path(path)).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.bytes().await.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn the_paths_of_2024_say_which_methods_they_have() {
    let options = HttpOptions::default().legacy_sse(true);
    let site = Site::open(&plain().build().unwrap(), options).await;
    for (path, method, allow) in [
        ("/sse", "POST", "GET,HEAD"),
        ("/sse", "DELETE", "GET,HEAD"),
        ("/messages", "GET", "POST"),
    ] {
        let answer = site.send(Request::get().method(method).path(path)).await;
        assert_eq!(answer.status, 405, "{method} {path}");
        assert_eq!(answer.header("allow"), Some(allow));
    }
}

#[tokio::test]
async fn there_is_one_endpoint_where_the_options_say() {
    let site = plain_site().await;
    for path in ["/", "/mcp/", "/mcp/x", "/sse", "/messages", "/MCP", "//mcp"] {
        let answer = site
            .send(Hello::version("2025-11-25").request().path(path))
            .await;
        assert_eq!(answer.status, 404, "{path}");
    }
    let elsewhere = HttpOptions::default().path("/tools/mcp");
    let site = Site::open(&plain().build().unwrap(), elsewhere).await;
    let hello = || Hello::version("2025-11-25").request();
    assert_eq!(site.send(hello()).await.status, 404);
    assert_eq!(site.send(hello().path("/tools/mcp")).await.status, 200);
    assert_eq!(site.send(hello().path("/tools/mcp?x=1")).await.status, 200);
}

#[tokio::test]
async fn notifications_and_responses_are_202_without_a_body() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for message in [
        notification("notifications/initialized", json!({})),
        notification("notifications/cancelled", json!({"requestId": 99})),
        notification("notifications/roots/list_changed", json!({})),
        notification("nobody/knows", json!({"a": 1})),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 99, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}}),
    ] {
        session.tell(&message).await;
    }
}

#[tokio::test]
async fn a_body_that_is_no_message_is_400_with_an_error() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for (body, code) in [
        ("", -32700),
        ("nonsense", -32700),
        ("{", -32700),
        ("{}", -32600),
        ("5", -32600),
        ("null", -32600),
        ("\"ping\"", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":5}"#,
            -32600,
        ),
        (
            r#"{"jsonrpc":"1.0","method":"notifications/initialized"}"#,
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{}",
            -32700,
        ),
    ] {
        let answer = session
            .send(session.ask("ping", json!({})).body(body))
            .await;
        let (status, got) = answer.refused().await;
        assert_eq!(
            (status, got["error"]["code"].as_i64()),
            (400, Some(code)),
            "{body} {got}"
        );
        // The id is told where it could be read.
        let read = body.contains("\"id\":1") && !body.contains('\n');
        assert_eq!(
            got["id"],
            if read { json!(1) } else { Value::Null },
            "{body} {got}"
        );
    }
    let bytes = session
        .ask("ping", json!({}))
        .body(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"[..]);
    assert_eq!(verdict(session.send(bytes).await).await.0, 400);
    is_served(&session).await;
}

#[tokio::test]
async fn a_batch_is_refused_where_the_version_has_none() {
    let site = plain_site().await;
    let batch = json!([request(1, "ping", json!({})), request(2, "ping", json!({}))]);
    for version in ["2025-06-18", "2025-11-25"] {
        let session = Hello::version(version).open(&site).await;
        let answer = session.send(session.post(&batch)).await;
        let (status, code, _) = verdict(answer).await;
        assert_eq!((status, code), (400, -32600), "{version}");
    }
    let modern = Request::modern(1, "server/discover", json!({}));
    let answer = site.send(modern.body(batch.to_string())).await;
    let (status, code, _) = verdict(answer).await;
    assert_eq!((status, code), (400, -32600));
}

#[tokio::test]
async fn a_batch_is_answered_where_the_version_has_one() {
    let site = plain_site().await;
    let session = Hello::version("2025-03-26").open(&site).await;
    let batch = json!([
        request(1, "ping", json!({})),
        notification("notifications/cancelled", json!({"requestId": 99})),
        request(
            2,
            "tools/call",
            json!({"name": "echo", "arguments": {"text": "two"}})
        ),
        request(3, "nobody/knows", json!({})),
    ]);
    let answer = session.send(session.post(&batch)).await;
    assert_eq!(answer.status, 200);
    let mut answers: Vec<Value> = if answer.is_stream() {
        let messages = answer.events().rest().await;
        let several = |message: Value| match message.as_array() {
            Some(several) => several.clone(),
            None => vec![message],
        };
        messages.into_iter().flat_map(several).collect()
    } else {
        serde_json::from_slice(&answer.bytes().await).unwrap()
    };
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[0]["result"], json!({}));
    assert_eq!(text(&answers[1]), "two");
    assert_eq!(answers[2]["error"]["code"], -32601);
    let only_notifications = json!([notification("notifications/initialized", json!({}))]);
    session.tell(&only_notifications).await;
    let answer = session.send(session.post(&json!([]))).await;
    assert_eq!(verdict(answer).await.1, -32600);
    let hello = json!([request(1, "initialize", hello("2025-03-26"))]);
    let answer = session.send(session.post(&hello)).await.json().await;
    assert_eq!(answer[0]["error"]["code"], -32600, "{answer}");
}

#[tokio::test]
async fn malformed_parameters_of_a_known_method_are_32602() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for (method, params) in [
        ("tools/call", json!({"name": 5})),
        ("tools/call", json!({"name": "echo", "arguments": []})),
        ("tools/call", json!([])),
        ("resources/read", json!({"uri": 5})),
        ("prompts/get", json!({"name": {}})),
        (
            "prompts/get",
            json!({"name": "sorry", "arguments": {"who": 5}}),
        ),
        ("tools/list", json!({"cursor": 5})),
        ("logging/setLevel", json!({"level": "loud"})),
        ("logging/setLevel", json!({})),
        ("resources/subscribe", json!({})),
        ("resources/unsubscribe", json!({"uri": []})),
    ] {
        let answer = session.request(method, params.clone()).await;
        assert_eq!(
            answer["error"]["code"], -32602,
            "{method} {params} {answer}"
        );
        if params.is_object() {
            let answer = site
                .send(Request::modern(1, method, params.clone()))
                .await
                .json()
                .await;
            let code = answer["error"]["code"].as_i64().unwrap();
            match method {
                // These are not there any more.
                "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                    assert_eq!(code, -32601, "{answer}");
                }
                // A name that is no text cannot be told in a header either.
                _ => assert!(
                    [-32602, -32020].contains(&code),
                    "{method} {params} {answer}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn a_body_of_17_megabytes_is_413_and_the_site_goes_on() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let large = request(
        1,
        "tools/call",
        json!({"name": "echo", "arguments": {"text": "x".repeat(17 * 1024 * 1024)}}),
    );
    for post in [
        session.post(&large),
        Request::modern(1, "ping", json!({})).body(large.to_string()),
    ] {
        // It may be refused before it was sent as a whole.
        if let Ok(answer) = site.web().try_send(post).await {
            let (status, _, refusal) = verdict(answer).await;
            assert_eq!((status, refusal), (413, Some(1068)));
        }
    }
    is_served(&session).await;
}

#[tokio::test]
async fn the_limit_of_a_body_is_exact() {
    let limits = Limits {
        bytes: 1000,
        ..Limits::default()
    };
    let site = Site::open(
        &plain().limits(limits).build().unwrap(),
        HttpOptions::default(),
    )
    .await;
    let session = Session::open(&site).await;
    let sized = |bytes: usize| {
        let mut body = request(1, "ping", json!({})).to_string();
        let padding = " ".repeat(bytes - body.len());
        body.push_str(&padding);
        session.ask("ping", json!({})).body(body)
    };
    assert_eq!(site.send(sized(1000)).await.status, 200);
    let (status, _, refusal) = verdict(site.send(sized(1001)).await).await;
    assert_eq!((status, refusal), (413, Some(1068)));
    // A body whose length is not announced is held to it as well.
    let mut raw = site.web().raw().await;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nmcp-session-id: {}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        site.web().address(),
        session.id,
    );
    raw.send(head).await;
    for _ in 0..10 {
        if raw
            .try_send(format!("80\r\n{}\r\n", " ".repeat(128)))
            .await
            .is_err()
        {
            break;
        }
    }
    let _ = raw.try_send("0\r\n\r\n").await;
    let answer = raw.until("\r\n").await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413"),
        "{answer}"
    );
}

#[tokio::test]
async fn plain_answers_are_one_json_object_that_nobody_stores() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    let answer = session
        .send(session.tool("echo", json!({"text": "hi"})))
        .await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert!(!answer.is_stream());
    assert_eq!(text(&answer.json().await), "hi");
}

#[tokio::test]
async fn ids_come_back_as_they_were_meant() {
    let site = plain_site().await;
    let session = Session::open(&site).await;
    for id in [
        json!(0),
        json!(-5),
        json!("x"),
        json!(""),
        json!("ünï"),
        json!(9_007_199_254_740_991_i64),
    ] {
        let answer = session
            .send(session.post(&request(id.clone(), "ping", json!({}))))
            .await;
        assert_eq!(answer.json().await["id"], id);
        let answer = site
            .send(Request::modern(id.clone(), "server/discover", json!({})))
            .await;
        assert_eq!(answer.json().await["id"], id);
    }
}
