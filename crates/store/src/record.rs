//! The plain data a store keeps: keys, versions, values, changes, journal entries, time.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{BadKey, StoreError};

/// Milliseconds since the epoch. The store never asks a clock; this comes in as an argument.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

/// One state of one record. Backends make them; everybody else hands them back as they came.
///
/// The versions of a key only grow, also across deletion and re-creation. Versions of different
/// keys say nothing about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version(pub u64);

/// The number of an entry in its journal: 1, 2, 3 and so on, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seq(pub u64);

impl Seq {
    /// The place before the first entry, from which to read a whole journal.
    pub const START: Self = Self(0);
}

/// What sort of thing a record is, such as `session` or `task`.
///
/// Kinds are open: whoever uses the store declares its own, and a backend needs to know none of
/// them to store, list and announce them.
///
/// ```
/// use interlock_store::Kind;
///
/// const SESSION: Kind = Kind::from_static("session");
/// assert_eq!(Kind::new("session"), Ok(SESSION));
/// assert!(Kind::new("Session").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Cow<'static, str>);

impl Kind {
    /// The longest name of a kind.
    pub const MAX_BYTES: usize = 32;

    /// A kind known when the program is written.
    ///
    /// # Panics
    ///
    /// If `name` is not a kind; in a constant, this is a compile error.
    #[must_use]
    pub const fn from_static(name: &'static str) -> Self {
        assert!(is_kind(name), "not the name of a kind");
        Self(Cow::Borrowed(name))
    }

    /// A kind that was read from somewhere: a lower-case letter, then lower-case letters, digits,
    /// `_` and `-`, at most [`MAX_BYTES`](Self::MAX_BYTES) in all.
    pub fn new(name: impl Into<String>) -> Result<Self, BadKey> {
        let name = name.into();
        if is_kind(&name) {
            Ok(Self(Cow::Owned(name)))
        } else {
            Err(BadKey::Kind)
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a record and of its journal: a kind and an id. Cheap to clone.
///
/// It is written `kind/id`, also in serialised form. The id may contain slashes, the kind cannot.
///
/// ```
/// use interlock_store::{Key, Kind};
///
/// let key = Key::new(Kind::from_static("task"), "a/7")?;
/// assert_eq!(key.to_string(), "task/a/7");
/// assert_eq!("task/a/7".parse(), Ok(key));
/// # Ok::<(), interlock_store::BadKey>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key {
    pub(crate) kind: Kind,
    pub(crate) id: Arc<str>,
}

impl Key {
    /// The longest id. Small enough for an index of any database.
    pub const MAX_ID_BYTES: usize = 1024;

    /// The key of `id` among its kind: not empty, at most [`MAX_ID_BYTES`](Self::MAX_ID_BYTES)
    /// long and without control characters.
    pub fn new(kind: Kind, id: impl Into<Arc<str>>) -> Result<Self, BadKey> {
        let id = id.into();
        if id.is_empty() {
            Err(BadKey::EmptyId)
        } else if id.len() > Self::MAX_ID_BYTES {
            Err(BadKey::LongId { bytes: id.len() })
        } else if id.chars().any(char::is_control) {
            Err(BadKey::ControlInId)
        } else {
            Ok(Self { kind, id })
        }
    }

    /// What sort of thing it names.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its id among its kind.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
    }
}

impl FromStr for Key {
    type Err = BadKey;

    fn from_str(written: &str) -> Result<Self, BadKey> {
        let (kind, id) = written.split_once('/').ok_or(BadKey::NoSlash)?;
        Self::new(Kind::new(kind)?, id)
    }
}

impl TryFrom<String> for Key {
    type Error = BadKey;

    fn try_from(written: String) -> Result<Self, BadKey> {
        written.parse()
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.to_string()
    }
}

/// What a record holds, and until when.
///
/// ```
/// use interlock_store::{Time, Value};
///
/// let value = Value::new(*b"open").until(Time(5_000));
/// assert!(!value.is_expired(Time(4_999)));
/// assert!(value.is_expired(Time(5_000)));
/// assert!(!Value::new(*b"open").is_expired(Time(u64::MAX)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Bytes that mean nothing to the store.
    pub bytes: Arc<[u8]>,
    /// The time from which the record is no longer seen. `None`: it stays.
    pub expires: Option<Time>,
}

impl Value {
    /// The most bytes of a value or of a journal entry: twice the longest message.
    pub const MAX_BYTES: usize = 32 * 1024 * 1024;

    /// A value that does not expire.
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self {
            bytes: bytes.into(),
            expires: None,
        }
    }

    /// The same value, no longer seen from `expires` on.
    #[must_use]
    pub fn until(self, expires: Time) -> Self {
        Self {
            expires: Some(expires),
            ..self
        }
    }

    /// Whether it has expired at `now`.
    #[must_use]
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What a change of it has to name.
    pub version: Version,
    /// What it holds.
    pub value: Value,
}

/// One record's part in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Stores a record where there is none, or one that has expired.
    Create {
        /// Where.
        key: Key,
        /// What it shall hold.
        value: Value,
    },
    /// Replaces value and expiry of a record.
    Update {
        /// Which.
        key: Key,
        /// The version this was decided on.
        seen: Version,
        /// What it shall hold.
        value: Value,
    },
    /// Removes a record. Its journal stays.
    Delete {
        /// Which.
        key: Key,
        /// The version this was decided on.
        seen: Version,
    },
}

impl Change {
    /// Stores a record where there is none, or one that has expired.
    #[must_use]
    pub fn create(key: Key, value: Value) -> Self {
        Self::Create { key, value }
    }

    /// Replaces value and expiry of the record last seen in version `seen`.
    #[must_use]
    pub fn update(key: Key, seen: Version, value: Value) -> Self {
        Self::Update { key, seen, value }
    }

    /// Removes the record last seen in version `seen`.
    #[must_use]
    pub fn delete(key: Key, seen: Version) -> Self {
        Self::Delete { key, seen }
    }

    /// The record it is about.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Create { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } => key,
        }
    }

    /// What the record shall hold afterwards, unless it is removed.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Create { value, .. } | Self::Update { value, .. } => Some(value),
            Self::Delete { .. } => None,
        }
    }
}

/// A journal entry to be written. The store adds number and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose journal it goes into.
    pub key: Key,
    /// Bytes that mean nothing to the store.
    pub bytes: Arc<[u8]>,
}

impl Entry {
    /// An entry for the journal of `key`.
    #[must_use]
    pub fn new(key: Key, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self {
            key,
            bytes: bytes.into(),
        }
    }
}

/// A journal entry that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its number in its journal.
    pub seq: Seq,
    /// The `now` of its commit.
    pub at: Time,
    /// What was written.
    pub bytes: Arc<[u8]>,
}

/// Which entries a journal holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// Whose journal it is.
    pub key: Key,
    /// Its first entry that was not pruned; one more than `last` if none is left.
    pub first: Seq,
    /// The last entry ever written to it.
    pub last: Seq,
}

/// What every backend checks before it begins a commit: no record twice, nothing too large.
///
/// ```
/// use interlock_store::{Change, Key, Kind, StoreError, Value, check};
///
/// let key = Key::new(Kind::from_static("task"), "7")?;
/// let change = Change::create(key, Value::new(*b"working"));
/// assert!(check(std::slice::from_ref(&change), &[]).is_ok());
/// assert!(matches!(check(&[change.clone(), change], &[]), Err(StoreError::Twice { .. })));
/// # Ok::<(), StoreError>(())
/// ```
pub fn check(changes: &[Change], entries: &[Entry]) -> Result<(), StoreError> {
    // Of one change alone, nothing can come twice.
    if changes.len() > 1 {
        check_keys(changes)?;
    }
    for change in changes {
        if let Some(value) = change.value() {
            check_size(change.key(), &value.bytes)?;
        }
    }
    entries
        .iter()
        .try_for_each(|entry| check_size(&entry.key, &entry.bytes))
}

fn check_keys(changes: &[Change]) -> Result<(), StoreError> {
    let mut keys = BTreeSet::new();
    let twice = changes.iter().find(|change| !keys.insert(change.key()));
    match twice {
        Some(change) => Err(StoreError::Twice {
            key: change.key().clone(),
        }),
        None => Ok(()),
    }
}

fn check_size(key: &Key, bytes: &[u8]) -> Result<(), StoreError> {
    if bytes.len() <= Value::MAX_BYTES {
        return Ok(());
    }
    Err(StoreError::TooLarge {
        key: key.clone(),
        bytes: bytes.len(),
        limit: Value::MAX_BYTES,
    })
}

/// Byte by byte, because a constant cannot use iterators.
const fn is_kind(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > Kind::MAX_BYTES || !bytes[0].is_ascii_lowercase() {
        return false;
    }
    let mut at = 1;
    while at < bytes.len() {
        if !matches!(bytes[at], b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-') {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_short_and_lower_case() {
        let longest = "k".repeat(Kind::MAX_BYTES);
        for good in ["a", "task", "stream_event", "v-2", &longest] {
            assert_eq!(
                Kind::new(good).map(|kind| kind.to_string()),
                Ok(good.to_owned())
            );
        }
        let too_long = "k".repeat(Kind::MAX_BYTES + 1);
        for bad in [
            "", "A", "aB", "1a", "-a", "_a", "a/b", "a b", "ä", "a\0", &too_long,
        ] {
            assert_eq!(Kind::new(bad), Err(BadKey::Kind), "{bad:?}");
        }
    }

    #[test]
    #[should_panic(expected = "not the name of a kind")]
    fn a_wrong_constant_is_no_kind() {
        let _ = Kind::from_static("Task");
    }

    #[test]
    fn an_id_is_bounded_and_printable() {
        let task = || Kind::from_static("task");
        let longest = "i".repeat(Key::MAX_ID_BYTES);
        for good in ["7", "a/b", "ü 👩‍🚀", &longest] {
            assert_eq!(Key::new(task(), good).unwrap().id(), good);
        }
        let bytes = Key::MAX_ID_BYTES + 1;
        for (bad, why) in [
            ("", BadKey::EmptyId),
            ("a\0", BadKey::ControlInId),
            ("a\nb", BadKey::ControlInId),
            (&"i".repeat(bytes), BadKey::LongId { bytes }),
        ] {
            assert_eq!(Key::new(task(), bad), Err(why), "{bad:?}");
        }
    }

    #[test]
    fn a_key_survives_being_written_and_read() {
        let key = Key::new(Kind::from_static("task"), "a/b\"c").unwrap();
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(json, r#""task/a/b\"c""#);
        assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
    }

    #[test]
    fn what_is_no_key_is_not_read_as_one() {
        for (bad, why) in [
            ("", BadKey::NoSlash),
            ("task", BadKey::NoSlash),
            ("/7", BadKey::Kind),
            ("task/", BadKey::EmptyId),
        ] {
            assert_eq!(bad.parse::<Key>(), Err(why), "{bad:?}");
            assert!(
                serde_json::from_value::<Key>(bad.into()).is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn every_bad_key_says_what_would_do() {
        let said = |bad: BadKey| StoreError::from(bad).to_string();
        assert_eq!(
            said(BadKey::Kind),
            "a kind is a lower-case letter followed by at most 31 of a-z, 0-9, _ and -"
        );
        assert_eq!(
            said(BadKey::LongId { bytes: 2000 }),
            "an id of 2000 bytes is longer than 1024"
        );
    }
}
