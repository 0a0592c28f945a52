//! Which hosts and origins are let in, and which are refused.

use crate::transport::http::host_check::*;
use http::{
    HeaderMap,
    header::{HOST, ORIGIN},
};

/// What a door says to a request for `/mcp` with these hosts and origins.
fn ask(hosts: &AllowedHosts, host: &[&str], origin: &[&str]) -> Result<(), Refusal> {
    ask_uri(hosts, "/mcp", host, origin)
}

fn ask_uri(hosts: &AllowedHosts, uri: &str, host: &[&str], origin: &[&str]) -> Result<(), Refusal> {
    let mut headers = HeaderMap::new();
    for value in host {
        headers.append(HOST, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    for value in origin {
        headers.append(ORIGIN, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    hosts
        .host_check()
        .unwrap()
        .check(&uri.parse().unwrap(), &KnownHeaders::read(&headers))
}

#[track_caller]
fn refused(answer: Result<(), Refusal>, because: &str) {
    let refusal = answer.expect_err("should be refused");
    assert_eq!(refusal.code(), Code::AuthzForbidden);
    assert_eq!(refusal.http_status(), 403);
    assert!(refusal.message().contains(because), "{refusal}");
}

const NOT_OURS: &str = "does not answer to the host `";
const UNREADABLE: &str = "not a name or an address";

#[test]
fn this_machine_is_let_in_on_any_port() {
    let usual = AllowedHosts::new();
    for host in [
        "localhost",
        "localhost:8080",
        "LOCALHOST:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "[::1]",
        "[::1]:3000",
        "[0:0:0:0:0:0:0:1]:3000",
        "[0000::0001]",
    ] {
        assert_eq!(ask(&usual, &[host], &[]), Ok(()), "{host}");
    }
}

#[test]
fn whom_it_has_let_in_changes_nothing_for_others() {
    let check = AllowedHosts::new().host_check().unwrap();
    let ask = |uri: &str, hosts: &[&str]| {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        check.check(&uri.parse().unwrap(), &KnownHeaders::read(&headers))
    };
    refused(ask("/mcp", &["evil.example.com"]), NOT_OURS);
    for _ in 0..2 {
        assert_eq!(ask("/mcp", &["localhost:80"]), Ok(()));
        assert_eq!(ask("/mcp", &["127.0.0.1"]), Ok(()));
        refused(ask("/mcp", &["evil.example.com"]), NOT_OURS);
        refused(ask("/mcp", &["localhost:80", "localhost:80"]), "more than");
        refused(ask("http://evil/", &["localhost:80"]), "different hosts");
        refused(ask("/mcp", &["localhost:80 "]), UNREADABLE);
        refused(ask("/mcp", &[]), "missing");
    }
}

#[test]
fn every_other_host_is_refused() {
    let usual = AllowedHosts::new();
    for host in [
        "evil.example.com",
        "localhost.evil.example.com",
        "evil-localhost",
        "127.0.0.1.evil.example.com",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "127.0.0.01",
        "0.0.0.0",
        "[::]",
        "[::2]",
        "[::ffff:127.0.0.1]",
        "192.168.0.1:8080",
    ] {
        refused(ask(&usual, &[host], &[]), NOT_OURS);
    }
}

#[test]
fn a_host_that_cannot_be_read_is_refused() {
    let usual = AllowedHosts::new();
    for host in [
        "",
        " ",
        ":8080",
        "localhost:",
        "localhost:http",
        "localhost:+80",
        "localhost:-1",
        "localhost:65536",
        "localhost:80:80",
        "localhost.",
        "127.0.0.1.",
        ".localhost",
        "a..b",
        "user@localhost",
        "user:password@localhost",
        "localhost/path",
        "localhost?",
        "localhost#",
        "localhost\\",
        "localhost, localhost",
        "localhost evil",
        "http://localhost",
        "löcalhost",
        "::1",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]]",
        "[[::1]]",
        "[localhost]",
        "[127.0.0.1]",
        "[::1%25lo]",
        "[]",
        "*",
    ] {
        refused(ask(&usual, &[host], &[]), UNREADABLE);
    }
    let long = "a.".repeat(200) + "a";
    refused(ask(&usual, &[&long], &[]), UNREADABLE);
}

#[test]
fn a_request_that_names_no_host_or_two_is_refused() {
    let usual = AllowedHosts::new();
    refused(ask(&usual, &[], &[]), "missing");
    refused(
        ask(&usual, &["localhost", "localhost"], &[]),
        "Host is there more than once",
    );
}

#[test]
fn the_host_may_be_in_the_uri() {
    let usual = AllowedHosts::new();
    let ask = |uri, host: &[&str]| ask_uri(&usual, uri, host, &[]);
    assert_eq!(ask("http://localhost:8080/mcp", &[]), Ok(()));
    assert_eq!(ask("https://[::1]/mcp", &["[::1]"]), Ok(()));
    refused(ask("http://evil.example.com/mcp", &[]), NOT_OURS);
    refused(ask("http://user@localhost/mcp", &[]), UNREADABLE);
}

#[test]
fn a_uri_and_a_header_that_differ_are_refused_even_if_both_are_ours() {
    let usual = AllowedHosts::new();
    for (uri, host) in [
        ("http://localhost/mcp", "evil.example.com"),
        ("http://evil.example.com/mcp", "localhost"),
        ("http://localhost/mcp", "127.0.0.1"),
        ("http://localhost:1/mcp", "localhost:2"),
    ] {
        let answer = ask_uri(&usual, uri, &[host], &[]);
        refused(answer, "different hosts");
    }
}

#[test]
fn a_listed_host_is_let_in_and_this_machine_still_is() {
    let hosts = AllowedHosts::new()
        .allow_host("MCP.example.com")
        .allow_host("10.0.0.7:9000")
        .allow_host("[2001:db8::1]");
    for host in [
        "mcp.example.com",
        "mcp.EXAMPLE.com:8443",
        "10.0.0.7:9000",
        "[2001:DB8:0::1]:80",
        "localhost:1",
    ] {
        assert_eq!(ask(&hosts, &[host], &[]), Ok(()), "{host}");
    }
    for host in [
        "example.com",
        "x.mcp.example.com",
        "10.0.0.7:9001",
        "10.0.0.7",
        "[2001:db8::2]",
    ] {
        refused(ask(&hosts, &[host], &[]), NOT_OURS);
    }
}

#[test]
fn a_host_without_a_port_is_on_the_port_of_its_scheme() {
    let secure = AllowedHosts::new().allow_host("mcp.example.com:443");
    assert_eq!(ask(&secure, &["mcp.example.com"], &[]), Ok(()));
    assert_eq!(ask(&secure, &["mcp.example.com:443"], &[]), Ok(()));
    refused(ask(&secure, &["mcp.example.com:80"], &[]), NOT_OURS);
    let other = AllowedHosts::new().allow_host("mcp.example.com:8443");
    refused(ask(&other, &["mcp.example.com"], &[]), NOT_OURS);
}

#[test]
fn a_refusal_names_what_it_refuses() {
    let usual = AllowedHosts::new();
    refused(
        ask(&usual, &["Evil.example.com:80"], &[]),
        "this server does not answer to the host `evil.example.com:80`",
    );
    refused(
        ask(&usual, &["localhost"], &["http://evil.example.com"]),
        "the origin `http://evil.example.com` is not allowed",
    );
    let long = format!("http://{}", "x".repeat(100_000));
    let refusal = ask(&usual, &["localhost"], &[&long]).unwrap_err();
    assert!(refusal.message().len() < 300);
}

#[test]
fn a_request_without_an_origin_is_let_in() {
    assert_eq!(ask(&AllowedHosts::new(), &["localhost"], &[]), Ok(()));
}

#[test]
fn pages_of_this_machine_are_let_in() {
    for origin in [
        "http://localhost",
        "http://localhost:5173",
        "https://127.0.0.1:8443",
        "http://[::1]:3000",
        "HTTP://LocalHost:80",
    ] {
        let answer = ask(&AllowedHosts::new(), &["localhost"], &[origin]);
        assert_eq!(answer, Ok(()), "{origin}");
    }
}

#[test]
fn every_other_page_is_refused() {
    for origin in [
        "http://evil.example.com",
        "http://localhost.evil.example.com",
        "https://127.0.0.2",
        "tauri://localhost",
        "chrome-extension://abcdefgh",
    ] {
        let answer = ask(&AllowedHosts::new(), &["localhost"], &[origin]);
        refused(answer, "is not allowed");
    }
}

#[test]
fn an_origin_that_cannot_be_read_is_refused() {
    for origin in [
        "null",
        "",
        "localhost",
        "//localhost",
        "://localhost",
        "1http://localhost",
        "ht tp://localhost",
        "http:/localhost",
        "http:localhost",
        "http://",
        "http://localhost/",
        "http://localhost/path",
        "http://localhost?query",
        "http://localhost#fragment",
        "http://user@localhost",
        "http://localhost.",
        "http://localhost:",
        "http://localhost http://localhost",
        "http://localhost, http://localhost",
        "http://löcalhost",
    ] {
        let answer = ask(&AllowedHosts::new(), &["localhost"], &[origin]);
        refused(answer, "is not allowed");
    }
}

#[test]
fn two_origins_are_refused_even_if_both_are_allowed() {
    let twice = ["http://localhost", "http://localhost"];
    refused(
        ask(&AllowedHosts::new(), &["localhost"], &twice),
        "Origin is there more than once",
    );
}

#[test]
fn a_listed_origin_is_let_in_with_its_scheme_and_its_port() {
    let hosts = AllowedHosts::new()
        .allow_origin("https://App.example.com")
        .allow_origin("http://app.example.com:8080")
        .allow_origin("vscode-webview://0a1b2c");
    let ask = |origin| ask(&hosts, &["localhost"], &[origin]);
    for origin in [
        "https://app.example.com",
        "https://app.example.com:443",
        "http://app.example.com:8080",
        "vscode-webview://0a1b2c",
    ] {
        assert_eq!(ask(origin), Ok(()), "{origin}");
    }
    for origin in [
        "http://app.example.com",
        "https://app.example.com:8080",
        "https://app.example.com:80",
        "https://x.app.example.com",
        "vscode-webview://0a1b2d",
        "vscode-webview://0a1b2c:443",
    ] {
        refused(ask(origin), "is not allowed");
    }
}

#[test]
fn a_listed_host_is_not_a_listed_origin() {
    let hosts = AllowedHosts::new().allow_host("mcp.example.com");
    let answer = ask(&hosts, &["mcp.example.com"], &["https://mcp.example.com"]);
    refused(answer, "is not allowed");
}

#[test]
fn a_page_is_refused_under_a_host_that_is_not_ours_whatever_its_origin() {
    let hosts = AllowedHosts::new().allow_origin("https://app.example.com");
    let answer = ask(&hosts, &["app.example.com"], &["https://app.example.com"]);
    refused(answer, NOT_OURS);
}

#[test]
fn any_host_means_any_and_says_nothing_about_origins() {
    let any = AllowedHosts::new().allow_any_host();
    for host in [&["evil.example.com"][..], &["a@b"], &[], &["a", "b"]] {
        assert_eq!(ask(&any, host, &[]), Ok(()));
    }
    assert_eq!(ask(&any, &["x"], &["http://localhost"]), Ok(()));
    refused(
        ask(&any, &["x"], &["http://evil.example.com"]),
        "is not allowed",
    );
}

#[test]
fn any_origin_means_any_and_says_nothing_about_hosts() {
    let any = AllowedHosts::new().allow_any_origin();
    for origin in ["http://evil.example.com", "null", "?"] {
        assert_eq!(ask(&any, &["localhost"], &[origin]), Ok(()));
    }
    refused(ask(&any, &["evil.example.com"], &["null"]), NOT_OURS);
}

#[test]
fn without_this_machine_only_what_is_listed_is_let_in() {
    let hosts = AllowedHosts::new()
        .allow_host("mcp.example.com")
        .without_loopback();
    assert_eq!(ask(&hosts, &["mcp.example.com"], &[]), Ok(()));
    refused(ask(&hosts, &["localhost"], &[]), NOT_OURS);
    refused(
        ask(&hosts, &["mcp.example.com"], &["http://localhost"]),
        "is not allowed",
    );
    let listed = hosts.allow_host("localhost");
    assert_eq!(ask(&listed, &["localhost"], &[]), Ok(()));
}

#[test]
fn everything_that_is_wrong_with_a_list_is_said_at_once() {
    let hosts = AllowedHosts::new()
        .allow_host("https://mcp.example.com")
        .allow_host("*.example.com")
        .allow_host("fine.example.com")
        .allow_origin("app.example.com")
        .allow_origin("https://app.example.com/")
        .allow_origin("null")
        .allow_origin("x".repeat(10_000));
    let problems = hosts.host_check().unwrap_err();
    assert_eq!(problems.len(), 6, "{problems:?}");
    assert_eq!(
        problems[0],
        "`https://mcp.example.com` is not a host with or without a port"
    );
    assert!(problems[2].starts_with("`app.example.com` is not an origin"));
    assert!(problems.iter().all(|problem| problem.len() < 300));
}
