//! CORS: what browsers are told, so that pages of allowed origins can use the server.
//!
//! Whether an origin is allowed is decided in [`host_check`](super::host_check). A page of any
//! other origin is refused as everybody is, and its browser is told nothing.
//! Spec: Fetch, section "CORS protocol".

use crate::transport::http::{
    headers::{HEADER_PARAM, LAST_EVENT, SESSION},
    response::{self, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts};

/// The methods of all paths.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// What a page may read of a response, besides what every page may.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("Mcp-Session-Id, Retry-After, WWW-Authenticate");
/// For how many seconds a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// The headers that a page may send, besides those of arguments.
const ALLOWED: [&str; 8] = [
    "accept",
    "authorization",
    "content-type",
    LAST_EVENT,
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    SESSION,
];

/// The answer to a browser that asks whether a page may send a request; none if it does not ask.
pub(crate) fn preflight(parts: &Parts) -> Option<Response> {
    let asks = parts
        .headers
        .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if parts.method != Method::OPTIONS || !asks {
        return None;
    }
    let mut response = response::no_content();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        allowed_headers(&parts.headers),
    );
    Some(response)
}

/// Lets pages of this origin read the response.
pub(crate) fn let_read(response: &mut Response, origin: &HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// The headers that a page may send: the usual ones, and what it asks for that carries an argument.
fn allowed_headers(asked: &HeaderMap) -> HeaderValue {
    let asked = asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let lines = asked.iter().filter_map(|line| line.to_str().ok());
    let names = lines.flat_map(|line| line.split(','));
    let names = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    let mut allowed = ALLOWED.join(", ");
    for name in names.filter(|name| name.as_str().starts_with(HEADER_PARAM)) {
        allowed.push_str(", ");
        allowed.push_str(name.as_str());
    }
    HeaderValue::try_from(allowed).expect("names of headers make a value")
}
