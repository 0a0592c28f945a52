//! Where a session's messages go that belong to no request.
//!
//! Most sessions never have one, so there is no stream until something is said or somebody
//! listens.

use super::stream::{Retention, Stream, StreamRules};
use crate::{clock::Clock, note::Note};
use interlock_proto::Time;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A stream that many messages share and that no answer ends, and when something last happened on
/// it.
pub(crate) struct Feed {
    number: u64,
    rules: StreamRules,
    stream: OnceLock<Arc<Stream>>,
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl Feed {
    /// The number is unique within its session.
    pub(crate) fn new(number: u64, rules: StreamRules, clock: Arc<dyn Clock>) -> Arc<Self> {
        let last = AtomicU64::new(clock.now().0);
        Arc::new(Self {
            number,
            rules,
            stream: OnceLock::new(),
            clock,
            last,
        })
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// How the streams of its session behave.
    pub(crate) const fn rules(&self) -> &StreamRules {
        &self.rules
    }

    /// Its stream, whether or not anything was said.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        let begin = || Stream::new(self.number, self.rules.clone());
        self.stream.get_or_init(begin)
    }

    /// Its stream, if something was said or somebody has listened.
    fn begun(&self) -> Option<&Arc<Stream>> {
        self.stream.get()
    }

    pub(crate) fn say(&self, message: Vec<u8>) {
        self.touch();
        self.stream().say(message);
    }

    pub(crate) fn insist(&self, message: Vec<u8>) {
        self.touch();
        self.stream().insist(message);
    }

    pub(crate) fn answer(&self, message: Vec<u8>) {
        match self.rules.retention {
            // Requests have streams of their own. This answers what nobody asked, so nobody waits.
            Retention::Replayable => self.say(message),
            Retention::Once => self.insist(message),
        }
    }

    pub(crate) fn note(&self, note: Note) {
        self.touch();
        self.stream().note(note);
    }

    pub(crate) fn take_back(&self, note: &Note) {
        if let Some(stream) = self.begun() {
            stream.take_back(note);
        }
    }

    /// Waits until there is room for more.
    pub(crate) async fn room(&self) {
        if let Some(stream) = self.begun() {
            stream.room().await;
        }
    }

    /// Something happened on it.
    pub(crate) fn touch(&self) {
        self.last.store(self.clock.now().0, Ordering::Relaxed);
    }

    /// Closes the connection of a client that has heard nothing for so long, if it can come back.
    pub(crate) fn rest(&self, now: Time, idle: Duration) {
        let last = Time(self.last.load(Ordering::Relaxed));
        if let Some(stream) = self.begun()
            && now >= last + idle
            && self.rules.retention == Retention::Replayable
            && stream.has_reader()
        {
            stream.disconnect();
        }
    }

    /// Its session is over. Whoever comes too late learns it from the stream.
    pub(crate) fn end(&self) {
        self.stream().end();
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Feed").field(&self.stream).finish()
    }
}
