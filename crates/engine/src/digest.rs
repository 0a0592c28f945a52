//! A digest of one request: the same for the same request, and for no other one.

use crate::principal::Principal;
use interlock_workflow::Shortened;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io;

/// The digest of a request: who asks, what for, and with which arguments.
///
/// ```
/// use interlock_engine::{Principal, request_digest};
///
/// let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
/// let of = |who| request_digest(who, "tools/call", "pay", None);
/// assert_eq!(of(&alice), of(&alice));
/// assert_ne!(of(&alice), of(&bob));
/// ```
#[must_use]
pub fn request_digest(
    principal: &Principal,
    method: &str,
    name: &str,
    arguments: Option<&Map<String, Value>>,
) -> [u8; 32] {
    let mut digest = Canonical(Sha256::new());
    digest.mark(u8::from(!principal.is_anonymous()));
    digest.text(principal.id());
    digest.text(method);
    digest.text(name);
    digest.mark(u8::from(arguments.is_some()));
    if let Some(arguments) = arguments {
        digest.arguments(arguments);
    }
    digest.0.finalize().into()
}

/// How much is shown of arguments that are too large, in bytes.
const BEGINNING: usize = 256;

/// What is kept of arguments of more than so many bytes of JSON; nothing if they are to be kept whole.
pub(crate) fn shortened(args: &Value, most: usize) -> Option<Shortened> {
    let mut measure = Measure::default();
    serde_json::to_writer(&mut measure, args).expect("hashing cannot fail");
    let Measure {
        hash,
        bytes,
        begins,
    } = measure;
    (bytes > most).then(|| Shortened {
        // A character may be cut at the end.
        begins: begins.utf8_chunks().map(|chunk| chunk.valid()).collect(),
        bytes,
        sha256: hex(&hash.finalize()),
    })
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Counts and hashes what is written, and keeps its beginning.
#[derive(Default)]
struct Measure {
    hash: Sha256,
    bytes: usize,
    begins: Vec<u8>,
}

impl io::Write for Measure {
    fn write(&mut self, some: &[u8]) -> io::Result<usize> {
        let room = BEGINNING - self.begins.len();
        self.begins.extend_from_slice(&some[..some.len().min(room)]);
        self.hash.update(some);
        self.bytes += some.len();
        Ok(some.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hashes data so that different data never looks the same: everything says what it is and how
/// long, and members of objects stand in the order of their names.
struct Canonical(Sha256);

/// What is still to be hashed of a value.
enum Piece<'a> {
    Name(&'a str),
    Value(&'a Value),
}

impl Canonical {
    fn mark(&mut self, mark: u8) {
        self.0.update([mark]);
    }

    fn length(&mut self, length: usize) {
        // No platform has lengths of more than 64 bits.
        self.0.update((length as u64).to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.update(text);
    }

    /// Walks with a list instead of calling itself: depth costs no stack.
    fn arguments(&mut self, arguments: &Map<String, Value>) {
        let mut rest = Vec::new();
        self.object(arguments, &mut rest);
        while let Some(piece) = rest.pop() {
            match piece {
                Piece::Name(name) => self.text(name),
                Piece::Value(value) => self.value(value, &mut rest),
            }
        }
    }

    fn value<'a>(&mut self, value: &'a Value, rest: &mut Vec<Piece<'a>>) {
        match value {
            Value::Null => self.mark(b'n'),
            Value::Bool(false) => self.mark(b'f'),
            Value::Bool(true) => self.mark(b't'),
            Value::Number(number) => {
                self.mark(b'd');
                self.text(&number.to_string());
            }
            Value::String(text) => {
                self.mark(b's');
                self.text(text);
            }
            Value::Array(items) => {
                self.mark(b'a');
                self.length(items.len());
                rest.extend(items.iter().rev().map(Piece::Value));
            }
            Value::Object(object) => self.object(object, rest),
        }
    }

    fn object<'a>(&mut self, object: &'a Map<String, Value>, rest: &mut Vec<Piece<'a>>) {
        self.mark(b'o');
        self.length(object.len());
        let mut members: Vec<_> = object.iter().collect();
        members.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        for (name, value) in members {
            rest.extend([Piece::Value(value), Piece::Name(name)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_too_large_is_kept_as_its_beginning_its_size_and_its_digest() {
        let args = json!({"note": "ä".repeat(1_000)});
        let text = args.to_string();
        assert_eq!(shortened(&args, text.len()), None);
        let kept = shortened(&args, text.len() - 1).unwrap();
        assert_eq!(kept.bytes, text.len());
        assert!(text.starts_with(&kept.begins));
        // Nine bytes come before the first letter, so the last one would be cut.
        assert_eq!(kept.begins.len(), BEGINNING - 1);
        let sha256 = "32a88ef04320d56f5c1aeb3fabb1c083ffa108eb28a08f95e6382527f25bf834";
        assert_eq!(kept.sha256, sha256);
    }
}
