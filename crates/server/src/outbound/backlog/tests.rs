//! What a backlog keeps, and what it lets go of.

use crate::{model::change::ServerChange, outbound::backlog::*};

const RULES: StreamRules = StreamRules {
    retention: Retention::Replayable,
    keep_bytes: 10,
    keep_events: 4,
};

fn append(backlog: &mut Backlog, message: &str, delivery: Delivery) -> bool {
    backlog.append(Bytes::copy_from_slice(message.as_bytes()), delivery, &RULES)
}

fn best_effort(backlog: &mut Backlog, message: &str) {
    assert!(append(backlog, message, Delivery::BestEffort));
}

fn required(backlog: &mut Backlog, message: &str) {
    assert!(append(backlog, message, Delivery::Required));
}

fn updated(uri: &str) -> ChangeNotification {
    ChangeNotification {
        change: ServerChange::Resource(uri.into()),
        subscription: None,
    }
}

fn change(backlog: &mut Backlog, uri: &str) {
    assert!(append(backlog, uri, Delivery::Change(updated(uri))));
}

fn spoken(messages: &[&str]) -> Backlog {
    let mut backlog = Backlog::new();
    for message in messages {
        best_effort(&mut backlog, message);
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
        best_effort(&mut backlog, message);
    }
    check(&mut backlog, &[(3, "c"), (4, "d"), (5, "e"), (6, "f")]);
}

#[test]
fn an_answer_pushes_nothing_out_and_is_never_pushed_out() {
    let mut backlog = spoken(&["a", "b", "c", "d"]);
    backlog.answer("an answer larger than all that is kept".into());
    assert!(!append(&mut backlog, "late", Delivery::BestEffort));
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
    best_effort(&mut backlog, "b");
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
    best_effort(&mut backlog, "123456");
    assert!(!backlog.has_room(&RULES));
    drain(&mut backlog, Retention::Replayable);
    assert!(backlog.has_room(&RULES));
    backlog.rewind(None, Retention::Replayable);
    assert!(!backlog.has_room(&RULES));
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
        backlog.append("x".into(), Delivery::BestEffort, &rules);
    }
    drain(&mut backlog, Retention::Once);
    assert!(backlog.messages.capacity() <= SMALL);
    assert_eq!(
        (backlog.droppable, backlog.unsent_bytes),
        (Volume::default(), 0)
    );
}

#[test]
fn what_somebody_waits_for_is_never_let_go_of() {
    let mut backlog = Backlog::new();
    required(&mut backlog, "larger than all that is kept");
    for _ in 0..9 {
        required(&mut backlog, "a");
        best_effort(&mut backlog, "w");
    }
    let all = drain(&mut backlog, Retention::Once);
    let (dues, words): (Vec<_>, Vec<_>) = all.iter().partition(|(_, text)| text != "w");
    assert_eq!((dues.len(), words.len()), (10, RULES.keep_events));
    assert!(all.is_sorted());
    assert_eq!(
        (backlog.droppable, backlog.unsent_bytes),
        (Volume::default(), 0)
    );
}

#[test]
fn what_somebody_waits_for_pushes_no_word_out() {
    let mut backlog = spoken(&["a", "b", "c", "d"]);
    required(&mut backlog, "larger than all that is kept");
    assert_eq!(drain(&mut backlog, Retention::Once).len(), 5);
}

#[test]
fn a_change_is_told_once_however_often_it_happens_before_it_is_sent() {
    let mut backlog = Backlog::new();
    for _ in 0..300 {
        change(&mut backlog, "x:a");
        change(&mut backlog, "x:b");
    }
    check(&mut backlog, &[(1, "x:a"), (2, "x:b")]);
    change(&mut backlog, "x:a");
    check(&mut backlog, &[(3, "x:a")]);
}

#[test]
fn changes_push_nothing_out_and_are_not_pushed_out() {
    let mut backlog = Backlog::new();
    required(&mut backlog, "acknowledged");
    for n in 0..100 {
        change(&mut backlog, &format!("x:{n}"));
        best_effort(&mut backlog, "w");
    }
    let all = drain(&mut backlog, Retention::Once);
    assert_eq!(all[0], (1, "acknowledged".into()));
    let notes = all.iter().filter(|(_, text)| text.starts_with("x:"));
    assert_eq!(notes.count(), 100);
    assert!(backlog.changes.is_empty());
}

#[test]
fn what_was_sent_may_be_let_go_of_whatever_it_was() {
    let mut backlog = Backlog::new();
    required(&mut backlog, "a");
    change(&mut backlog, "x:a");
    drain(&mut backlog, Retention::Replayable);
    for message in ["1", "2", "3", "4"] {
        best_effort(&mut backlog, message);
    }
    backlog.rewind(None, Retention::Replayable);
    check(&mut backlog, &[(3, "1"), (4, "2"), (5, "3"), (6, "4")]);
}

#[test]
fn a_change_that_is_going_to_be_replayed_is_not_said_again() {
    let mut backlog = Backlog::new();
    change(&mut backlog, "x:a");
    drain(&mut backlog, Retention::Replayable);
    backlog.rewind(None, Retention::Replayable);
    change(&mut backlog, "x:a");
    check(&mut backlog, &[(1, "x:a")]);
    change(&mut backlog, "x:a");
    check(&mut backlog, &[(2, "x:a")]);
}

#[test]
fn a_change_can_be_taken_back_until_it_is_sent() {
    let mut backlog = Backlog::new();
    change(&mut backlog, "x:a");
    change(&mut backlog, "x:b");
    drain(&mut backlog, Retention::Replayable);
    change(&mut backlog, "x:a");
    change(&mut backlog, "x:c");
    backlog.retract(&updated("x:a"));
    backlog.retract(&updated("x:b"));
    assert_eq!(backlog.unsent_bytes, 3);
    check(&mut backlog, &[(4, "x:c")]);
    backlog.rewind(None, Retention::Replayable);
    check(&mut backlog, &[(1, "x:a"), (2, "x:b"), (4, "x:c")]);
}
