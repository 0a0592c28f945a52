//! What one stream has to say and what it still knows: pure, and within bounds.
//!
//! Messages are numbered from 1 in the order in which they were said; the answer is the last.

use bytes::Bytes;
use std::{collections::VecDeque, time::Duration};

/// How a stream behaves.
#[derive(Clone, Debug)]
pub(crate) struct StreamRules {
    pub(crate) retention: Retention,
    /// How long a client should wait before it comes back.
    pub(crate) retry: Duration,
    /// So many bytes of messages are kept. The newest message and the answer are always kept.
    pub(crate) keep_bytes: usize,
    /// So many messages are kept, not counting the answer.
    pub(crate) keep_events: usize,
}

/// What becomes of a message once it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// It stays, has an id, and can be asked for again: 2025 versions.
    Replayable,
    /// It is gone and never had an id: 2026-07-28, HTTP+SSE.
    Once,
}

/// What a stream began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// The answer, and nothing before it.
    Answer(Bytes),
    /// Something was said before the answer, so the answer needs a stream.
    Spoke,
    /// It ended without a word.
    Ended,
}

#[derive(Debug)]
pub(crate) struct Backlog {
    /// What was said and is kept, oldest first. The answer is not among it.
    said: VecDeque<Bytes>,
    /// The number of the first of `said`, or of the next message if there is none.
    first: u64,
    /// So many of `said` the reader has had.
    sent: usize,
    bytes: usize,
    unsent_bytes: usize,
    end: End,
}

#[derive(Debug)]
enum End {
    Open,
    Answer { message: Bytes, sent: bool },
    NoAnswer,
}

/// A queue that has grown beyond this gives its memory back when it is empty.
const SMALL: usize = 16;

impl Backlog {
    pub(crate) const fn new() -> Self {
        Self {
            said: VecDeque::new(),
            first: 1,
            sent: 0,
            bytes: 0,
            unsent_bytes: 0,
            end: End::Open,
        }
    }

    /// Adds a message, and lets go of the oldest ones that are too many. False if nothing can be
    /// said any more.
    pub(crate) fn say(&mut self, message: Bytes, rules: &StreamRules) -> bool {
        if self.is_ended() {
            return false;
        }
        self.bytes += message.len();
        self.unsent_bytes += message.len();
        self.said.push_back(message);
        while self.said.len() > 1
            && (self.said.len() > rules.keep_events || self.bytes > rules.keep_bytes)
        {
            self.forget_oldest();
        }
        true
    }

    /// The last message. It is lost on a stream that has ended: its call was taken back.
    pub(crate) fn answer(&mut self, message: Bytes) {
        if !self.is_ended() {
            self.end = End::Answer {
                message,
                sent: false,
            };
        }
    }

    pub(crate) fn end(&mut self) {
        if !self.is_ended() {
            self.end = End::NoAnswer;
        }
    }

    pub(crate) const fn is_ended(&self) -> bool {
        match self.end {
            End::Open => false,
            End::Answer { .. } | End::NoAnswer => true,
        }
    }

    /// It has ended, and everything in it was sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.sent == self.said.len()
            && match self.end {
                End::Open => false,
                End::Answer { sent, .. } => sent,
                End::NoAnswer => true,
            }
    }

    /// Half of what is kept may wait, so that several who ask at once and then speak do not push
    /// each other's messages out.
    pub(crate) fn has_room(&self, rules: &StreamRules) -> bool {
        self.said.len() - self.sent <= rules.keep_events / 2
            && self.unsent_bytes <= rules.keep_bytes / 2
    }

    pub(crate) fn first_message(&self) -> Option<First> {
        if self.next() > 1 {
            return Some(First::Spoke);
        }
        match &self.end {
            End::Open => None,
            End::Answer { message, .. } => Some(First::Answer(message.clone())),
            End::NoAnswer => Some(First::Ended),
        }
    }

    /// The number of the last message that was sent; 0 if none was.
    pub(crate) fn last_sent(&self) -> u64 {
        match self.end {
            End::Answer { sent: true, .. } => self.next(),
            End::Answer { sent: false, .. } | End::Open | End::NoAnswer => {
                self.first + self.sent as u64 - 1
            }
        }
    }

    /// Everything after this number is to be sent, again if need be. What is gone already stays
    /// gone; a number that was never given out means the last one that was.
    pub(crate) fn rewind(&mut self, after: Option<u64>, retention: Retention) {
        match retention {
            Retention::Once => return,
            Retention::Replayable => {}
        }
        let after = after.unwrap_or(0);
        let had = after.saturating_add(1).saturating_sub(self.first);
        let answer = self.next();
        self.sent = usize::try_from(had).map_or(self.said.len(), |had| had.min(self.said.len()));
        self.unsent_bytes = self.said.iter().skip(self.sent).map(Bytes::len).sum();
        if let End::Answer { sent, .. } = &mut self.end {
            *sent = after >= answer;
        }
    }

    /// The oldest message that is to be sent, and its number.
    pub(crate) fn unsent(&self) -> Option<(u64, &Bytes)> {
        if let Some(message) = self.said.get(self.sent) {
            return Some((self.first + self.sent as u64, message));
        }
        match &self.end {
            End::Answer {
                message,
                sent: false,
            } => Some((self.next(), message)),
            End::Answer { sent: true, .. } | End::Open | End::NoAnswer => None,
        }
    }

    /// What [`unsent`](Self::unsent) gave was sent.
    pub(crate) fn mark_sent(&mut self, retention: Retention) {
        if let Some(message) = self.said.get(self.sent) {
            self.unsent_bytes -= message.len();
            self.sent += 1;
            match retention {
                Retention::Once => self.forget_oldest(),
                Retention::Replayable => {}
            }
        } else if let End::Answer { message, sent } = &mut self.end {
            *sent = true;
            match retention {
                Retention::Once => *message = Bytes::new(),
                Retention::Replayable => {}
            }
        }
    }

    /// The number of the next message, which is that of the answer once it is there.
    fn next(&self) -> u64 {
        self.first + self.said.len() as u64
    }

    fn forget_oldest(&mut self) {
        let Some(gone) = self.said.pop_front() else {
            return;
        };
        self.first += 1;
        self.bytes -= gone.len();
        if self.sent > 0 {
            self.sent -= 1;
        } else {
            self.unsent_bytes -= gone.len();
        }
        if self.said.is_empty() && self.said.capacity() > SMALL {
            self.said = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: StreamRules = StreamRules {
        retention: Retention::Replayable,
        retry: Duration::ZERO,
        keep_bytes: 10,
        keep_events: 4,
    };

    fn spoken(messages: &[&str]) -> Backlog {
        let mut backlog = Backlog::new();
        for message in messages {
            assert!(backlog.say(Bytes::copy_from_slice(message.as_bytes()), &RULES));
        }
        backlog
    }

    fn drain(backlog: &mut Backlog, retention: Retention) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        while let Some((seq, message)) = backlog.unsent() {
            all.push((seq, String::from_utf8(message.to_vec()).unwrap()));
            backlog.mark_sent(retention);
        }
        all
    }

    #[track_caller]
    fn check(backlog: &mut Backlog, expected: &[(u64, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(n, m)| (*n, (*m).into())).collect();
        assert_eq!(drain(backlog, Retention::Replayable), expected);
    }

    #[test]
    fn messages_are_numbered_from_one_and_the_answer_is_last() {
        let mut backlog = spoken(&["a", "b"]);
        backlog.answer("z".into());
        check(&mut backlog, &[(1, "a"), (2, "b"), (3, "z")]);
        assert!(backlog.is_drained());
        assert_eq!(backlog.last_sent(), 3);
    }

    #[test]
    fn the_oldest_go_when_they_are_too_many() {
        check(
            &mut spoken(&["a", "b", "c", "d", "e", "f"]),
            &[(3, "c"), (4, "d"), (5, "e"), (6, "f")],
        );
    }

    #[test]
    fn the_oldest_go_when_they_are_too_large() {
        check(
            &mut spoken(&["12345", "12345", "x"]),
            &[(2, "12345"), (3, "x")],
        );
    }

    #[test]
    fn the_newest_stays_however_large() {
        check(
            &mut spoken(&["a", "b", "0123456789abcdef"]),
            &[(3, "0123456789abcdef")],
        );
    }

    #[test]
    fn sent_ones_go_before_unsent_ones() {
        let mut backlog = spoken(&["a", "b", "c"]);
        backlog.mark_sent(Retention::Replayable);
        backlog.mark_sent(Retention::Replayable);
        for message in ["d", "e", "f"] {
            backlog.say(message.into(), &RULES);
        }
        check(&mut backlog, &[(3, "c"), (4, "d"), (5, "e"), (6, "f")]);
    }

    #[test]
    fn an_answer_pushes_nothing_out_and_is_never_pushed_out() {
        let mut backlog = spoken(&["a", "b", "c", "d"]);
        backlog.answer("an answer larger than all that is kept".into());
        assert!(!backlog.say("late".into(), &RULES));
        assert_eq!(drain(&mut backlog, Retention::Replayable).len(), 5);
    }

    #[test]
    fn a_taken_back_call_has_no_answer() {
        let mut backlog = spoken(&["a"]);
        backlog.end();
        backlog.answer("z".into());
        check(&mut backlog, &[(1, "a")]);
        assert!(backlog.is_drained());
    }

    #[test]
    fn a_replay_begins_after_the_number_it_names() {
        let mut backlog = spoken(&["a", "b", "c"]);
        backlog.answer("z".into());
        let everything = [(1, "a"), (2, "b"), (3, "c"), (4, "z")];
        let ways = [
            (None, 0),
            (Some(0), 0),
            (Some(2), 2),
            (Some(3), 3),
            (Some(4), 4),
            (Some(5), 4),
            (Some(u64::MAX), 4),
        ];
        for (after, had) in ways {
            backlog.rewind(after, Retention::Replayable);
            assert_eq!(backlog.last_sent(), had as u64, "after {after:?}");
            check(&mut backlog, &everything[had..]);
        }
    }

    #[test]
    fn what_is_gone_already_is_left_out_of_a_replay() {
        let mut backlog = spoken(&["a", "b", "c", "d", "e", "f"]);
        backlog.rewind(Some(1), Retention::Replayable);
        check(&mut backlog, &[(3, "c"), (4, "d"), (5, "e"), (6, "f")]);
    }

    #[test]
    fn a_number_from_the_future_hides_nothing_that_comes() {
        let mut backlog = spoken(&["a"]);
        backlog.rewind(Some(99), Retention::Replayable);
        backlog.say("b".into(), &RULES);
        check(&mut backlog, &[(2, "b")]);
    }

    #[test]
    fn what_is_sent_once_is_gone() {
        let mut backlog = spoken(&["a", "b"]);
        backlog.answer("z".into());
        assert_eq!(drain(&mut backlog, Retention::Once).len(), 3);
        backlog.rewind(None, Retention::Once);
        assert_eq!(drain(&mut backlog, Retention::Once), []);
        assert!(backlog.is_drained());
    }

    #[test]
    fn a_number_means_nothing_where_nothing_is_kept() {
        let mut backlog = spoken(&["a", "b"]);
        backlog.rewind(Some(2), Retention::Once);
        assert_eq!(drain(&mut backlog, Retention::Once).len(), 2);
    }

    #[test]
    fn room_is_what_is_unsent_and_not_what_is_kept() {
        let mut backlog = spoken(&["a", "b", "c"]);
        assert!(!backlog.has_room(&RULES));
        backlog.mark_sent(Retention::Replayable);
        assert!(backlog.has_room(&RULES));
        backlog.say("123456".into(), &RULES);
        assert!(!backlog.has_room(&RULES));
        drain(&mut backlog, Retention::Replayable);
        assert!(backlog.has_room(&RULES));
        backlog.rewind(None, Retention::Replayable);
        assert!(!backlog.has_room(&RULES));
    }

    #[test]
    fn an_answer_with_nothing_before_it_is_the_first_message() {
        let mut backlog = Backlog::new();
        assert_eq!(backlog.first_message(), None);
        backlog.answer("z".into());
        assert_eq!(backlog.first_message(), Some(First::Answer("z".into())));
    }

    #[test]
    fn an_answer_with_something_before_it_needs_a_stream() {
        let mut backlog = spoken(&["a"]);
        assert_eq!(backlog.first_message(), Some(First::Spoke));
        drain(&mut backlog, Retention::Once);
        backlog.answer("z".into());
        assert_eq!(backlog.first_message(), Some(First::Spoke));
    }

    #[test]
    fn an_empty_queue_gives_back_its_memory() {
        let rules = StreamRules {
            keep_events: 1000,
            keep_bytes: 1000,
            ..RULES
        };
        let mut backlog = Backlog::new();
        for _ in 0..1000 {
            backlog.say("x".into(), &rules);
        }
        drain(&mut backlog, Retention::Once);
        assert!(backlog.said.capacity() <= SMALL);
        assert_eq!((backlog.bytes, backlog.unsent_bytes), (0, 0));
    }
}
