//! `interlock serve` on pipes, and a client of it.

use crate::stage::{Heard, Stage};
use serde_json::{Value, json};
use std::{
    io::Write,
    process::{Child, ChildStdin, Command, Stdio},
};

/// A server on pipes.
pub(crate) struct Served {
    child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: Heard,
    stderr: Heard,
    next_id: u64,
}

impl Served {
    pub(crate) fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let mut served = Self::spawn(stage, arguments);
        served.initialize();
        served.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        served
    }

    pub(crate) fn spawn(stage: &Stage, arguments: &[&str]) -> Self {
        let all: Vec<_> = ["serve", "flow.yaml"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let mut child = stage
            .interlock(&all)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self {
            stdin: child.stdin.take(),
            child,
            stdout: Heard::of(|| stdout),
            stderr: Heard::of(|| stderr),
            next_id: 0,
        }
    }

    pub(crate) fn initialize(&mut self) -> Value {
        self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "0"},
            }),
        )
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(message.to_string().as_bytes());
    }

    /// Writes a line, whatever it holds.
    pub(crate) fn send_bytes(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    /// The next line, whatever it answers.
    pub(crate) fn next(&self) -> Value {
        let line = self.stdout.next().expect("a line must come");
        serde_json::from_str(&line).expect("every line is JSON")
    }

    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request; everything on standard output must be protocol.
    pub(crate) fn until(&self, id: u64) -> Value {
        loop {
            let line = self.stdout.next().expect("an answer must come");
            let message: Value = serde_json::from_str(&line).expect("every line is JSON");
            assert_eq!(message["jsonrpc"], "2.0");
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.until(id)
    }

    pub(crate) fn begin_call(&mut self, tool: &str) -> u64 {
        self.begin("tools/call", json!({"name": tool, "arguments": {}}))
    }

    pub(crate) fn call(&mut self, tool: &str) -> Value {
        self.call_with(tool, json!({}))
    }

    pub(crate) fn call_with(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.request("tools/call", params)["result"].take()
    }

    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// The next line on standard error.
    pub(crate) fn heard(&self) -> Option<String> {
        self.stderr.next()
    }

    /// Waits for a line of the log.
    pub(crate) fn logged(&self, words: &str) {
        while let Some(line) = self.stderr.next() {
            if line.contains(words) {
                return;
            }
        }
        panic!("it was never logged: {words}");
    }

    /// The exit code, once both streams have ended.
    pub(crate) fn code(mut self) -> Option<i32> {
        self.stdin = None;
        while self.stdout.next().is_some() {}
        while self.stderr.next().is_some() {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}
