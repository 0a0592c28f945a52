//! What a server lets its client keep for it: `requestState`, sealed.
//!
//! On 2026-07-28 a request that needs more input ends, and its state travels to the client and
//! back. The seal is an HMAC over the state, its expiry, and what it is bound to: who asked, and
//! for what. So it is of use to nobody else, for nothing else, and not for long. It is not
//! encrypted, and it can be shown more than once until it expires.
//! Spec: MCP multi round-trip requests, section "Server Requirements".

use crate::{Principal, model::JsonObject};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use interlock_proto::Time;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{fmt, io};
use subtle::{Choice, ConstantTimeEq};

/// More than this does not open again.
pub(crate) const MOST_PAYLOAD: usize = 1024 * 1024;

/// The first byte of a sealed text says how the rest is laid out: when it expires, the payload,
/// the tag.
const VERSION: u8 = 1;
const HEAD: usize = 1 + size_of::<u64>();
const TAG: usize = 32;
const LONGEST_SEALED: usize = (HEAD + MOST_PAYLOAD + TAG).div_ceil(3) * 4;

/// Seals what the client keeps, and opens it again.
pub(crate) struct Sealer {
    key: Key,
    older: Vec<Key>,
}

impl Sealer {
    /// Seals that open in this process only.
    pub(crate) fn random() -> io::Result<Self> {
        let mut secret = [0; Key::LEAST];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        Ok(Self::with(Key::derived(&secret)))
    }

    /// Seals that open wherever the same secret is known.
    pub(crate) fn new(key: &[u8]) -> Result<Self, ShortKey> {
        Key::new(key).map(Self::with)
    }

    const fn with(key: Key) -> Self {
        Self {
            key,
            older: Vec::new(),
        }
    }

    /// Opens what an older key sealed, too, and seals nothing with it.
    pub(crate) fn also_opens(mut self, key: &[u8]) -> Result<Self, ShortKey> {
        self.older.push(Key::new(key)?);
        Ok(self)
    }

    /// Hands the payload out until `expires`. One of more than [`MOST_PAYLOAD`] bytes never opens.
    pub(crate) fn seal(&self, payload: &[u8], bound: &Bound<'_>, expires: Time) -> String {
        let mut sealed = Vec::with_capacity(HEAD + payload.len() + TAG);
        sealed.push(VERSION);
        sealed.extend(expires.0.to_be_bytes());
        sealed.extend(payload);
        let tag = self.key.tag(&sealed, &bound.digest());
        sealed.extend(tag);
        URL_SAFE_NO_PAD.encode(sealed)
    }

    /// Takes the payload back, if it is ours, unaltered, for this request, and in time.
    pub(crate) fn open(
        &self,
        sealed: &str,
        bound: &Bound<'_>,
        now: Time,
    ) -> Result<Vec<u8>, Broken> {
        if sealed.len() > LONGEST_SEALED {
            return Err(Broken::Forged);
        }
        let mut sealed = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| Broken::Forged)?;
        let (content, tag) = sealed.split_last_chunk::<TAG>().ok_or(Broken::Forged)?;
        if !self.made(content, tag, &bound.digest()) {
            return Err(Broken::Forged);
        }
        // Nothing of the content is looked at before the tag is known to be right.
        let expires = match content.first_chunk::<HEAD>() {
            Some([VERSION, millis @ ..]) => Time(u64::from_be_bytes(*millis)),
            Some(_) | None => return Err(Broken::Forged),
        };
        if now >= expires {
            return Err(Broken::Expired);
        }
        sealed.truncate(content.len());
        sealed.drain(..HEAD);
        Ok(sealed)
    }

    /// Whether one of our keys made the tag. All are tried, so that time does not tell which.
    fn made(&self, content: &[u8], tag: &[u8; TAG], digest: &[u8; 32]) -> bool {
        let mut made = Choice::from(0);
        for key in std::iter::once(&self.key).chain(&self.older) {
            made |= key.tag(content, digest).ct_eq(tag);
        }
        made.into()
    }
}

/// Shows how many keys there are, and no key.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("older", &self.older.len())
            .finish_non_exhaustive()
    }
}

/// Why a sealed text does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// It is not ours, or altered, or somebody else's, or for another request.
    #[error("the request state is not one that was given for this request")]
    Forged,
    /// It was right once.
    #[error("the request state has expired")]
    Expired,
}

/// A secret that can be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has {0} bytes and needs at least {least}", least = Key::LEAST)]
pub(crate) struct ShortKey(usize);

/// A key for this purpose alone, whatever else the secret is used for.
struct Key([u8; 32]);

impl Key {
    const LEAST: usize = 32;

    fn new(secret: &[u8]) -> Result<Self, ShortKey> {
        match secret.len() {
            ..Self::LEAST => Err(ShortKey(secret.len())),
            _ => Ok(Self::derived(secret)),
        }
    }

    fn derived(secret: &[u8]) -> Self {
        Self(mac(secret, &[b"interlock request state"]))
    }

    /// The digest has a fixed length, so it never runs into the content.
    fn tag(&self, content: &[u8], digest: &[u8; 32]) -> [u8; TAG] {
        mac(&self.0, &[digest, content])
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The request that a seal is for.
#[derive(Clone, Copy)]
pub(crate) struct Bound<'a> {
    /// Who sends it.
    pub(crate) principal: &'a Principal,
    /// Its method.
    pub(crate) method: &'a str,
    /// The tool's or prompt's name, or the resource's URI.
    pub(crate) name: &'a str,
    /// Its arguments, in whatever order the client wrote them.
    pub(crate) arguments: Option<&'a JsonObject>,
}

impl Bound<'_> {
    /// The same for the same request, and for no other one.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut digest = Canonical(Sha256::new());
        digest.mark(u8::from(!self.principal.is_anonymous()));
        digest.text(self.principal.id());
        digest.text(self.method);
        digest.text(self.name);
        digest.mark(u8::from(self.arguments.is_some()));
        if let Some(arguments) = self.arguments {
            digest.arguments(arguments);
        }
        digest.0.finalize().into()
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
    fn arguments(&mut self, arguments: &JsonObject) {
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

    fn object<'a>(&mut self, object: &'a JsonObject, rest: &mut Vec<Piece<'a>>) {
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
    use std::collections::HashSet;

    const KEY: &[u8] = b"a key of at least thirty-two bytes";
    const OTHER: &[u8] = b"another key that is just as long..";
    const NOW: Time = Time(1_000_000);
    const LATER: Time = Time(1_060_000);

    fn object(value: Value) -> JsonObject {
        value.as_object().expect("an object").clone()
    }

    fn sealer(key: &[u8]) -> Sealer {
        Sealer::new(key).unwrap()
    }

    /// What a request borrows.
    struct Request {
        principal: Principal,
        arguments: JsonObject,
    }

    impl Request {
        fn of_alice() -> Self {
            Self {
                principal: Principal::new("alice"),
                arguments: object(json!({"amount": 5})),
            }
        }

        fn bound(&self) -> Bound<'_> {
            Bound {
                principal: &self.principal,
                method: "tools/call",
                name: "pay",
                arguments: Some(&self.arguments),
            }
        }
    }

    fn seal(payload: &[u8]) -> String {
        sealer(KEY).seal(payload, &Request::of_alice().bound(), LATER)
    }

    fn sealed() -> String {
        seal(b"state")
    }

    fn opened(sealed: &str, now: Time) -> Result<Vec<u8>, Broken> {
        sealer(KEY).open(sealed, &Request::of_alice().bound(), now)
    }

    fn digest_of(arguments: Value) -> [u8; 32] {
        let request = Request {
            arguments: object(arguments),
            ..Request::of_alice()
        };
        request.bound().digest()
    }

    #[test]
    fn what_was_sealed_opens_again() {
        assert_eq!(opened(&sealed(), NOW), Ok(b"state".to_vec()));
        for payload in [&[][..], &[0], &[255; 1000]] {
            let sealed = seal(payload);
            assert_eq!(opened(&sealed, NOW), Ok(payload.to_vec()));
        }
    }

    #[test]
    fn a_sealed_text_fits_into_a_url() {
        let sealed = seal(&[255; 99]);
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        assert!(sealed.chars().all(fits), "{sealed}");
    }

    #[test]
    fn it_expires_at_its_time_and_not_before() {
        assert!(opened(&sealed(), Time(LATER.0 - 1)).is_ok());
        assert_eq!(opened(&sealed(), LATER), Err(Broken::Expired));
        assert_eq!(opened(&sealed(), Time(u64::MAX)), Err(Broken::Expired));
    }

    #[test]
    fn no_byte_of_it_can_be_altered() {
        let bytes = URL_SAFE_NO_PAD.decode(sealed()).unwrap();
        for position in 0..bytes.len() {
            for bit in [1, 128] {
                let mut altered = bytes.clone();
                altered[position] ^= bit;
                let altered = URL_SAFE_NO_PAD.encode(altered);
                assert_eq!(opened(&altered, NOW), Err(Broken::Forged), "at {position}");
            }
        }
    }

    #[test]
    fn nothing_can_be_left_out_or_added() {
        let bytes = URL_SAFE_NO_PAD.decode(sealed()).unwrap();
        for length in 0..bytes.len() {
            let shorter = URL_SAFE_NO_PAD.encode(&bytes[..length]);
            assert_eq!(opened(&shorter, NOW), Err(Broken::Forged));
        }
        let longer = URL_SAFE_NO_PAD.encode([&bytes[..], &[0]].concat());
        assert_eq!(opened(&longer, NOW), Err(Broken::Forged));
    }

    #[test]
    fn what_is_no_sealed_text_at_all_is_forged() {
        let sealed = sealed();
        let padded = format!("{sealed}=");
        let spaced = format!(" {sealed}");
        for text in ["", "A", "AQ", "é", "====", "a b", "+/+/", &padded, &spaced] {
            assert_eq!(opened(text, NOW), Err(Broken::Forged), "{text}");
        }
    }

    #[test]
    fn there_is_one_way_to_write_it() {
        // The last character carries bits that decoding would drop.
        let sealed = seal(b"stat");
        let (start, last) = sealed.split_at(sealed.len() - 1);
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let opens = |end: &char| opened(&format!("{start}{end}"), NOW).is_ok();
        let endings: String = alphabet.chars().filter(opens).collect();
        assert_eq!(endings, last);
    }

    #[test]
    fn it_opens_for_no_other_request() {
        let (sealed, request) = (sealed(), Request::of_alice());
        let (usual, bob) = (request.bound(), Principal::new("bob"));
        let (more, none) = (object(json!({"amount": 6})), JsonObject::new());
        for (what, bound) in [
            (
                "method",
                Bound {
                    method: "prompts/get",
                    ..usual
                },
            ),
            (
                "name",
                Bound {
                    name: "pay2",
                    ..usual
                },
            ),
            ("no name", Bound { name: "", ..usual }),
            (
                "shifted",
                Bound {
                    method: "tools/callp",
                    name: "ay",
                    ..usual
                },
            ),
            (
                "swapped",
                Bound {
                    method: "pay",
                    name: "tools/call",
                    ..usual
                },
            ),
            (
                "more",
                Bound {
                    arguments: Some(&more),
                    ..usual
                },
            ),
            (
                "none",
                Bound {
                    arguments: Some(&none),
                    ..usual
                },
            ),
            (
                "absent",
                Bound {
                    arguments: None,
                    ..usual
                },
            ),
            (
                "bob",
                Bound {
                    principal: &bob,
                    ..usual
                },
            ),
            (
                "nobody",
                Bound {
                    principal: &Principal::anonymous(),
                    ..usual
                },
            ),
        ] {
            let answer = sealer(KEY).open(&sealed, &bound, NOW);
            assert_eq!(answer, Err(Broken::Forged), "{what}");
        }
    }

    #[test]
    fn somebody_called_anonymous_cannot_open_what_the_anonymous_one_was_given() {
        let request = Request::of_alice();
        let by = |principal| Bound {
            principal,
            ..request.bound()
        };
        let (anonymous, called) = (Principal::anonymous(), Principal::new("anonymous"));
        let sealed = sealer(KEY).seal(b"state", &by(&anonymous), LATER);
        let open = |principal| sealer(KEY).open(&sealed, &by(principal), NOW);
        assert!(open(&anonymous).is_ok());
        assert_eq!(open(&called), Err(Broken::Forged));
    }

    #[test]
    fn no_arguments_are_not_empty_arguments() {
        let request = Request {
            arguments: JsonObject::new(),
            ..Request::of_alice()
        };
        let absent = Bound {
            arguments: None,
            ..request.bound()
        };
        assert_ne!(request.bound().digest(), absent.digest());
    }

    #[test]
    fn an_expired_text_of_another_request_is_forged_and_not_expired() {
        let request = Request::of_alice();
        let other = Bound {
            name: "other",
            ..request.bound()
        };
        let answer = sealer(KEY).open(&sealed(), &other, Time(u64::MAX));
        assert_eq!(answer, Err(Broken::Forged));
    }

    #[test]
    fn the_order_of_members_does_not_matter_at_any_depth() {
        let one = r#"{"a": 1, "b": [{"c": null, "d": {"e": "x", "f": true}}]}"#;
        let other = r#"{"b": [{"d": {"f": true, "e": "x"}, "c": null}], "a": 1}"#;
        let parsed = |text| serde_json::from_str::<Value>(text).unwrap();
        assert_ne!(parsed(one).to_string(), parsed(other).to_string());
        assert_eq!(digest_of(parsed(one)), digest_of(parsed(other)));
    }

    #[test]
    fn different_arguments_never_look_the_same() {
        let all = [
            json!({}),
            json!({"a": null}),
            json!({"a": false}),
            json!({"a": true}),
            json!({"a": 0}),
            json!({"a": "0"}),
            json!({"a": ""}),
            json!({"a": []}),
            json!({"a": {}}),
            json!({"a": [[]]}),
            json!({"a": [[], []]}),
            json!({"a": [1, 2]}),
            json!({"a": [2, 1]}),
            json!({"a": [[1], 2]}),
            json!({"a": [[1, 2]]}),
            json!({"a": ["b", "c"]}),
            json!({"a": {"b": "c"}}),
            json!({"a": "b", "c": "d"}),
            json!({"a": "d", "c": "b"}),
            json!({"a": {"b": 1}, "c": 2}),
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": "bc"}),
            json!({"ab": "c"}),
            json!({"": null}),
        ];
        let digests: HashSet<_> = all.iter().cloned().map(digest_of).collect();
        assert_eq!(digests.len(), all.len());
    }

    #[test]
    fn another_key_opens_nothing() {
        let open = |sealer: Sealer| sealer.open(&sealed(), &Request::of_alice().bound(), NOW);
        assert_eq!(open(sealer(OTHER)), Err(Broken::Forged));
        assert_eq!(open(Sealer::random().unwrap()), Err(Broken::Forged));
    }

    #[test]
    fn a_random_key_opens_what_it_sealed() {
        let (sealer, request) = (Sealer::random().unwrap(), Request::of_alice());
        let sealed = sealer.seal(b"state", &request.bound(), LATER);
        let opened = sealer.open(&sealed, &request.bound(), NOW);
        assert_eq!(opened, Ok(b"state".to_vec()));
    }

    #[test]
    fn an_older_key_still_opens_and_no_longer_seals() {
        let third = || sealer(OTHER).also_opens(&[3; 32]).unwrap();
        let rotated = third().also_opens(KEY).unwrap();
        let (old, request) = (sealed(), Request::of_alice());
        let bound = request.bound();
        assert!(rotated.open(&old, &bound, NOW).is_ok());
        assert_eq!(rotated.open(&old, &bound, LATER), Err(Broken::Expired));
        assert_eq!(third().open(&old, &bound, NOW), Err(Broken::Forged));
        let new = rotated.seal(b"state", &bound, LATER);
        assert!(sealer(OTHER).open(&new, &bound, NOW).is_ok());
        assert!(rotated.open(&new, &bound, NOW).is_ok());
        assert_eq!(sealer(KEY).open(&new, &bound, NOW), Err(Broken::Forged));
    }

    #[test]
    fn a_key_that_is_too_short_is_refused_and_says_so() {
        let short = Sealer::new(&[7; 31]).unwrap_err();
        assert_eq!(
            short.to_string(),
            "the key has 31 bytes and needs at least 32"
        );
        assert!(Sealer::new(&[7; 32]).is_ok());
        assert_eq!(sealer(KEY).also_opens(b"").unwrap_err(), ShortKey(0));
    }

    #[test]
    fn all_of_a_long_key_counts() {
        let (one, mut other) = ([1; 200], [1; 200]);
        other[199] = 2;
        let request = Request::of_alice();
        let bound = request.bound();
        let sealed = sealer(&one).seal(b"state", &bound, LATER);
        assert!(sealer(&one).open(&sealed, &bound, NOW).is_ok());
        let answer = sealer(&other).open(&sealed, &bound, NOW);
        assert_eq!(answer, Err(Broken::Forged));
    }

    #[test]
    fn the_largest_payload_opens_and_a_larger_one_is_not_even_decoded() {
        let largest = opened(&seal(&vec![1; MOST_PAYLOAD]), NOW).unwrap();
        assert_eq!(largest.len(), MOST_PAYLOAD);
        let larger = seal(&vec![1; MOST_PAYLOAD + 3]);
        assert!(larger.len() > LONGEST_SEALED);
        assert_eq!(opened(&larger, NOW), Err(Broken::Forged));
    }

    /// Made from the description of the format by another implementation of HMAC and SHA-256.
    #[test]
    fn the_format_stays_the_same_between_releases() {
        let known = "AQAAAAAAECygc3RhdGWjLyn32wOV9ou1oCIy4ftlih6fHY3ejs2tphly43NmYA";
        assert_eq!(sealed(), known);
        assert_eq!(opened(known, NOW), Ok(b"state".to_vec()));
    }

    #[test]
    fn debug_output_shows_no_key() {
        let shown = format!("{:?}", sealer(KEY).also_opens(OTHER).unwrap());
        assert_eq!(shown, "Sealer { older: 1, .. }");
    }
}
