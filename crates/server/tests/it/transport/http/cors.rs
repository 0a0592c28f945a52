//! What a page of an allowed origin can do in a browser, by the very requests of browsers.

use crate::support::http::plain;
use interlock::{AllowedHosts, HttpOptions};
use interlock_testkit::web::{Answer, Hello, Request, Site};
use serde_json::json;

const PAGE: &str = "https://app.example.com";

async fn site() -> Site {
    let hosts = AllowedHosts::new().allow_origin(PAGE);
    let options = HttpOptions::default().hosts(hosts).legacy_sse(true);
    Site::open(&plain().build().unwrap(), options).await
}

/// What a browser asks before a page's first request.
fn preflight(origin: &str, method: &str, headers: &str) -> Request {
    Request::get()
        .method("OPTIONS")
        .header("accept", "*/*")
        .header("origin", origin)
        .header("sec-fetch-mode", "cors")
        .header("sec-fetch-site", "cross-site")
        .header("access-control-request-method", method)
        .header("access-control-request-headers", headers)
}

fn names(answer: &Answer, header: &str) -> Vec<String> {
    let value = answer.header(header).unwrap_or_default();
    let names = value.split(',').map(|name| name.trim().to_lowercase());
    names.collect()
}

#[track_caller]
fn is_readable(answer: &Answer) {
    assert_eq!(answer.header("access-control-allow-origin"), Some(PAGE));
    assert_eq!(answer.header("vary"), Some("Origin"));
    let exposed = names(answer, "access-control-expose-headers");
    assert!(
        exposed.contains(&"mcp-session-id".to_owned()),
        "{exposed:?}"
    );
}

#[tokio::test]
async fn a_browser_is_told_that_a_page_may_send_what_mcp_needs() {
    let site = site().await;
    let asked = "accept,authorization,content-type,last-event-id,mcp-method,mcp-name,\
                 mcp-param-region,mcp-protocol-version,mcp-session-id";
    for (method, path) in [
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("POST", "/messages?sessionId=x"),
    ] {
        let answer = site.send(preflight(PAGE, method, asked).path(path)).await;
        assert_eq!(answer.status, 204, "{method} {path}");
        is_readable(&answer);
        let methods = names(&answer, "access-control-allow-methods");
        assert!(methods.contains(&method.to_lowercase()), "{methods:?}");
        let headers = names(&answer, "access-control-allow-headers");
        for name in asked.split(',') {
            assert!(headers.contains(&name.to_owned()), "{name} {headers:?}");
        }
        assert_eq!(answer.header("access-control-max-age"), Some("600"));
        assert_eq!(answer.bytes().await, b"");
    }
}

#[tokio::test]
async fn a_page_may_send_no_header_that_means_nothing_here() {
    let asked = "x-evil, mcp-param-, mcp-param-a b, \u{7f}";
    let answer = site()
        .await
        .send(preflight(PAGE, "POST", &asked[..32]))
        .await;
    let headers = names(&answer, "access-control-allow-headers");
    assert!(!headers.contains(&"x-evil".to_owned()), "{headers:?}");
    assert!(
        !headers.iter().any(|name| name.contains(' ')),
        "{headers:?}"
    );
}

#[tokio::test]
async fn a_page_opens_a_session_and_reads_its_id_and_every_answer() {
    let site = site().await;
    let page = |request: Request| request.header("origin", PAGE);
    let hello = site
        .send(page(Hello::version("2025-11-25").request()))
        .await;
    is_readable(&hello);
    let id = hello.header("mcp-session-id").unwrap().to_owned();
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let ping = Request::post(&ping).header("mcp-session-id", &id);
    let answer = site.send(page(ping)).await;
    is_readable(&answer);
    assert_eq!(answer.message().await["result"], json!({}));
    let listened = site.send(page(Request::get().header("mcp-session-id", &id)));
    is_readable(&listened.await);
    // A page reads what is wrong, too.
    let refused = site.send(page(Request::get())).await;
    assert_eq!(refused.status, 400);
    is_readable(&refused);
}

#[tokio::test]
async fn the_browser_of_any_other_page_is_told_nothing() {
    let site = site().await;
    for origin in [
        "https://evil.example.com",
        "null",
        "https://app.example.com:8443",
    ] {
        let ask = preflight(origin, "POST", "content-type");
        let sent = Hello::version("2025-11-25")
            .request()
            .header("origin", origin);
        for request in [ask, sent] {
            let answer = site.send(request).await;
            assert_eq!(answer.status, 403, "{origin}");
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}

#[tokio::test]
async fn who_is_no_browser_is_told_nothing_of_it() {
    let site = site().await;
    let answer = site.send(Hello::version("2025-11-25").request()).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let options = Request::get().method("OPTIONS");
    let (status, body) = site.send(options).await.refused().await;
    assert_eq!(status, 405);
    let why = body["error"]["message"].as_str().unwrap();
    assert!(
        why.contains("this endpoint allows only POST, GET and DELETE"),
        "{why}"
    );
}
