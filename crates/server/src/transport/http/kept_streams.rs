//! How long, and how many, streams of a session are kept for a client that may resume them.

use crate::outbound::stream::Stream;
use interlock_proto::Time;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How many streams are kept.
const MOST: usize = 64;
/// How many bytes of answers are kept, besides the newest of any size.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// How long a stream is kept after its end was sent, which the client may not have received.
const SENT: Duration = Duration::from_secs(60);
/// How long a stream that has ended is kept for a client that has not come back.
const UNSENT: Duration = Duration::from_secs(10 * 60);

/// The streams of a session that its client can resume.
#[derive(Debug)]
pub(crate) struct KeptStreams {
    streams: BTreeMap<u64, KeptStream>,
    /// The last number that was given out.
    last: u64,
}

#[derive(Debug)]
struct KeptStream {
    stream: Arc<Stream>,
    /// Since when it is known to have ended, and to have been sent.
    ended: Option<Time>,
    sent: Option<Time>,
}

impl KeptStreams {
    /// Numbers are counted up from this one.
    pub(crate) const fn new(first: u64) -> Self {
        Self {
            streams: BTreeMap::new(),
            last: first,
        }
    }

    /// A number that no stream of this session has had.
    pub(crate) const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Adds a stream, and drops ended ones that are too many.
    pub(crate) fn insert(&mut self, stream: &Arc<Stream>) {
        let entry = KeptStream {
            stream: Arc::clone(stream),
            ended: None,
            sent: None,
        };
        self.streams.insert(stream.number(), entry);
        self.make_room();
    }

    /// Drops ended streams, first those that were sent, while they are too many or too large.
    fn make_room(&mut self) {
        // Read once, since an answer may come at any time.
        let sizes = self.streams.iter();
        let sizes = sizes.map(|(number, entry)| (*number, entry.stream.answer_bytes()));
        let sizes: BTreeMap<u64, usize> = sizes.collect();
        let mut bytes: usize = sizes.values().sum();
        while self.streams.len() > MOST || bytes > MOST_BYTES {
            let newest = self.streams.last_key_value().map(|(number, _)| *number);
            let older = || {
                self.streams
                    .iter()
                    .filter(|(number, _)| Some(**number) != newest)
            };
            let sent = older().find(|(_, entry)| entry.stream.is_drained());
            let ended = sent.or_else(|| older().find(|(_, entry)| entry.stream.is_ended()));
            let Some(number) = ended.map(|(number, _)| *number) else {
                return;
            };
            bytes -= sizes.get(&number).copied().unwrap_or(0);
            self.streams.remove(&number);
        }
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<Stream>> {
        let stream = &self.streams.get(&number)?.stream;
        (!stream.is_forgotten()).then(|| Arc::clone(stream))
    }

    /// Drops what was kept long enough.
    pub(crate) fn tick(&mut self, now: Time) {
        self.streams.retain(|_, entry| {
            if entry.stream.is_forgotten() {
                return false;
            }
            if entry.stream.is_ended() {
                entry.ended.get_or_insert(now);
            }
            if entry.stream.is_drained() {
                entry.sent.get_or_insert(now);
            }
            let over = |since: Option<Time>, patience| since.is_some_and(|at| now >= at + patience);
            !over(entry.ended, UNSENT) && !over(entry.sent, SENT)
        });
        self.make_room();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::stream::{Retention, StreamRules};

    fn stream(number: u64) -> Arc<Stream> {
        let rules = StreamRules {
            retention: Retention::Replayable,
            keep_bytes: 100,
            keep_events: 10,
        };
        Stream::new(number, rules)
    }

    #[test]
    fn ended_streams_make_room_for_new_ones_and_open_ones_never_do() {
        let mut streams = KeptStreams::new(0);
        let open: Vec<_> = (0..MOST + 10).map(|_| stream(streams.next())).collect();
        for stream in &open {
            streams.insert(stream);
        }
        assert_eq!(streams.streams.len(), MOST + 10);
        for stream in &open {
            stream.end();
        }
        let last = stream(streams.next());
        streams.insert(&last);
        assert_eq!(streams.streams.len(), MOST);
        assert!(streams.find(last.number()).is_some());
        assert!(streams.find(1).is_none());
    }

    #[test]
    fn large_answers_make_room_for_each_other() {
        let mut streams = KeptStreams::new(0);
        for _ in 0..5 {
            let stream = stream(streams.next());
            stream.answer(vec![b' '; MOST_BYTES / 3]);
            streams.insert(&stream);
        }
        let kept: Vec<_> = streams.streams.keys().copied().collect();
        assert_eq!(kept, [3, 4, 5]);
        let huge = stream(streams.next());
        streams.insert(&huge);
        huge.answer(vec![b' '; 2 * MOST_BYTES]);
        streams.tick(Time(0));
        assert_eq!(streams.streams.len(), 1);
        assert!(streams.find(huge.number()).is_some());
    }

    #[test]
    fn what_has_ended_is_not_kept_for_ever() {
        let mut streams = KeptStreams::new(0);
        let (open, ended) = (stream(streams.next()), stream(streams.next()));
        ended.answer(b"{}".to_vec());
        streams.insert(&open);
        streams.insert(&ended);
        streams.tick(Time(0));
        streams.tick(Time(0) + UNSENT);
        assert!(streams.find(ended.number()).is_none());
        assert!(streams.find(open.number()).is_some());
    }
}
