//! The text of server-sent events.

use std::{fmt, io::Write, time::Duration};

/// A line that says nothing, so that nobody on the way thinks the connection dead.
pub(crate) const KEEP_ALIVE: &[u8] = b":\n\n";

/// Where an event is: which stream of its session, and which one of that stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stream: u64,
    pub(crate) seq: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}", self.stream, self.seq)
    }
}

/// One message. It has an id only if it can be asked for again.
pub(crate) fn write_message(out: &mut Vec<u8>, place: Option<Place>, message: &[u8]) {
    out.reserve(message.len() + 64);
    out.extend_from_slice(b"event: message\n");
    if let Some(place) = place {
        write_id(out, place);
    }
    write_data(out, message);
    out.push(b'\n');
}

/// An event without a message, from which a client can resume before it was told anything.
pub(crate) fn write_priming(out: &mut Vec<u8>, place: Place, retry: Duration) {
    write_id(out, place);
    write_retry_line(out, retry);
    out.extend_from_slice(b"data: \n\n");
}

/// How long a client should wait before it comes back.
pub(crate) fn write_retry(out: &mut Vec<u8>, retry: Duration) {
    write_retry_line(out, retry);
    out.push(b'\n');
}

/// Where a client of HTTP+SSE sends its messages.
pub(crate) fn write_endpoint(out: &mut Vec<u8>, address: &str) {
    out.extend_from_slice(b"event: endpoint\n");
    write_data(out, address.as_bytes());
    out.push(b'\n');
}

/// The stream and the sequence number that an event's id names. Only what [`write_message`]
/// writes is understood: one event has one id.
pub(crate) fn parse_event_id(text: &str) -> Option<(u64, u64)> {
    let (stream, seq) = text.split_once('-')?;
    let place = Place {
        stream: u64::from_str_radix(stream, 16).ok()?,
        seq: seq.parse().ok()?,
    };
    (place.to_string() == text).then_some((place.stream, place.seq))
}

fn write_id(out: &mut Vec<u8>, place: Place) {
    writeln!(out, "id: {place}").expect("a vector takes every byte");
}

fn write_retry_line(out: &mut Vec<u8>, retry: Duration) {
    writeln!(out, "retry: {}", retry.as_millis()).expect("a vector takes every byte");
}

/// A line's end in the text would end the event's line, so each line of it has one of its own.
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

    const PLACE: Place = Place {
        stream: 0x1f,
        seq: 12,
    };

    #[test]
    fn a_message_is_one_event_with_its_id() {
        assert_eq!(
            written(|out| write_message(out, Some(PLACE), b"{\"a\":1}")),
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
            written(|out| write_priming(out, PLACE, Duration::from_millis(1500))),
            "id: 1f-12\nretry: 1500\ndata: \n\n"
        );
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for (stream, seq) in [(0, 0), (1, 7), (0xdead_beef, 1), (u64::MAX, u64::MAX)] {
            let text = Place { stream, seq }.to_string();
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
