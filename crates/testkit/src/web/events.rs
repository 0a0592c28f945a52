//! Reads a stream of server-sent events.

use super::{Asked, Wire};
use serde_json::Value;

/// One block of a stream, as it was sent: what a client would make of it is not judged here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Where to take the stream up again.
    pub id: Option<String>,
    /// Its kind.
    pub event: Option<String>,
    /// Its text; `Some("")` if it was said to be empty.
    pub data: Option<String>,
    /// How many milliseconds to wait before coming back.
    pub retry: Option<u64>,
}

/// Something on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(Event),
    /// A comment, which means nothing.
    Comment(String),
}

/// A stream of events. Dropping it closes its connection.
#[derive(Debug)]
pub struct Events {
    wire: Wire,
    asked: Asked,
    unread: Vec<u8>,
    block: Option<Event>,
    last_id: Option<String>,
}

impl Events {
    pub(super) const fn new(wire: Wire, asked: Asked) -> Self {
        Self {
            wire,
            asked,
            unread: Vec::new(),
            block: None,
            last_id: None,
        }
    }

    /// The last id that came.
    ///
    /// # Panics
    ///
    /// If there was none.
    #[must_use]
    pub fn last_id(&self) -> &str {
        let id = self.last_id.as_deref();
        id.expect("an event with an id must have come")
    }

    /// The next event or comment; `None` at the end of the stream.
    ///
    /// # Panics
    ///
    /// If the stream breaks off, or holds what no stream may.
    pub async fn item(&mut self) -> Option<Item> {
        loop {
            let Some(line) = self.line().await else {
                assert_eq!(self.block, None, "a stream must not end within an event");
                return None;
            };
            if line.is_empty() {
                if let Some(event) = self.block.take() {
                    if event.id.is_some() {
                        self.last_id.clone_from(&event.id);
                    }
                    return Some(Item::Event(event));
                }
                continue;
            }
            if let Some(comment) = line.strip_prefix(':') {
                return Some(Item::Comment(comment.trim().to_owned()));
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            let event = self.block.get_or_insert_default();
            match name {
                "id" => event.id = Some(value.to_owned()),
                "event" => event.event = Some(value.to_owned()),
                "retry" => event.retry = Some(value.parse().expect("retry is a number")),
                "data" => match &mut event.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    none => *none = Some(value.to_owned()),
                },
                other => panic!("a stream has no field {other}"),
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if let Item::Event(event) = self.item().await? {
                return Some(event);
            }
        }
    }

    /// The next message; `None` at the end of the stream.
    ///
    /// # Panics
    ///
    /// If it is no message that the protocol has.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            let event = self.event().await?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let plain = event.event.as_deref().unwrap_or("message");
            assert_eq!(plain, "message", "clients only hear of messages");
            let message = serde_json::from_str(&data).expect("an event must hold JSON");
            self.asked.check(&message);
            return Some(message);
        }
    }

    /// All messages up to the end of the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        messages
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Some(String::from_utf8(line).expect("a stream is UTF-8"));
            }
            match self.wire.next().await {
                Some(bytes) => self.unread.extend_from_slice(&bytes),
                None => {
                    assert!(
                        self.unread.is_empty(),
                        "a stream must not end within a line"
                    );
                    return None;
                }
            }
        }
    }
}
