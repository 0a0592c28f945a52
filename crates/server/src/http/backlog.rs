//! What one stream has to say and what it still knows: pure, and within bounds.
//!
//! Messages are numbered from 1 in the order in which they were said; the answer is the last.

use crate::note::Note;
use bytes::Bytes;
use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

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
    said: VecDeque<Said>,
    /// The number of the next message, which is that of the answer once it is there.
    next: u64,
    /// So many of `said` the reader has had.
    sent: usize,
    /// How many of `said` may be let go of, and how large they are together.
    loose: Load,
    unsent_bytes: usize,
    /// The changes among what is unsent.
    notes: BTreeSet<Note>,
    end: End,
}

/// A message that is kept.
#[derive(Debug)]
struct Said {
    seq: u64,
    message: Bytes,
    worth: Worth,
}

/// What a message is worth as long as it was not sent. One that was sent may be let go of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// It may be let go of if there are too many.
    Word,
    /// Somebody waits for it, so it stays.
    Due,
    /// It stays, and stands for all that say the same.
    Note(Note),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    events: usize,
    bytes: usize,
}

impl Load {
    const fn add(&mut self, message: &Bytes) {
        self.events += 1;
        self.bytes += message.len();
    }

    const fn remove(&mut self, message: &Bytes) {
        self.events -= 1;
        self.bytes -= message.len();
    }
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
            next: 1,
            sent: 0,
            loose: Load {
                events: 0,
                bytes: 0,
            },
            unsent_bytes: 0,
            notes: BTreeSet::new(),
            end: End::Open,
        }
    }

    /// Adds a message, and lets go of the oldest ones that are too many. False if nothing can be
    /// said any more.
    pub(crate) fn say(&mut self, message: Bytes, worth: Worth, rules: &StreamRules) -> bool {
        if self.is_ended() {
            return false;
        }
        match &worth {
            Worth::Word => self.loose.add(&message),
            Worth::Due => {}
            Worth::Note(note) => {
                if !self.notes.insert(note.clone()) {
                    return true;
                }
            }
        }
        self.unsent_bytes += message.len();
        self.said.push_back(Said {
            seq: self.next,
            message,
            worth,
        });
        self.next += 1;
        while self.loose.events > rules.keep_events || self.loose.bytes > rules.keep_bytes {
            let Some(oldest) = self.oldest_loose() else {
                break;
            };
            self.forget(oldest);
        }
        true
    }

    /// Whether a change waits to be told of, so that it need not be said again.
    pub(crate) fn has_note(&self, note: &Note) -> bool {
        self.notes.contains(note)
    }

    /// A change that nobody has been told of need not be told.
    pub(crate) fn take_back(&mut self, note: &Note) {
        if !self.notes.remove(note) {
            return;
        }
        let mut unsent = self.said.iter().skip(self.sent);
        let is_it = |said: &Said| matches!(&said.worth, Worth::Note(other) if other == note);
        if let Some(index) = unsent.position(is_it)
            && let Some(gone) = self.said.remove(self.sent + index)
        {
            self.unsent_bytes -= gone.message.len();
        }
    }

    /// The oldest message that may be let go of. The newest may not.
    fn oldest_loose(&self) -> Option<usize> {
        let older = self.said.len().saturating_sub(1);
        if self.sent > 0 && older > 0 {
            return Some(0);
        }
        let mut older = self.said.iter().take(older);
        older.position(|said| said.worth == Worth::Word)
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
        if self.next > 1 {
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
            End::Answer { sent: true, .. } => self.next,
            End::Answer { sent: false, .. } | End::Open | End::NoAnswer => {
                let unsent = self.said.get(self.sent);
                unsent.map_or(self.next, |said| said.seq) - 1
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
        self.sent = self.said.partition_point(|said| said.seq <= after);
        self.unsent_bytes = 0;
        self.loose = Load::default();
        self.notes.clear();
        for (index, said) in self.said.iter().enumerate() {
            let unsent = index >= self.sent;
            if unsent {
                self.unsent_bytes += said.message.len();
            }
            match &said.worth {
                Worth::Note(note) if unsent => {
                    self.notes.insert(note.clone());
                }
                Worth::Due if unsent => {}
                Worth::Word | Worth::Due | Worth::Note(_) => self.loose.add(&said.message),
            }
        }
        if let End::Answer { sent, .. } = &mut self.end {
            *sent = after >= self.next;
        }
    }

    /// The oldest message that is to be sent, and its number.
    pub(crate) fn unsent(&self) -> Option<(u64, &Bytes)> {
        if let Some(said) = self.said.get(self.sent) {
            return Some((said.seq, &said.message));
        }
        match &self.end {
            End::Answer {
                message,
                sent: false,
            } => Some((self.next, message)),
            End::Answer { sent: true, .. } | End::Open | End::NoAnswer => None,
        }
    }

    /// What [`unsent`](Self::unsent) gave was sent.
    pub(crate) fn mark_sent(&mut self, retention: Retention) {
        if let Some(said) = self.said.get(self.sent) {
            self.unsent_bytes -= said.message.len();
            match &said.worth {
                Worth::Word => {}
                Worth::Due => self.loose.add(&said.message),
                Worth::Note(note) => {
                    self.notes.remove(note);
                    self.loose.add(&said.message);
                }
            }
            self.sent += 1;
            match retention {
                Retention::Once => self.forget(0),
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

    /// Lets go of a message that may be let go of.
    fn forget(&mut self, index: usize) {
        let Some(gone) = self.said.remove(index) else {
            return;
        };
        self.loose.remove(&gone.message);
        if index < self.sent {
            self.sent -= 1;
        } else {
            self.unsent_bytes -= gone.message.len();
        }
        if self.said.is_empty() && self.said.capacity() > SMALL {
            self.said = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::News;

    const RULES: StreamRules = StreamRules {
        retention: Retention::Replayable,
        retry: Duration::ZERO,
        keep_bytes: 10,
        keep_events: 4,
    };

    fn say(backlog: &mut Backlog, message: &str, worth: Worth) -> bool {
        backlog.say(Bytes::copy_from_slice(message.as_bytes()), worth, &RULES)
    }

    fn word(backlog: &mut Backlog, message: &str) {
        assert!(say(backlog, message, Worth::Word));
    }

    fn due(backlog: &mut Backlog, message: &str) {
        assert!(say(backlog, message, Worth::Due));
    }

    fn updated(uri: &str) -> Note {
        Note {
            news: News::Updated(uri.into()),
            subscription: None,
        }
    }

    fn note(backlog: &mut Backlog, uri: &str) {
        assert!(say(backlog, uri, Worth::Note(updated(uri))));
    }

    fn spoken(messages: &[&str]) -> Backlog {
        let mut backlog = Backlog::new();
        for message in messages {
            word(&mut backlog, message);
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
            word(&mut backlog, message);
        }
        check(&mut backlog, &[(3, "c"), (4, "d"), (5, "e"), (6, "f")]);
    }

    #[test]
    fn an_answer_pushes_nothing_out_and_is_never_pushed_out() {
        let mut backlog = spoken(&["a", "b", "c", "d"]);
        backlog.answer("an answer larger than all that is kept".into());
        assert!(!say(&mut backlog, "late", Worth::Word));
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
        word(&mut backlog, "b");
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
        word(&mut backlog, "123456");
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
            backlog.say("x".into(), Worth::Word, &rules);
        }
        drain(&mut backlog, Retention::Once);
        assert!(backlog.said.capacity() <= SMALL);
        assert_eq!((backlog.loose, backlog.unsent_bytes), (Load::default(), 0));
    }

    #[test]
    fn what_somebody_waits_for_is_never_let_go_of() {
        let mut backlog = Backlog::new();
        due(&mut backlog, "larger than all that is kept");
        for _ in 0..9 {
            due(&mut backlog, "a");
            word(&mut backlog, "w");
        }
        let all = drain(&mut backlog, Retention::Once);
        let (dues, words): (Vec<_>, Vec<_>) = all.iter().partition(|(_, text)| text != "w");
        assert_eq!((dues.len(), words.len()), (10, RULES.keep_events));
        assert!(all.is_sorted());
        assert_eq!((backlog.loose, backlog.unsent_bytes), (Load::default(), 0));
    }

    #[test]
    fn what_somebody_waits_for_pushes_no_word_out() {
        let mut backlog = spoken(&["a", "b", "c", "d"]);
        due(&mut backlog, "larger than all that is kept");
        assert_eq!(drain(&mut backlog, Retention::Once).len(), 5);
    }

    #[test]
    fn a_change_is_told_once_however_often_it_happens_before_it_is_sent() {
        let mut backlog = Backlog::new();
        for _ in 0..300 {
            note(&mut backlog, "x:a");
            note(&mut backlog, "x:b");
        }
        check(&mut backlog, &[(1, "x:a"), (2, "x:b")]);
        note(&mut backlog, "x:a");
        check(&mut backlog, &[(3, "x:a")]);
    }

    #[test]
    fn changes_push_nothing_out_and_are_not_pushed_out() {
        let mut backlog = Backlog::new();
        due(&mut backlog, "acknowledged");
        for n in 0..100 {
            note(&mut backlog, &format!("x:{n}"));
            word(&mut backlog, "w");
        }
        let all = drain(&mut backlog, Retention::Once);
        assert_eq!(all[0], (1, "acknowledged".into()));
        let notes = all.iter().filter(|(_, text)| text.starts_with("x:"));
        assert_eq!(notes.count(), 100);
        assert!(backlog.notes.is_empty());
    }

    #[test]
    fn what_was_sent_may_be_let_go_of_whatever_it_was() {
        let mut backlog = Backlog::new();
        due(&mut backlog, "a");
        note(&mut backlog, "x:a");
        drain(&mut backlog, Retention::Replayable);
        for message in ["1", "2", "3", "4"] {
            word(&mut backlog, message);
        }
        backlog.rewind(None, Retention::Replayable);
        check(&mut backlog, &[(3, "1"), (4, "2"), (5, "3"), (6, "4")]);
    }

    #[test]
    fn a_change_that_is_going_to_be_replayed_is_not_said_again() {
        let mut backlog = Backlog::new();
        note(&mut backlog, "x:a");
        drain(&mut backlog, Retention::Replayable);
        backlog.rewind(None, Retention::Replayable);
        note(&mut backlog, "x:a");
        check(&mut backlog, &[(1, "x:a")]);
        note(&mut backlog, "x:a");
        check(&mut backlog, &[(2, "x:a")]);
    }

    #[test]
    fn a_change_can_be_taken_back_until_it_is_sent() {
        let mut backlog = Backlog::new();
        note(&mut backlog, "x:a");
        note(&mut backlog, "x:b");
        drain(&mut backlog, Retention::Replayable);
        note(&mut backlog, "x:a");
        note(&mut backlog, "x:c");
        backlog.take_back(&updated("x:a"));
        backlog.take_back(&updated("x:b"));
        assert_eq!(backlog.unsent_bytes, 3);
        check(&mut backlog, &[(4, "x:c")]);
        backlog.rewind(None, Retention::Replayable);
        check(&mut backlog, &[(1, "x:a"), (2, "x:b"), (4, "x:c")]);
    }
}
