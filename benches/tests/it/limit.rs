//! The limit is no less of a server than it must be: it looks sessions up and compares headers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

/// A server that ends with its test.
struct Limit {
    child: Child,
    address: String,
}

impl Limit {
    fn listening() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let child = Command::new(env!("CARGO_BIN_EXE_limit"))
            .args(["--http", &address])
            .spawn()
            .unwrap();
        let mut limit = Self { child, address };
        while TcpStream::connect(&limit.address).is_err() {
            assert_eq!(limit.child.try_wait().unwrap(), None, "it ended by itself");
            std::thread::yield_now();
        }
        limit
    }

    /// Sends a request with these headers, and returns the answer as it comes.
    fn post(&self, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, length) = (&self.address, body.len());
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"a\"b","method":"{method}","params":{{{params}}}}}"#)
}

#[test]
fn a_session_is_opened_known_by_its_id_and_not_by_another() {
    let limit = Limit::listening();
    let opened = limit.post("", &request("initialize", ""));
    let mut lines = opened.lines();
    let id = lines
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .unwrap();
    let echo = request("tools/call", r#""name":"echo","arguments":{"text":"a\nb"}"#);
    let answer = limit.post(&format!("mcp-session-id: {id}\r\n"), &echo);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let wanted = r#"{"jsonrpc":"2.0","id":"a\"b","result":{"content":[{"type":"text","text":"a\nb"}],"isError":false}}"#;
    assert!(answer.ends_with(wanted), "{answer}");
    for header in ["", "mcp-session-id: made-up\r\n"] {
        let refused = limit.post(header, &echo);
        assert!(refused.starts_with("HTTP/1.1 404 "), "{refused}");
    }
}

#[test]
fn headers_that_say_something_else_than_the_body_are_refused() {
    let limit = Limit::listening();
    let echo = format!(r#""name":"echo","arguments":{{"text":"hi"}},{META}"#);
    let echo = request("tools/call", &echo);
    let version = "mcp-protocol-version: 2026-07-28\r\n";
    let asked = |more: &str| limit.post(&format!("{version}{more}"), &echo);
    let answer = asked("mcp-method: tools/call\r\nmcp-name: echo\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#""resultType":"complete""#), "{answer}");
    for headers in [
        "",
        "mcp-method: tools/call\r\n",
        "mcp-method: tools/call\r\nmcp-name: other\r\n",
        "mcp-method: tools/list\r\nmcp-name: echo\r\n",
    ] {
        let refused = asked(headers);
        assert!(refused.starts_with("HTTP/1.1 400 "), "{headers}: {refused}");
    }
}

#[test]
fn lines_are_answered_in_order_and_notifications_are_not() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_limit"))
        .args(["--stdio", "--tools", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", request("ping", "")).unwrap();
    writeln!(
        input,
        r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#
    )
    .unwrap();
    writeln!(input, "nonsense").unwrap();
    writeln!(input, "{}", request("tools/list", "")).unwrap();
    drop(input);
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = output.lines().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], r#"{"jsonrpc":"2.0","id":"a\"b","result":{}}"#);
    assert!(lines[1].contains("-32700"), "{lines:?}");
    assert!(
        lines[2].contains("tool_01") && !lines[2].contains("tool_02"),
        "{lines:?}"
    );
}
