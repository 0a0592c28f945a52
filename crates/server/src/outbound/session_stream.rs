//! The messages of an HTTP session that belong to no request.
//!
//! Most sessions never have one, so the stream is made with the first message or reader.

use crate::{
    model::change::ChangeNotification,
    outbound::{
        replay_memory::ReplayMemory,
        stream::{Retention, Stream, StreamRules},
    },
};
use interlock_engine::Clock;
use interlock_proto::Time;
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A stream that many messages share and that no answer ends, and when it was last used.
pub(crate) struct SessionStream {
    number: u64,
    rules: StreamRules,
    /// Bounds what this and all other streams of the session keep.
    memory: Arc<ReplayMemory>,
    stream: OnceLock<Arc<Stream>>,
    clock: Arc<dyn Clock>,
    last_used: AtomicU64,
}

impl SessionStream {
    /// The number is unique within its session.
    pub(crate) fn new(
        number: u64,
        rules: StreamRules,
        memory: Arc<ReplayMemory>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let last_used = AtomicU64::new(clock.now().0);
        Arc::new(Self {
            number,
            rules,
            memory,
            stream: OnceLock::new(),
            clock,
            last_used,
        })
    }

    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Another stream of the same session.
    pub(crate) fn another(&self, number: u64) -> Arc<Stream> {
        let memory = Some(Arc::clone(&self.memory));
        Stream::counted(number, self.rules.clone(), memory)
    }

    /// Its stream, which is made if need be.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        self.stream.get_or_init(|| self.another(self.number))
    }

    pub(crate) fn send(&self, message: Vec<u8>) {
        self.touch();
        self.stream().send(message);
    }

    pub(crate) fn send_required(&self, message: Vec<u8>) {
        self.touch();
        self.stream().send_required(message);
    }

    pub(crate) fn answer(&self, message: Vec<u8>) {
        match self.rules.retention {
            // Requests have streams of their own; what is answered here was no request.
            Retention::Replayable => self.send(message),
            Retention::Once => self.send_required(message),
        }
    }

    pub(crate) fn notify(&self, change: ChangeNotification) {
        self.touch();
        self.stream().notify(change);
    }

    pub(crate) fn retract(&self, change: &ChangeNotification) {
        if let Some(stream) = self.stream.get() {
            stream.retract(change);
        }
    }

    /// Waits until the reader, if there is one, has taken enough for more to be sent.
    pub(crate) async fn wait_for_room(&self) {
        if let Some(stream) = self.stream.get() {
            stream.wait_for_room().await;
        }
    }

    /// Restarts the idle time.
    pub(crate) fn touch(&self) {
        self.last_used.store(self.clock.now().0, Ordering::Relaxed);
    }

    /// Closes the connection of a reader that was idle for so long, if it can come back.
    pub(crate) fn disconnect_idle(&self, now: Time, idle: Duration) {
        let last_used = Time(self.last_used.load(Ordering::Relaxed));
        if let Some(stream) = self.stream.get()
            && now >= last_used + idle
            && self.rules.retention == Retention::Replayable
            && stream.has_reader()
        {
            stream.disconnect();
        }
    }

    /// Ends with its session. A reader that comes later finds the stream ended.
    pub(crate) fn end(&self) {
        self.stream().end();
    }
}

impl fmt::Debug for SessionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionStream").field(&self.stream).finish()
    }
}
