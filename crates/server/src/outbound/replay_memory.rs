//! What all streams of a server keep for clients that may come back, within one bound.
//!
//! When it is too much, the streams that have kept something for longest forget what they may. A
//! stream that is being read is left alone: what it holds leaves with its reader.

use crate::outbound::{lock, stream::Stream};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
};

/// The bound, and the streams that keep something.
#[derive(Debug)]
pub(crate) struct ReplayMemory {
    most: i64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Below zero for a moment if a stream forgets before it is counted.
    bytes: i64,
    /// Oldest first, with some that are gone.
    streams: VecDeque<Weak<Stream>>,
}

impl ReplayMemory {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: signed(most),
            kept: Mutex::default(),
        })
    }

    /// A stream keeps something for the first time.
    pub(super) fn add(&self, stream: Weak<Stream>) {
        let mut kept = lock(&self.kept);
        if kept.streams.len() == kept.streams.capacity() {
            kept.streams.retain(|stream| stream.strong_count() > 0);
        }
        kept.streams.push_back(stream);
    }

    /// A stream keeps another number of bytes than before.
    pub(super) fn changed(&self, before: usize, after: usize) {
        let mut kept = lock(&self.kept);
        kept.bytes += signed(after) - signed(before);
        let mut left = if kept.bytes > self.most {
            kept.streams.len()
        } else {
            0
        };
        // Each is looked at once, without the lock.
        while left > 0 && kept.bytes > self.most {
            left -= 1;
            let Some(oldest) = kept.streams.pop_front() else {
                return;
            };
            drop(kept);
            let forgotten = oldest.upgrade().map(|stream| stream.forget());
            kept = lock(&self.kept);
            if let Some((before, after)) = forgotten {
                kept.bytes += signed(after) - signed(before);
                if after > 0 {
                    kept.streams.push_back(oldest);
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> i64 {
        lock(&self.kept).bytes
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::stream::{Retention, StreamRules};

    const RULES: StreamRules = StreamRules {
        retention: Retention::Replayable,
        keep_bytes: 1_000,
        keep_events: 10,
    };

    fn stream(number: u64, memory: &Arc<ReplayMemory>) -> Arc<Stream> {
        Stream::counted(number, RULES, Some(Arc::clone(memory)))
    }

    #[test]
    fn streams_that_have_kept_something_for_longest_forget_first() {
        let memory = ReplayMemory::new(1_000);
        let streams: Vec<_> = (0..10).map(|number| stream(number, &memory)).collect();
        for stream in &streams {
            stream.answer(vec![b'x'; 300]);
        }
        assert_eq!(memory.bytes(), 900);
        let forgotten = streams.iter().map(|stream| stream.is_forgotten());
        let kept = forgotten.filter(|forgotten| !forgotten).count();
        assert_eq!(kept, 3);
        assert!(streams[6].is_forgotten() && !streams[7].is_forgotten());
    }

    #[test]
    fn a_stream_that_is_read_or_open_loses_nothing_that_must_come() {
        let memory = ReplayMemory::new(100);
        let (read, open) = (stream(1, &memory), stream(2, &memory));
        let _reader = read.attach(None);
        read.answer(vec![b'x'; 300]);
        open.send_required(vec![b'x'; 300]);
        open.send(vec![b'x'; 300]);
        open.send(b"newest".to_vec());
        assert!(!read.is_forgotten() && !open.is_forgotten());
        assert_eq!(memory.bytes(), 606);
        open.answer(b"answer".to_vec());
        assert!(open.is_forgotten());
    }

    #[test]
    fn what_is_gone_is_not_counted() {
        let memory = ReplayMemory::new(1_000);
        for number in 0..100 {
            let stream = stream(number, &memory);
            stream.send(vec![b'x'; 10]);
            stream.answer(vec![b'x'; 10]);
        }
        assert_eq!(memory.bytes(), 0);
        assert!(lock(&memory.kept).streams.len() < 100);
    }
}
