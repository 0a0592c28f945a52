//! A request in the making.

use super::Asked;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Under which name 2026-07-28 requests say what they speak.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A request in the making. It begins as a client that knows the rules would send it, and is then
/// bent as the test needs it.
#[derive(Clone, Debug)]
#[must_use]
pub struct Request {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Request {
    fn new(method: Method, accept: &str) -> Self {
        Self {
            method,
            path: "/mcp".to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
        .header("accept", accept)
    }

    /// A POST of one message, in no session and without a version.
    pub fn post(message: &Value) -> Self {
        Self::new(Method::POST, "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string())
    }

    /// A GET of a stream, in no session.
    pub fn get() -> Self {
        Self::new(Method::GET, "text/event-stream")
    }

    /// The end of a session.
    pub fn delete() -> Self {
        Self::new(Method::DELETE, "application/json")
    }

    /// A request of 2026-07-28 with all that belongs to it. `params` may hold a part of `_meta`.
    ///
    /// # Panics
    ///
    /// If the parameters are no object.
    pub fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Self {
        let meta = &mut params["_meta"];
        if meta.is_null() {
            *meta = json!({});
        }
        for (name, value) in [
            (VERSION, json!("2026-07-28")),
            (
                "io.modelcontextprotocol/clientInfo",
                json!({"name": "testkit", "version": "0"}),
            ),
            ("io.modelcontextprotocol/clientCapabilities", json!({})),
        ] {
            let meta = meta.as_object_mut().expect("_meta is an object");
            meta.entry(name).or_insert(value);
        }
        let version = meta[VERSION].clone();
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str().map(str::to_owned),
            "resources/read" => params["uri"].as_str().map(str::to_owned),
            _ => None,
        };
        let message =
            json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
        let request = Self::post(&message)
            .header("mcp-protocol-version", version.as_str().unwrap_or_default())
            .header("mcp-method", method);
        match name {
            Some(name) => request.header("mcp-name", &name),
            None => request,
        }
    }

    /// Sets a header, in place of one there may be.
    ///
    /// # Panics
    ///
    /// If no header can be so.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let (name, value) = parsed(name, value);
        self.headers.insert(name, value);
        self
    }

    /// Adds a header beside one there may be.
    ///
    /// # Panics
    ///
    /// If no header can be so.
    pub fn also(mut self, name: &str, value: &str) -> Self {
        let (name, value) = parsed(name, value);
        self.headers.append(name, value);
        self
    }

    /// Leaves a header out.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Sends a bearer token.
    pub fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Goes somewhere else than to `/mcp`.
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Has another method.
    pub fn method(mut self, method: &str) -> Self {
        self.method = method.parse().expect("a method is a token");
        self
    }

    /// Has another body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// What its answer has to fit.
    pub(super) fn asked(&self) -> Asked {
        let message: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let modern = message["params"]["_meta"][VERSION].as_str();
        let header = self.headers.get("mcp-protocol-version");
        let header = header.and_then(|value| value.to_str().ok());
        Asked {
            version: modern.or(header).map(str::to_owned),
            method: message["method"].as_str().map(str::to_owned),
            id: message.get("id").cloned(),
        }
    }

    pub(super) fn into_http(self, address: SocketAddr) -> http::Request<Bytes> {
        let mut request = http::Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().expect("a path");
        *request.headers_mut() = self.headers;
        if !request.headers().contains_key("host") {
            let host = HeaderValue::from_str(&address.to_string());
            let host = host.expect("an address is visible ASCII");
            request.headers_mut().insert("host", host);
        }
        request
    }
}

fn parsed(name: &str, value: &str) -> (HeaderName, HeaderValue) {
    let name = name.parse().expect("a header's name");
    let value = HeaderValue::from_bytes(value.as_bytes());
    (name, value.expect("a header's value"))
}
