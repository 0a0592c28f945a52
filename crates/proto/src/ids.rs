//! The names by which requests are known: the peer's and our own.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::{fmt, sync::Arc};

/// The id a peer gave its request: a string or an integer, never null.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestId {
    /// An integer, also one that was written as `1.0`.
    Number(i64),
    /// A string.
    Text(Arc<str>),
}

impl RequestId {
    /// Reads an id. Some clients know only floating-point numbers and write 1 as `1.0`; past 2^53
    /// such a number is not the one that was meant.
    #[must_use]
    pub fn read(raw: &RawValue) -> Option<Self> {
        const EXACT: f64 = 9_007_199_254_740_992.0;

        let text = raw.get();
        if text.starts_with('"') {
            let id: String = serde_json::from_str(text).ok()?;
            return Some(Self::Text(id.into()));
        }
        if let Ok(number) = text.parse() {
            return Some(Self::Number(number));
        }
        let number: f64 = text.parse().ok()?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is an integer below 2^53"
        )]
        (number.fract() == 0.0 && number.abs() < EXACT).then_some(Self::Number(number as i64))
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// Our own number for a call, unique within its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// Our own number for a request that we made of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(pub u64);
