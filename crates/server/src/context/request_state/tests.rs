//! What seals hold, and what breaks them.

use super::*;
use crate::model::JsonObject;
use interlock_engine::{Principal, request_digest};
use serde_json::{Value, json};
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

struct Request {
    principal: Principal,
    method: &'static str,
    name: &'static str,
    arguments: Option<JsonObject>,
}

impl Request {
    fn of_alice() -> Self {
        Self {
            principal: Principal::new("alice"),
            method: "tools/call",
            name: "pay",
            arguments: Some(object(json!({"amount": 5}))),
        }
    }

    fn by(principal: Principal) -> Self {
        Self {
            principal,
            ..Self::of_alice()
        }
    }

    fn named(method: &'static str, name: &'static str) -> Self {
        Self {
            method,
            name,
            ..Self::of_alice()
        }
    }

    fn with(arguments: Option<Value>) -> Self {
        Self {
            arguments: arguments.map(object),
            ..Self::of_alice()
        }
    }

    fn digest(&self) -> RequestDigest {
        let arguments = self.arguments.as_ref();
        request_digest(&self.principal, self.method, self.name, arguments)
    }
}

fn seal(payload: &[u8]) -> String {
    sealer(KEY).seal(payload, &Request::of_alice().digest(), LATER)
}

fn sealed() -> String {
    seal(b"state")
}

fn opened(sealed: &str, now: Time) -> Result<Vec<u8>, SealError> {
    sealer(KEY).open(sealed, &Request::of_alice().digest(), now)
}

fn digest_of(arguments: Value) -> [u8; 32] {
    Request::with(Some(arguments)).digest()
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
    assert_eq!(opened(&sealed(), LATER), Err(SealError::Expired));
    assert_eq!(opened(&sealed(), Time(u64::MAX)), Err(SealError::Expired));
}

#[test]
fn no_byte_of_it_can_be_altered() {
    let bytes = URL_SAFE_NO_PAD.decode(sealed()).unwrap();
    for position in 0..bytes.len() {
        for bit in [1, 128] {
            let mut altered = bytes.clone();
            altered[position] ^= bit;
            let altered = URL_SAFE_NO_PAD.encode(altered);
            assert_eq!(
                opened(&altered, NOW),
                Err(SealError::Forged),
                "at {position}"
            );
        }
    }
}

#[test]
fn nothing_can_be_left_out_or_added() {
    let bytes = URL_SAFE_NO_PAD.decode(sealed()).unwrap();
    for length in 0..bytes.len() {
        let shorter = URL_SAFE_NO_PAD.encode(&bytes[..length]);
        assert_eq!(opened(&shorter, NOW), Err(SealError::Forged));
    }
    let longer = URL_SAFE_NO_PAD.encode([&bytes[..], &[0]].concat());
    assert_eq!(opened(&longer, NOW), Err(SealError::Forged));
}

#[test]
fn what_is_no_sealed_text_at_all_is_forged() {
    let sealed = sealed();
    let padded = format!("{sealed}=");
    let spaced = format!(" {sealed}");
    for text in ["", "A", "AQ", "é", "====", "a b", "+/+/", &padded, &spaced] {
        assert_eq!(opened(text, NOW), Err(SealError::Forged), "{text}");
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
    let sealed = sealed();
    for (what, request) in [
        ("method", Request::named("prompts/get", "pay")),
        ("name", Request::named("tools/call", "pay2")),
        ("no name", Request::named("tools/call", "")),
        ("shifted", Request::named("tools/callp", "ay")),
        ("swapped", Request::named("pay", "tools/call")),
        ("more", Request::with(Some(json!({"amount": 6})))),
        ("none", Request::with(Some(json!({})))),
        ("absent", Request::with(None)),
        ("bob", Request::by(Principal::new("bob"))),
        ("nobody", Request::by(Principal::anonymous())),
    ] {
        let answer = sealer(KEY).open(&sealed, &request.digest(), NOW);
        assert_eq!(answer, Err(SealError::Forged), "{what}");
    }
}

#[test]
fn somebody_called_anonymous_cannot_open_what_the_anonymous_one_was_given() {
    let anonymous = Request::by(Principal::anonymous()).digest();
    let called = Request::by(Principal::new("anonymous")).digest();
    let sealed = sealer(KEY).seal(b"state", &anonymous, LATER);
    let open = |digest| sealer(KEY).open(&sealed, digest, NOW);
    assert!(open(&anonymous).is_ok());
    assert_eq!(open(&called), Err(SealError::Forged));
}

#[test]
fn no_arguments_are_not_empty_arguments() {
    assert_ne!(digest_of(json!({})), Request::with(None).digest());
}

#[test]
fn an_expired_text_of_another_request_is_forged_and_not_expired() {
    let other = Request::named("tools/call", "other").digest();
    let answer = sealer(KEY).open(&sealed(), &other, Time(u64::MAX));
    assert_eq!(answer, Err(SealError::Forged));
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
    let open = |sealer: Sealer| sealer.open(&sealed(), &Request::of_alice().digest(), NOW);
    assert_eq!(open(sealer(OTHER)), Err(SealError::Forged));
    assert_eq!(open(Sealer::random().unwrap()), Err(SealError::Forged));
}

#[test]
fn a_random_key_opens_what_it_sealed() {
    let (sealer, request) = (Sealer::random().unwrap(), Request::of_alice().digest());
    let sealed = sealer.seal(b"state", &request, LATER);
    let opened = sealer.open(&sealed, &request, NOW);
    assert_eq!(opened, Ok(b"state".to_vec()));
}

#[test]
fn an_older_key_still_opens_and_no_longer_seals() {
    let third = || sealer(OTHER).also_opens(&[3; 32]).unwrap();
    let rotated = third().also_opens(KEY).unwrap();
    let (old, request) = (sealed(), Request::of_alice().digest());
    assert!(rotated.open(&old, &request, NOW).is_ok());
    assert_eq!(rotated.open(&old, &request, LATER), Err(SealError::Expired));
    assert_eq!(third().open(&old, &request, NOW), Err(SealError::Forged));
    let new = rotated.seal(b"state", &request, LATER);
    assert!(sealer(OTHER).open(&new, &request, NOW).is_ok());
    assert!(rotated.open(&new, &request, NOW).is_ok());
    assert_eq!(
        sealer(KEY).open(&new, &request, NOW),
        Err(SealError::Forged)
    );
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
    let request = Request::of_alice().digest();
    let sealed = sealer(&one).seal(b"state", &request, LATER);
    assert!(sealer(&one).open(&sealed, &request, NOW).is_ok());
    let answer = sealer(&other).open(&sealed, &request, NOW);
    assert_eq!(answer, Err(SealError::Forged));
}

#[test]
fn the_largest_payload_opens_and_a_larger_one_is_not_even_decoded() {
    let largest = opened(&seal(&vec![1; MOST_PAYLOAD]), NOW).unwrap();
    assert_eq!(largest.len(), MOST_PAYLOAD);
    let larger = seal(&vec![1; MOST_PAYLOAD + 3]);
    assert!(larger.len() > LONGEST_SEALED);
    assert_eq!(opened(&larger, NOW), Err(SealError::Forged));
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
