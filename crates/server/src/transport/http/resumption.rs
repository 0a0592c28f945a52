//! Where a client goes on: with what is new, or after the event that its `Last-Event-ID` names.
//!
//! Which messages come after an event is decided in `outbound/backlog.rs`, `rewind`. How long the
//! streams are kept is decided in `kept_streams.rs`.

use crate::{
    outbound::stream::Stream,
    transport::http::{
        event_stream::event::parse_event_id,
        headers::LAST_EVENT,
        response::{self, ErrorResponse},
        session::HttpSession,
    },
};
use http::HeaderMap;
use interlock_proto::{Code, Refusal};
use std::sync::Arc;

/// The stream that a GET is to read, and the number of the message after which it begins.
pub(crate) fn resume(
    session: &HttpSession,
    headers: &HeaderMap,
) -> Result<(Arc<Stream>, u64), ErrorResponse> {
    match last_event(headers)? {
        None => {
            let stream = Arc::clone(session.stream.stream());
            let sent = stream.last_sent();
            Ok((stream, sent))
        }
        Some((number, seq)) => {
            let stream = session.find_stream(number).ok_or_else(nothing_to_resume)?;
            Ok((stream, seq))
        }
    }
}

fn last_event(headers: &HeaderMap) -> Result<Option<(u64, u64)>, ErrorResponse> {
    let mut values = headers.get_all(LAST_EVENT).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let event = value.to_str().ok().and_then(parse_event_id);
    match event {
        Some(event) if values.next().is_none() => Ok(Some(event)),
        Some(_) | None => Err(nothing_to_resume()),
    }
}

fn nothing_to_resume() -> ErrorResponse {
    let refusal = Refusal::new(Code::InvalidHeader)
        .because("there is no stream with this Last-Event-ID in this session");
    response::refused(&refusal)
}
