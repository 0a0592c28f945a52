//! Which instances give way, and who waits for how long.

use super::*;
use crate::testing::{flow, running};
use interlock_workflow::{Artifact, Kind};

const USED: Time = Time(10_000);

fn written() -> Written {
    let flow = flow();
    Written::new(&flow, &flow.start(0), None)
}

#[test]
fn what_has_ended_gives_way_at_once_then_what_no_call_has_had_then_what_was_not_used() {
    let mut one = written();
    let of = |one: &Written, after: Duration| gives_way(one, USED, USED + after);
    let just_before = Duration::from_millis(1);
    let safe = |span: Duration| Err(Some(USED + span));
    assert_eq!(of(&one, UNTOUCHED - just_before), safe(UNTOUCHED));
    assert_eq!(of(&one, UNTOUCHED), Ok(GivesWay::Untouched));
    one.calls = 1;
    assert_eq!(of(&one, UNUSED - just_before), safe(UNUSED));
    assert_eq!(of(&one, UNUSED), Ok(GivesWay::Unused));
    one.run.finished = true;
    assert_eq!(of(&one, Duration::ZERO), Ok(GivesWay::Finished));
    assert!(GivesWay::Finished < GivesWay::Untouched);
    assert!(GivesWay::Untouched < GivesWay::Unused);
}

#[test]
fn what_runs_a_call_or_waits_for_an_operator_gives_way_to_nothing() {
    let mut one = written();
    let until = Time(5_000);
    one.running = Some(Arc::new(running((1, 7), (Kind::Tool, "go"))));
    assert_eq!(gives_way(&one, Time(0), Time(4_999)), Err(Some(until)));
    assert!(gives_way(&one, Time(0), Time(700_000)).is_ok());
    one.run.held = serde_json::from_value(serde_json::json!({
        "artifact": { "kind": "tool", "name": "go" },
        "args": null,
        "principal": null,
    }))
    .unwrap();
    assert_eq!(gives_way(&one, Time(0), Time(700_000)), Err(None));
}

#[test]
fn what_is_asked_of_an_operator_gives_way_to_nothing_until_the_question_is_over() {
    let mut one = written();
    let (nobody, go) = (Principal::anonymous(), Artifact::new(Kind::Tool, "go"));
    let call = (&nobody, &go, &serde_json::Value::Null);
    let (holds, asked) = (Duration::from_secs(600), Time(0));
    let question = ApprovalRequest::new(call, ("i", 0), "Go?".to_owned(), holds, asked);
    one.asked.push(question);
    let until = Time(600_000);
    assert_eq!(gives_way(&one, Time(0), Time(599_999)), Err(Some(until)));
    assert_eq!(gives_way(&one, Time(0), until), Ok(GivesWay::Untouched));
}

#[test]
fn who_has_no_room_waits_until_something_gives_way_or_ends() {
    let (starts, alice, bob) = (
        Starts::default(),
        Principal::new("alice"),
        Principal::new("bob"),
    );
    let of = |who, now| starts.wait(&prefix(who), Time(now));
    assert_eq!(of(&alice, 0), None);
    starts.is_full(prefix(&alice), Time(100), Time(10));
    starts.is_full(prefix(&bob), Time(100), Time(10));
    assert_eq!(of(&alice, 60), Some(Duration::from_millis(40)));
    assert_eq!(of(&alice, 100), None);
    starts.finished(&alice);
    assert_eq!(of(&alice, 60), None);
    assert!(of(&bob, 60).is_some());
    starts.is_full(prefix(&alice), Time(300), Time(200));
    assert_eq!(lock(&starts.full).len(), 1, "what is over is forgotten");
    starts.is_full(prefix(&bob), Time(60_000), Time(1_000));
    assert_eq!(of(&bob, 10_999), Some(Duration::from_millis(49_001)));
    assert_eq!(of(&bob, 11_000), None, "then it is looked at again");
}
