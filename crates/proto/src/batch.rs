//! Several messages in one array, as 2025-03-26 has them and no other version.
//!
//! Each member is judged on its own, so one that is wrong costs the others nothing. What the
//! members are answered with goes out together, as one array on one line; a batch that holds
//! nothing to be answered is answered with nothing.

use crate::{
    Code, Refusal, Version,
    era::{self, Method},
    frame::{self, Frame, Limits, Malformed, Reply},
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::fmt;

/// How many messages a batch may hold.
pub const MOST: usize = 1_024;

/// What came in one piece.
#[expect(
    clippy::large_enum_variant,
    reason = "it is nearly always one message, and never kept"
)]
#[derive(Clone, Debug)]
pub enum Incoming<'a> {
    /// One message.
    One(Frame<'a>),
    /// Several of them.
    Batch(Batch<'a>),
}

/// Several messages, each judged on its own.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// The messages, in the order in which they came; never none.
    pub members: Vec<Result<Frame<'a>, Malformed>>,
}

impl Batch<'_> {
    /// Where the answers are collected. It waits for one word on each member that is a request,
    /// and on each malformed one whose sender gets to know.
    #[must_use]
    pub fn answers(&self) -> Answers {
        let wanted = |member: &&Result<Frame<'_>, Malformed>| match member {
            Ok(Frame::Request(_)) => true,
            Ok(Frame::Notification(_) | Frame::Response(_)) => false,
            Err(malformed) => malformed.reply == Reply::Error,
        };
        Answers {
            waiting: self.members.iter().filter(wanted).count(),
            out: Vec::new(),
        }
    }
}

/// Whether this may be a batch. Of anything else the version does not matter to [`parse`].
#[must_use]
pub fn is_likely(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'[')
}

/// Reads one message, or a batch if the version that was agreed on has them.
///
/// ```
/// use interlock_proto::{Version, batch::{Incoming, parse}, frame::Limits};
///
/// let bytes = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}, 5]"#;
/// let version = Some(Version::V2025_03_26);
/// let Ok(Incoming::Batch(batch)) = parse(bytes, &Limits::default(), version) else { panic!() };
/// assert!(batch.members[0].is_ok() && batch.members[1].is_err());
/// assert!(parse(bytes, &Limits::default(), Some(Version::V2025_11_25)).is_err());
/// ```
///
/// # Errors
///
/// [`Malformed`] for anything that is neither one message nor a batch, for a batch where the
/// version has none, and for one that is empty or holds more than [`MOST`] messages.
pub fn parse<'a>(
    bytes: &'a [u8],
    limits: &Limits,
    version: Option<Version>,
) -> Result<Incoming<'a>, Malformed> {
    let text = frame::text(bytes, limits)?;
    if !is_likely(bytes) || !version.is_some_and(Version::has_batches) {
        return frame::judge(text, limits).map(Incoming::One);
    }
    let Members { raw, more } = serde_json::from_str(text)
        .map_err(|error| Malformed::unread(frame::not_an_object(text, &error)))?;
    if raw.is_empty() {
        return Err(Malformed::unread(frame::invalid("the batch is empty")));
    }
    if more {
        let refusal = Refusal::new(Code::MessageTooLarge)
            .because(format!("the batch holds more than {MOST} messages"));
        return Err(Malformed::unread(refusal));
    }
    let members = raw
        .into_iter()
        .map(|raw| frame::judge(raw.get(), limits).and_then(batched))
        .collect();
    Ok(Incoming::Batch(Batch { members }))
}

/// The answers to one batch, until they are complete.
///
/// ```
/// use interlock_proto::{Version, batch::{Incoming, parse}, frame::{Limits, write_result}};
///
/// let bytes = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
/// let version = Some(Version::V2025_03_26);
/// let Ok(Incoming::Batch(batch)) = parse(bytes, &Limits::default(), version) else { panic!() };
/// let mut answers = batch.answers();
/// let mut answer = Vec::new();
/// write_result(&mut answer, &1.into(), &serde_json::json!({})).unwrap();
/// answers.answered(&answer);
/// assert!(answers.is_complete());
/// assert_eq!(answers.finish().unwrap(), br#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    waiting: usize,
    out: Vec<u8>,
}

impl Answers {
    /// One member has its answer: a message as the functions of [`frame`] write it.
    pub fn answered(&mut self, message: &[u8]) {
        self.out.push(if self.out.is_empty() { b'[' } else { b',' });
        self.out.extend_from_slice(message);
        self.suppressed();
    }

    /// One member will get none: it was taken back, or dropped as a duplicate.
    pub const fn suppressed(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Whether every member that waits for an answer has got its own.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.waiting == 0
    }

    /// The answers as one line, without the line's end. `None`: there is nothing to answer.
    #[must_use]
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.out.is_empty() {
            return None;
        }
        self.out.push(b']');
        Some(self.out)
    }
}

/// What is a message, and may yet not stand in a batch: 2025-03-26, "Lifecycle", "Initialization".
fn batched(frame: Frame<'_>) -> Result<Frame<'_>, Malformed> {
    match frame {
        Frame::Request(request) if request.method == Method::Initialize.name() => Err(Malformed {
            id: Some(request.id),
            number: None,
            refusal: frame::invalid("`initialize` must not be part of a batch"),
            reply: Reply::Error,
        }),
        // Whatever its `_meta` says, readable or not: 2026-07-28 has no batches.
        Frame::Request(request) if !matches!(era::modern(request.params.as_ref()), Ok(None)) => {
            Err(Malformed {
                id: Some(request.id),
                number: None,
                refusal: frame::invalid("a 2026-07-28 request must not be part of a batch"),
                reply: Reply::Error,
            })
        }
        Frame::Request(_) | Frame::Notification(_) | Frame::Response(_) => Ok(frame),
    }
}

/// The members of an array, as they were written, and no more than may be there.
struct Members<'a> {
    raw: Vec<&'a RawValue>,
    more: bool,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;

        impl<'de> Visitor<'de> for Bounded {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut raw = Vec::new();
                while raw.len() < MOST {
                    let Some(member) = seq.next_element()? else {
                        return Ok(Members { raw, more: false });
                    };
                    raw.push(member);
                }
                let mut more = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    more = true;
                }
                Ok(Members { raw, more })
            }
        }

        deserializer.deserialize_seq(Bounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestId, RpcCode};

    const WITH: Option<Version> = Some(Version::V2025_03_26);
    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    fn read(text: &str, version: Option<Version>) -> Result<Incoming<'_>, Malformed> {
        parse(text.as_bytes(), &Limits::default(), version)
    }

    #[track_caller]
    fn batch(text: &str) -> Batch<'_> {
        match read(text, WITH) {
            Ok(Incoming::Batch(batch)) => batch,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_version_has_batches_and_the_others_refuse_them() {
        let text = format!("[{PING}]");
        for version in Version::ALL.iter().copied().map(Some).chain([None]) {
            match read(&text, version) {
                Ok(Incoming::Batch(batch)) => {
                    assert_eq!((version, batch.members.len()), (WITH, 1));
                }
                Err(malformed) => {
                    assert_ne!(version, WITH);
                    assert_eq!(malformed.refusal.rpc_code(), RpcCode::INVALID_REQUEST);
                    assert_eq!((malformed.id, malformed.reply), (None, Reply::Error));
                }
                Ok(one) => panic!("{one:?}"),
            }
            assert!(matches!(read(PING, version), Ok(Incoming::One(_))));
        }
    }

    #[test]
    fn each_member_is_judged_on_its_own() {
        let text = format!(
            r#" [ {PING}, 5, [{PING}], {{"jsonrpc":"2.0","method":"told"}},
                {{"jsonrpc":"1.0","method":"untold"}}, {{"id":7,"method":"x"}} ] "#
        );
        let batch = batch(&text);
        let [ping, five, nested, told, untold, unnamed] = &batch.members[..] else {
            panic!("{batch:?}")
        };
        assert!(matches!(ping, Ok(Frame::Request(request)) if request.id == 1.into()));
        assert!(matches!(told, Ok(Frame::Notification(_))));
        for (member, id, reply) in [
            (five, None, Reply::Error),
            (nested, None, Reply::Error),
            (untold, None, Reply::None),
            (unnamed, Some(RequestId::Number(7)), Reply::Error),
        ] {
            let malformed = member.as_ref().unwrap_err();
            assert_eq!((&malformed.id, malformed.reply), (&id, reply));
        }
    }

    #[test]
    fn a_request_that_stands_alone_is_refused_inside() {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let alone = format!(
            r#"[{{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{{"_meta":{meta}}}}},{PING}]"#
        );
        let Ok(Incoming::Batch(batch)) = parse(
            alone.as_bytes(),
            &Limits::default(),
            Some(Version::V2025_03_26),
        ) else {
            panic!("{alone}");
        };
        let malformed = batch.members[0].as_ref().unwrap_err();
        assert_eq!(malformed.id, Some("a".into()));
        assert!(batch.members[1].is_ok());
    }

    #[test]
    fn initialize_inside_is_refused_and_the_rest_is_not() {
        let text =
            format!(r#"[{{"jsonrpc":"2.0","id":"a","method":"initialize","params":{{}}}},{PING}]"#);
        let batch = batch(&text);
        let malformed = batch.members[0].as_ref().unwrap_err();
        assert_eq!(malformed.id, Some("a".into()));
        assert_eq!(malformed.refusal.rpc_code(), RpcCode::INVALID_REQUEST);
        assert!(batch.members[1].is_ok());
    }

    #[test]
    fn a_batch_holds_one_member_at_least_and_so_many_at_most() {
        let malformed = read("[]", WITH).unwrap_err();
        assert_eq!(malformed.refusal.rpc_code(), RpcCode::INVALID_REQUEST);
        let of = |members: usize| format!("[{}]", vec!["1"; members].join(","));
        assert_eq!(batch(&of(MOST)).members.len(), MOST);
        let malformed = read(&of(MOST + 1), WITH).unwrap_err();
        assert_eq!(malformed.refusal.code(), Code::MessageTooLarge);
    }

    #[test]
    fn what_is_no_json_is_no_batch() {
        for text in [
            "[",
            "[1,]",
            "[1 2]",
            &format!("[{PING}] x"),
            &format!("[{}", "1,".repeat(5_000)),
        ] {
            let malformed = read(text, WITH).unwrap_err();
            assert_eq!(malformed.refusal.rpc_code(), RpcCode::PARSE_ERROR);
        }
    }

    #[test]
    fn the_answers_go_out_together_when_all_are_there() {
        let two = format!(r#"[{PING},{{"jsonrpc":"2.0","method":"told"}},7]"#);
        let mut answers = batch(&two).answers();
        assert!(!answers.is_complete());
        answers.answered(br#"{"a":1}"#);
        assert!(!answers.is_complete());
        answers.answered(br#"{"b":2}"#);
        assert!(answers.is_complete());
        assert_eq!(answers.finish().unwrap(), br#"[{"a":1},{"b":2}]"#);
    }

    #[test]
    fn a_batch_without_requests_is_answered_with_nothing() {
        let text = r#"[{"jsonrpc":"2.0","method":"told"},{"jsonrpc":"2.0","id":1,"result":{}}]"#;
        let answers = batch(text).answers();
        assert!(answers.is_complete());
        assert_eq!(answers.finish(), None);
        let text = format!("[{PING}]");
        let mut taken_back = batch(&text).answers();
        taken_back.suppressed();
        assert!(taken_back.is_complete());
        assert_eq!(taken_back.finish(), None);
    }
}
