//! The text of server-sent events.

use std::{fmt, io::Write, time::Duration};

/// An empty comment, so that no proxy takes the connection for dead.
pub(crate) const KEEP_ALIVE: &[u8] = b":\n\n";

/// The id of an event: the stream within its session, and the message within the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) seq: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.stream, self.seq)
    }
}

/// Appends a message. It has an id only if it can be asked for again.
pub(crate) fn write_message(out: &mut Vec<u8>, id: Option<EventId>, message: &[u8]) {
    out.reserve(message.len() + 64);
    out.extend_from_slice(b"event: message\n");
    if let Some(id) = id {
        write_id(out, id);
    }
    write_data(out, message);
    out.push(b'\n');
}

/// Appends an event without a message, from which a client can resume before any message.
pub(crate) fn write_priming(out: &mut Vec<u8>, id: EventId, retry: Duration) {
    write_id(out, id);
    write_retry_line(out, retry);
    out.extend_from_slice(b"data: \n\n");
}

/// Appends how long a client should wait before it comes back.
pub(crate) fn write_retry(out: &mut Vec<u8>, retry: Duration) {
    write_retry_line(out, retry);
    out.push(b'\n');
}

/// Appends the address to which a client of HTTP+SSE sends its messages.
pub(crate) fn write_endpoint(out: &mut Vec<u8>, address: &str) {
    out.extend_from_slice(b"event: endpoint\n");
    write_data(out, address.as_bytes());
    out.push(b'\n');
}

/// The stream and the sequence number in an event's id. Only the form that [`write_message`] writes
/// is accepted: one event has one id.
pub(crate) fn parse_event_id(text: &str) -> Option<(u64, u64)> {
    let (stream, seq) = text.split_once('-')?;
    let id = EventId {
        stream: u64::from_str_radix(stream, 16).ok()?,
        seq: seq.parse().ok()?,
    };
    (id.to_string() == text).then_some((id.stream, id.seq))
}

fn write_id(out: &mut Vec<u8>, id: EventId) {
    writeln!(out, "id: {id}").expect("a vector takes every byte");
}

fn write_retry_line(out: &mut Vec<u8>, retry: Duration) {
    writeln!(out, "retry: {}", retry.as_millis()).expect("a vector takes every byte");
}

/// A line end in the text would end the field, so each line of the text is a field of its own.
fn write_data(out: &mut Vec<u8>, text: &[u8]) {
    let mut from = 0;
    let ends = memchr::memchr2_iter(b'\n', b'\r', text).chain([text.len()]);
    for to in ends {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&text[from..to]);
        out.push(b'\n');
        from = to + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    const ID: EventId = EventId {
        stream: 0x1f,
        seq: 12,
    };

    #[test]
    fn a_message_is_one_event_with_its_id() {
        assert_eq!(
            written(|out| write_message(out, Some(ID), b"{\"a\":1}")),
            "event: message\nid: 1f-12\ndata: {\"a\":1}\n\n"
        );
        assert_eq!(
            written(|out| write_message(out, None, b"{}")),
            "event: message\ndata: {}\n\n"
        );
    }

    #[test]
    fn no_text_can_end_its_event_or_add_a_field() {
        assert_eq!(
            written(|out| write_message(out, None, b"{\n\nid: 7\r\revent: x\r\n}")),
            "event: message\ndata: {\ndata: \ndata: id: 7\ndata: \ndata: event: x\ndata: \ndata: }\n\n"
        );
        assert_eq!(
            written(|out| write_endpoint(out, "/a\nid: 7")),
            "event: endpoint\ndata: /a\ndata: id: 7\n\n"
        );
    }

    #[test]
    fn a_priming_event_has_an_id_and_no_message() {
        assert_eq!(
            written(|out| write_priming(out, ID, Duration::from_millis(1500))),
            "id: 1f-12\nretry: 1500\ndata: \n\n"
        );
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for (stream, seq) in [(0, 0), (1, 7), (0xdead_beef, 1), (u64::MAX, u64::MAX)] {
            let text = EventId { stream, seq }.to_string();
            assert_eq!(parse_event_id(&text), Some((stream, seq)), "{text}");
        }
    }

    #[test]
    fn what_nobody_wrote_is_no_id() {
        let wrong = [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-+2",
            "01-2",
            "1-02",
            "A-1",
            "1-a",
            " 1-2",
            "1-2 ",
            "1--2",
            "g-1",
            "10000000000000000-1",
            "1-18446744073709551616",
            "é-1",
        ];
        for text in wrong {
            assert_eq!(parse_event_id(text), None, "{text:?}");
        }
    }
}
