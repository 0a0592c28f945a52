//! A digest of one request: the same for the same request, and for no other one.

use crate::principal::Principal;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

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
