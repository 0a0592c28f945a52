//! HTTP responses.

use crate::{
    api::auth::Denied,
    context::body_memory::BodyShare,
    transport::http::{event_stream::EventStream, headers::SESSION, in_flight::ReadBy},
    wire::{self, AnswerKind},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use interlock_proto::{
    Code, Refusal, RpcCode, Version,
    frame::{ErrorId, Malformed},
};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

/// The response to a request.
pub(crate) type Response = http::Response<Body>;

/// The body of a response, and what its client takes up until this is dropped.
pub(crate) struct Body {
    content: Content,
    unread: Option<(ReadBy, BodyShare)>,
}

enum Content {
    /// What is left of a message; or nothing.
    Message(Bytes),
    Events(EventStream),
}

/// A message is handed on in pieces of this size. The next one is asked for when there is room for
/// it, so a client that does not read holds one piece in the connection, and the rest is here.
const PIECE: usize = 64 * 1024;

impl Body {
    const fn new(content: Content) -> Self {
        let unread = None;
        Self { content, unread }
    }

    const fn empty() -> Self {
        Self::new(Content::Message(Bytes::new()))
    }

    /// Holds the slot of its request, and the memory for the message, until the response was read.
    /// False if there is no memory for it.
    pub(crate) fn hold(&mut self, slot: ReadBy, mut memory: BodyShare) -> bool {
        let size = match &self.content {
            Content::Message(message) => message.len(),
            // A stream has bounds of its own.
            Content::Events(_) => 0,
        };
        let has_room = memory.grow(size);
        self.unread = Some((slot, memory));
        has_room
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Message(left) if left.is_empty() => Poll::Ready(None),
            Content::Message(left) => {
                let piece = left.split_to(left.len().min(PIECE));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Content::Events(events) => Pin::new(events).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Message(left) => left.is_empty(),
            Content::Events(events) => events.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Message(left) => SizeHint::with_exact(left.len() as u64),
            Content::Events(_) => SizeHint::default(),
        }
    }
}

/// A response that refuses a request. Boxed, because it is large and mostly there is none.
pub(crate) type ErrorResponse = Box<Response>;

/// A message.
pub(crate) fn json(status: StatusCode, message: Bytes) -> Response {
    let mut response = Response::new(Body::new(Content::Message(message)));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A stream of messages.
pub(crate) fn events(body: EventStream) -> Response {
    event_stream(Body::new(Content::Events(body)))
}

/// A stream that ends without a message: its request was cancelled.
pub(crate) fn nothing() -> Response {
    event_stream(Body::empty())
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

/// The message was taken, and needs no answer.
pub(crate) fn accepted() -> Response {
    empty(StatusCode::ACCEPTED)
}

/// It is done, and there is nothing to tell.
pub(crate) fn no_content() -> Response {
    empty(StatusCode::NO_CONTENT)
}

/// A status and nothing else.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// The response to HEAD, from that to the same request with another method.
pub(crate) fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response.map(|_| Body::empty())
}

/// A path that has other methods.
pub(crate) fn only_allowed(methods: &'static str) -> Response {
    let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
    let allow = HeaderValue::from_static(methods);
    response.headers_mut().insert(header::ALLOW, allow);
    response
}

/// A refusal where no request is being answered, with the catalogue's own status.
pub(crate) fn refused(refusal: &Refusal) -> ErrorResponse {
    refused_with(status_of(refusal), refusal)
}

/// The catalogue's own status.
pub(crate) fn status_of(refusal: &Refusal) -> StatusCode {
    StatusCode::from_u16(refusal.http_status()).unwrap_or(StatusCode::BAD_REQUEST)
}

/// A refusal where no request is being answered, with the status that HTTP gives to it.
pub(crate) fn refused_with(status: StatusCode, refusal: &Refusal) -> ErrorResponse {
    with_status(status, &ErrorId::Absent, refusal)
}

/// A refusal with its status.
pub(crate) fn with_status(status: StatusCode, id: &ErrorId, refusal: &Refusal) -> ErrorResponse {
    let mut body = Vec::new();
    wire::error(&mut body, id, refusal);
    body.pop();
    Box::new(json(status, body.into()))
}

/// A message that could not be read.
pub(crate) fn malformed(malformed: &Malformed, version: Option<Version>) -> ErrorResponse {
    let status = if malformed.refusal.code() == Code::MessageTooLarge {
        StatusCode::PAYLOAD_TOO_LARGE
    } else {
        StatusCode::BAD_REQUEST
    };
    with_status(status, &malformed.error_id(version), &malformed.refusal)
}

/// The client is not authenticated, or not allowed.
pub(crate) fn denied(denied: &Denied) -> ErrorResponse {
    let mut response = refused_with(denied.status(), &denied.refusal());
    if let Some(challenge) = denied.www_authenticate() {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The client sends too many requests.
pub(crate) fn exceeded(refusal: &Refusal) -> ErrorResponse {
    let mut response = refused(refusal);
    let after = refusal.retry_after().unwrap_or_default();
    let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The client accepts no type of answer that there is.
pub(crate) fn not_acceptable(why: &'static str) -> ErrorResponse {
    let refusal = Refusal::new(Code::InvalidHeader).because(why);
    refused_with(StatusCode::NOT_ACCEPTABLE, &refusal)
}

/// A method that this version does not have.
pub(crate) fn method_not_allowed(refusal: &Refusal, allowed: &'static str) -> ErrorResponse {
    let mut response = refused_with(StatusCode::METHOD_NOT_ALLOWED, refusal);
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Tells the client the id of its new session.
pub(crate) fn add_session(response: &mut Response, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(SESSION, id);
    }
}

/// The status of an answer on 2026-07-28. On earlier versions it is always 200.
pub(crate) fn stateless_status(kind: AnswerKind) -> StatusCode {
    match kind {
        AnswerKind::Error(RpcCode::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        AnswerKind::Error(
            RpcCode::HEADER_MISMATCH | RpcCode::MISSING_CAPABILITY | RpcCode::UNSUPPORTED_VERSION,
        ) => StatusCode::BAD_REQUEST,
        AnswerKind::Result | AnswerKind::Error(_) => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        context::body_memory::BodyMemory,
        outbound::subscribers::QuotaOwner,
        transport::http::in_flight::{Bounds, InFlight},
    };
    use interlock_engine::Principal;

    #[test]
    fn a_message_counts_until_its_response_is_dropped() {
        let memory = BodyMemory::new(16);
        let in_flight = InFlight::new(Bounds {
            at_work: 10,
            waiting: 10,
            per_principal: 10,
        });
        let hold = |message: &'static [u8]| {
            let owner = QuotaOwner::Principal(Principal::anonymous());
            let slot = ReadBy(in_flight.enter(owner).unwrap());
            let mut response = json(StatusCode::OK, Bytes::from_static(message));
            let has_room = response.body_mut().hold(slot, BodyShare::none(&memory));
            (has_room, response)
        };
        let (has_room, first) = hold(b"0123456789");
        assert!(has_room);
        assert!(!hold(b"0123456").0, "six bytes are left");
        drop(first);
        assert!(hold(b"0123456789").0);
        assert_eq!(memory.left_for(1), 16);
    }
}
