//! The streams of a session that can be taken up again, in bounds.

use super::stream::Stream;
use interlock_proto::Time;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// So many streams are kept for clients that have not heard their end.
const MOST: usize = 64;
/// So many bytes of answers are kept, the newest of any size.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// A stream whose end was sent is kept so long: it may have been lost on the way.
const SENT: Duration = Duration::from_secs(60);
/// A stream that has ended is kept so long for a client that has not come back.
const UNSENT: Duration = Duration::from_secs(10 * 60);

/// The streams of a session that can be taken up again.
#[derive(Debug, Default)]
pub(crate) struct Resumable {
    kept: BTreeMap<u64, Kept>,
    last: u64,
}

#[derive(Debug)]
struct Kept {
    stream: Arc<Stream>,
    /// Since when it is known to have ended, and to have been sent.
    ended: Option<Time>,
    sent: Option<Time>,
}

impl Resumable {
    /// A number that no stream of this session has had.
    pub(crate) const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The last number that was given out.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Numbers up to this one have been given out before.
    pub(crate) const fn begin_after(&mut self, number: u64) {
        self.last = number;
    }

    /// Keeps a stream, and lets go of ended ones that are too many.
    pub(crate) fn keep(&mut self, stream: &Arc<Stream>) {
        let kept = Kept {
            stream: Arc::clone(stream),
            ended: None,
            sent: None,
        };
        self.kept.insert(stream.number(), kept);
        self.make_room();
    }

    /// Lets go of ended streams, those that were sent first, while they are too many or too large.
    fn make_room(&mut self) {
        let size = |kept: &Kept| kept.stream.answer_bytes();
        let mut bytes: usize = self.kept.values().map(size).sum();
        while self.kept.len() > MOST || bytes > MOST_BYTES {
            let newest = self.kept.last_key_value().map(|(number, _)| *number);
            let older = || {
                self.kept
                    .iter()
                    .filter(|(number, _)| Some(**number) != newest)
            };
            let sent = older().find(|(_, kept)| kept.stream.is_drained());
            let ended = sent.or_else(|| older().find(|(_, kept)| kept.stream.is_ended()));
            let Some((number, freed)) = ended.map(|(number, kept)| (*number, size(kept))) else {
                return;
            };
            bytes -= freed;
            self.kept.remove(&number);
        }
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<Stream>> {
        let kept = self.kept.get(&number)?;
        Some(Arc::clone(&kept.stream))
    }

    /// Lets go of what has been kept long enough.
    pub(crate) fn tick(&mut self, now: Time) {
        self.kept.retain(|_, kept| {
            if kept.stream.is_ended() {
                kept.ended.get_or_insert(now);
            }
            if kept.stream.is_drained() {
                kept.sent.get_or_insert(now);
            }
            let over = |since: Option<Time>, patience| since.is_some_and(|at| now >= at + patience);
            !over(kept.ended, UNSENT) && !over(kept.sent, SENT)
        });
        self.make_room();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::stream::{Retention, StreamRules};

    fn stream(number: u64) -> Arc<Stream> {
        let rules = StreamRules {
            retention: Retention::Replayable,
            retry: Duration::ZERO,
            keep_bytes: 100,
            keep_events: 10,
        };
        Stream::new(number, rules)
    }

    #[test]
    fn ended_streams_make_room_for_new_ones_and_open_ones_never_do() {
        let mut streams = Resumable::default();
        let open: Vec<_> = (0..MOST + 10).map(|_| stream(streams.next())).collect();
        for stream in &open {
            streams.keep(stream);
        }
        assert_eq!(streams.kept.len(), MOST + 10);
        for stream in &open {
            stream.end();
        }
        let last = stream(streams.next());
        streams.keep(&last);
        assert_eq!(streams.kept.len(), MOST);
        assert!(streams.find(last.number()).is_some());
        assert!(streams.find(1).is_none());
    }

    #[test]
    fn large_answers_make_room_for_each_other() {
        let mut streams = Resumable::default();
        for _ in 0..5 {
            let stream = stream(streams.next());
            stream.answer(vec![b' '; MOST_BYTES / 3]);
            streams.keep(&stream);
        }
        let kept: Vec<_> = streams.kept.keys().copied().collect();
        assert_eq!(kept, [3, 4, 5]);
        let huge = stream(streams.next());
        streams.keep(&huge);
        huge.answer(vec![b' '; 2 * MOST_BYTES]);
        streams.tick(Time(0));
        assert_eq!(streams.kept.len(), 1);
        assert!(streams.find(huge.number()).is_some());
    }

    #[test]
    fn what_has_ended_is_not_kept_for_ever() {
        let mut streams = Resumable::default();
        let (open, ended) = (stream(streams.next()), stream(streams.next()));
        ended.answer(b"{}".to_vec());
        streams.keep(&open);
        streams.keep(&ended);
        streams.tick(Time(0));
        streams.tick(Time(0) + UNSENT);
        assert!(streams.find(ended.number()).is_none());
        assert!(streams.find(open.number()).is_some());
    }
}
