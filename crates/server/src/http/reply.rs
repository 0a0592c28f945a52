//! HTTP responses.

use super::{headers::SESSION, stream};
use crate::{auth::Denied, rates::TooMany, route::Tone, wire};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use interlock_proto::{
    Code, Refusal, RpcCode, Version,
    era::Era,
    frame::{ErrorId, Malformed},
};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// What a request is answered with.
pub(crate) type Response = http::Response<Body>;

/// The body of a response.
pub(crate) enum Body {
    /// A message, or nothing.
    Whole(Full<Bytes>),
    /// A stream of messages.
    Events(stream::Body),
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Events(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(body) => body.size_hint(),
        }
    }
}

/// A response that says no. It is large, and mostly there is none.
pub(crate) type Refused = Box<Response>;

/// A message.
pub(crate) fn json(status: StatusCode, message: Bytes) -> Response {
    let mut response = Response::new(Body::Whole(Full::new(message)));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A stream of messages.
pub(crate) fn events(body: stream::Body) -> Response {
    event_stream(Body::Events(body))
}

/// A stream that ends without a message: its request was taken back.
pub(crate) fn nothing() -> Response {
    event_stream(Body::Whole(Full::default()))
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// It was taken, and needs no answer.
pub(crate) fn accepted() -> Response {
    empty(StatusCode::ACCEPTED)
}

/// It is done, and there is nothing to say.
pub(crate) fn no_content() -> Response {
    empty(StatusCode::NO_CONTENT)
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::Whole(Full::default()));
    *response.status_mut() = status;
    response
}

/// A refusal where no request is being answered, with the catalogue's own status.
pub(crate) fn refused(refusal: &Refusal) -> Refused {
    refused_with(status_of(refusal), refusal)
}

/// The catalogue's own status.
pub(crate) fn status_of(refusal: &Refusal) -> StatusCode {
    StatusCode::from_u16(refusal.http_status()).unwrap_or(StatusCode::BAD_REQUEST)
}

/// A refusal where no request is being answered, with the status that HTTP gives to it.
pub(crate) fn refused_with(status: StatusCode, refusal: &Refusal) -> Refused {
    with_status(status, &ErrorId::Absent, refusal)
}

/// A refusal with its status.
pub(crate) fn with_status(status: StatusCode, id: &ErrorId, refusal: &Refusal) -> Refused {
    let mut body = Vec::new();
    wire::error(&mut body, id, refusal);
    body.pop();
    Box::new(json(status, body.into()))
}

/// A message that is none.
pub(crate) fn malformed(malformed: &Malformed, version: Option<Version>) -> Refused {
    let status = if malformed.refusal.code() == Code::MessageTooLarge {
        StatusCode::PAYLOAD_TOO_LARGE
    } else {
        StatusCode::BAD_REQUEST
    };
    let id = malformed.id.clone();
    let id = id.map_or_else(|| ErrorId::unread(version), ErrorId::Known);
    with_status(status, &id, &malformed.refusal)
}

/// Somebody who may not come in.
pub(crate) fn denied(denied: &Denied) -> Refused {
    let mut response = refused_with(denied.status(), &denied.refusal());
    if let Some(challenge) = denied.www_authenticate() {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Somebody who comes too often.
pub(crate) fn exceeded(exceeded: &TooMany) -> Refused {
    let mut response = refused(&exceeded.refusal);
    let after = exceeded.retry_after;
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// A client that takes nothing that could be given to it.
pub(crate) fn not_acceptable(why: &'static str) -> Refused {
    let refusal = Refusal::new(Code::InvalidHeader).because(why);
    refused_with(StatusCode::NOT_ACCEPTABLE, &refusal)
}

/// A method that this version does not have.
pub(crate) fn method_not_allowed(refusal: &Refusal, allowed: &'static str) -> Refused {
    let mut response = refused_with(StatusCode::METHOD_NOT_ALLOWED, refusal);
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Tells the client the id of its new session.
pub(crate) fn add_session(response: &mut Response, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(&SESSION, id);
    }
}

/// The status that goes with the answer to a request.
pub(crate) fn tone(era: Era, tone: Tone) -> StatusCode {
    match tone {
        Tone::Result => StatusCode::OK,
        Tone::Error(code) => status(era, Some(code)),
    }
}

/// The status that goes with the answer to a request.
pub(crate) fn status(era: Era, error: Option<RpcCode>) -> StatusCode {
    match (era, error) {
        (Era::Handshake, _) | (Era::Stateless, None) => StatusCode::OK,
        (Era::Stateless, Some(RpcCode::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        (
            Era::Stateless,
            Some(
                RpcCode::HEADER_MISMATCH
                | RpcCode::MISSING_CAPABILITY
                | RpcCode::UNSUPPORTED_VERSION,
            ),
        ) => StatusCode::BAD_REQUEST,
        (Era::Stateless, Some(_)) => StatusCode::OK,
    }
}
