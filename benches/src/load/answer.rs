//! Answers of HTTP/1.1 as they arrive: whole, in chunks, or as a stream of events.

use std::borrow::Cow;

use anyhow::{Context, Result, bail};

/// More than any header of a server that is measured here.
const LONGEST_HEAD: usize = 16 * 1024;

/// An answer that has arrived completely.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) session: Option<&'a str>,
    /// The message: the body, or the last event of a stream.
    pub(crate) message: Cow<'a, [u8]>,
    /// How many events came before it.
    pub(crate) before: u64,
    /// How many bytes all of it was.
    pub(crate) length: usize,
}

/// The answer at the beginning of what was read so far, if all of it is there.
pub(crate) fn parse(read: &[u8]) -> Result<Option<Answer<'_>>> {
    let Some(end) = memchr::memmem::find(read, b"\r\n\r\n") else {
        if read.len() > LONGEST_HEAD {
            bail!("an answer whose head does not end");
        }
        return Ok(None);
    };
    let head = Head::parse(std::str::from_utf8(&read[..end]).context("the head of an answer")?)?;
    let rest = &read[end + 4..];
    let Some((body, taken)) = head.body(rest)? else {
        return Ok(None);
    };
    let (message, before) = if head.is_stream {
        last_event(&body)
    } else {
        (body, 0)
    };
    Ok(Some(Answer {
        status: head.status,
        session: head.session,
        message,
        before,
        length: end + 4 + taken,
    }))
}

struct Head<'a> {
    status: u16,
    length: Length,
    is_stream: bool,
    session: Option<&'a str>,
}

enum Length {
    Known(usize),
    Chunked,
}

impl<'a> Head<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3));
        let status = status.and_then(|status| status.parse().ok());
        let mut head = Self {
            status: status.with_context(|| format!("`{first}` is no HTTP/1.1"))?,
            length: Length::Known(0),
            is_stream: false,
            session: None,
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            head.take(name, value.trim())?;
        }
        Ok(head)
    }

    fn take(&mut self, name: &str, value: &'a str) -> Result<()> {
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().context("the length of an answer")?;
            self.length = Length::Known(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.eq_ignore_ascii_case("chunked") {
                bail!("an answer in the encoding `{value}`");
            }
            self.length = Length::Chunked;
        } else if name.eq_ignore_ascii_case("content-type") {
            self.is_stream = value.starts_with("text/event-stream");
        } else if name.eq_ignore_ascii_case("mcp-session-id") {
            self.session = Some(value);
        }
        Ok(())
    }

    /// The body and how many bytes it took, if all of it is there.
    fn body<'b>(&self, rest: &'b [u8]) -> Result<Option<(Cow<'b, [u8]>, usize)>> {
        match self.length {
            Length::Known(length) => {
                Ok(rest.get(..length).map(|body| (Cow::Borrowed(body), length)))
            }
            Length::Chunked => chunks(rest),
        }
    }
}

/// All chunks in one piece, if the last one is there.
fn chunks(bytes: &[u8]) -> Result<Option<(Cow<'_, [u8]>, usize)>> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = memchr::memmem::find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&bytes[at..at + line])?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).context("the size of a chunk")?;
        let begin = at + line + 2;
        let end = begin.checked_add(size).context("the size of a chunk")?;
        match bytes.get(end..end.saturating_add(2)) {
            None => return Ok(None),
            Some(b"\r\n") => at = end + 2,
            Some(_) => bail!("a chunk that is not as long as it says"),
        }
        if size == 0 {
            break;
        }
        pieces.push(&bytes[begin..end]);
    }
    let body = match *pieces {
        [only] => Cow::Borrowed(only),
        _ => Cow::Owned(pieces.concat()),
    };
    Ok(Some((body, at)))
}

/// The data of the last event that has any, and how many came before.
fn last_event<'a>(stream: &[u8]) -> (Cow<'a, [u8]>, u64) {
    let (mut last, mut event, mut events) = (Vec::new(), Vec::new(), 0_u64);
    for line in stream.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if !event.is_empty() {
                last = std::mem::take(&mut event);
                events += 1;
            }
        } else if let Some(data) = line.strip_prefix(b"data:") {
            event.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
        }
    }
    (Cow::Owned(last), events.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer in these bytes, which must not be seen before the last of them.
    #[track_caller]
    fn whole(bytes: &str) -> Answer<'_> {
        for end in 0..bytes.len() {
            let early = parse(&bytes.as_bytes()[..end]).unwrap();
            assert_eq!(early, None, "after {end} bytes");
        }
        let answer = parse(bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(answer.length, bytes.len());
        answer
    }

    #[test]
    fn a_body_of_known_length_is_taken_as_it_is() {
        let answer = whole("HTTP/1.1 200 OK\r\nMcp-Session-Id: a1\r\nContent-Length: 2\r\n\r\n{}");
        assert_eq!((answer.status, answer.session), (200, Some("a1")));
        assert_eq!(&*answer.message, b"{}");
    }

    #[test]
    fn an_answer_without_a_body_ends_with_its_head() {
        let answer = whole("HTTP/1.1 202 Accepted\r\ndate: now\r\n\r\n");
        assert_eq!((answer.status, &*answer.message), (202, &b""[..]));
    }

    #[test]
    fn chunks_are_put_together() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let one = format!("{head}2\r\n{{}}\r\n0\r\n\r\n");
        assert_eq!(&*whole(&one).message, b"{}");
        let two = format!("{head}2;a=b\r\n{{\"\r\nA\r\nabcdefghij\r\n0\r\n\r\n");
        assert_eq!(&*whole(&two).message, b"{\"abcdefghij");
    }

    #[test]
    fn the_last_event_of_a_stream_is_the_message() {
        let stream = "id: 0\r\nretry: 3000\r\ndata:\r\n\r\n: comment\n\ndata: {}\n\nid: 1\ndata: {\"id\":\ndata: 1}\n\n";
        let bytes = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
             {:x}\r\n{stream}\r\n0\r\n\r\n",
            stream.len()
        );
        let answer = whole(&bytes);
        assert_eq!(&*answer.message, br#"{"id":1}"#);
        assert_eq!(answer.before, 1);
    }

    #[test]
    fn what_follows_an_answer_is_left_alone() {
        let bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1HTTP/1.1 200 OK\r\n";
        let answer = parse(bytes).unwrap().unwrap();
        assert_eq!(answer.length, bytes.len() - 17);
    }

    #[test]
    fn nonsense_is_an_error() {
        for bytes in [
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ] {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes}");
        }
        assert!(parse(&[b'a'; LONGEST_HEAD + 1]).is_err());
    }
}
