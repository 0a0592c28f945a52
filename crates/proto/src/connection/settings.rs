//! What a server may choose about its connections.

use super::State;
use crate::Time;
use std::time::Duration;

/// What a server may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long to wait for the first `initialize` or 2026-07-28 request. It has no meaning over
    /// HTTP, where a session begins with `initialize`.
    pub initialize: Option<Duration>,
    /// After how long an idle connection is closed: never, unless this says so. Over HTTP the
    /// session's own rules say when it ends.
    pub idle: Option<Duration>,
    /// How long work in flight may take once the connection is draining.
    pub drain: Duration,
    /// How many requests may be in flight.
    pub max_pending: usize,
    /// Whether `ping` is answered before `initialize`.
    pub early_ping: EarlyPing,
    /// What becomes of a request whose id is in flight.
    pub duplicates: Duplicates,
}

/// What becomes of a request whose id is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// It is dropped, as on stdio, where all answers share one stream.
    Dropped,
    /// It is refused, as over HTTP, where it is answered on its own.
    Refused,
}

/// Whether `ping` is answered before `initialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyPing {
    /// It is, as the specification permits.
    Answered,
    /// It is refused like everything else.
    Refused,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            initialize: Some(Duration::from_secs(30)),
            idle: None,
            drain: Duration::from_secs(30),
            max_pending: 1024,
            early_ping: EarlyPing::Answered,
            duplicates: Duplicates::Dropped,
        }
    }
}

impl Rules {
    /// Where a connection begins.
    #[must_use]
    pub fn first(&self, now: Time) -> State {
        State::NotInitialized {
            until: self.initialize.map(|patience| now + patience),
        }
    }
}
