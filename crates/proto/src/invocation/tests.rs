//! What a call does, transition by transition.

use super::*;

const TIMES: Times = Times {
    queue: Duration::from_millis(100),
    execution: Duration::from_millis(200),
    grace: Duration::from_millis(50),
};

fn call() -> Input {
    Input::Call {
        queue: TIMES.queue,
        grace: TIMES.grace,
    }
}

fn turn() -> Input {
    Input::Turn {
        execution: TIMES.execution,
    }
}

/// Plays the inputs, each at its time, and gives the last step.
fn play(inputs: impl IntoIterator<Item = (Input, u64)>) -> Step<State, Effect> {
    let mut last = go(State::Idle, []);
    for (input, at) in inputs {
        last = step(&last.state, input, Time(at));
    }
    last
}

#[track_caller]
fn check(inputs: &[(Input, u64)], end: End, effects: &[Effect]) {
    let step = play(inputs.iter().cloned());
    assert_eq!(step.state, State::Result(end));
    assert_eq!(*step.effects, *effects);
}

fn running() -> Vec<(Input, u64)> {
    vec![(call(), 0), (turn(), 10)]
}

fn running_then(more: &[(Input, u64)]) -> Vec<(Input, u64)> {
    running().into_iter().chain(more.iter().cloned()).collect()
}

#[test]
fn success_and_error_are_committed_then_answered() {
    for (finish, outcome) in [
        (Finish::Success, Outcome::Success),
        (Finish::Error, Outcome::Error),
    ] {
        check(
            &running_then(&[(Input::Finished(finish), 20)]),
            End::Ran(outcome),
            &[Effect::Commit(outcome), Effect::Respond],
        );
    }
}

#[test]
fn a_call_that_waits_too_long_is_refused_and_moves_nothing() {
    let step = play([(call(), 0), (Input::Tick, 99)]);
    assert_eq!(step.state.wake_at(), Some(Time(100)));
    let step = super::step(&step.state, Input::Tick, Time(100));
    assert_eq!(step.state, State::Result(End::NotRun));
    assert!(
        matches!(&step.effects[..], [Effect::LeaveQueue, Effect::Refuse(refusal)]
        if refusal.code() == Code::Timeout)
    );
}

#[test]
fn a_turn_that_comes_too_late_is_none() {
    let step = play([(call(), 0), (turn(), 100)]);
    assert_eq!(step.state, State::Result(End::NotRun));
    assert!(
        matches!(&step.effects[..], [Effect::LeaveQueue, Effect::Refuse(refusal)]
        if refusal.code() == Code::Timeout)
    );
    let step = play([(call(), 0), (turn(), 99)]);
    assert_eq!(step.effects, [Effect::Start]);
}

#[test]
fn a_deadline_while_executing_is_a_timeout_even_after_a_cancellation() {
    for (more, suppressed) in [
        (vec![(Input::Tick, 210)], false),
        (vec![(Input::Cancel, 180), (Input::Tick, 210)], true),
    ] {
        let step = play(running_then(&more));
        assert_eq!(step.state, State::Result(End::Ran(Outcome::Timeout)));
        assert_eq!(
            step.effects[..2],
            [Effect::TearDown, Effect::Commit(Outcome::Timeout)]
        );
        assert_eq!(step.effects[2] == Effect::Suppress, suppressed);
    }
}

#[test]
fn a_call_cancelled_in_the_queue_moves_nothing() {
    check(
        &[(call(), 0), (Input::Cancel, 1)],
        End::NotRun,
        &[Effect::LeaveQueue, Effect::Suppress],
    );
}

#[test]
fn a_call_whose_client_must_come_back_leaves_the_queue_and_moves_nothing() {
    check(
        &[(call(), 0), (Input::Asked, 1)],
        End::Asked,
        &[Effect::LeaveQueue, Effect::Ask],
    );
    check(
        &running_then(&[(Input::Asked, 20)]),
        End::Asked,
        &[Effect::TearDown, Effect::LeaveQueue, Effect::Ask],
    );
}

#[test]
fn a_handler_that_stops_when_asked_is_cancelled() {
    check(
        &running_then(&[(Input::Cancel, 20), (Input::Stopped, 30)]),
        End::Ran(Outcome::Cancelled),
        &[Effect::Commit(Outcome::Cancelled), Effect::Suppress],
    );
}

#[test]
fn a_handler_that_does_not_stop_is_torn_down_and_unknown() {
    let asked = play(running_then(&[(Input::Cancel, 20)]));
    assert_eq!(asked.effects, [Effect::AskToStop]);
    assert_eq!(asked.state.wake_at(), Some(Time(70)));
    let patient = step(&asked.state, Input::Tick, Time(69));
    assert_eq!((patient.state, patient.effects), (asked.state, [].into()));
    check(
        &running_then(&[(Input::Cancel, 20), (Input::Tick, 70)]),
        End::Ran(Outcome::Unknown),
        &[
            Effect::TearDown,
            Effect::Commit(Outcome::Unknown),
            Effect::Suppress,
        ],
    );
}

#[test]
fn a_handler_that_finishes_although_cancelled_takes_its_step_unanswered() {
    check(
        &running_then(&[(Input::Cancel, 20), (Input::Finished(Finish::Success), 30)]),
        End::Ran(Outcome::Success),
        &[Effect::Commit(Outcome::Success), Effect::Suppress],
    );
}

#[test]
fn a_panic_is_an_error_and_is_answered() {
    let step = play(running_then(&[(Input::Panicked, 20)]));
    assert!(matches!(&step.effects[..],
        [Effect::Commit(Outcome::Error), Effect::Refuse(refusal)]
        if refusal.code() == Code::InternalError));
}

#[test]
fn a_handler_that_gives_up_unasked_has_failed() {
    check(
        &running_then(&[(Input::Stopped, 20)]),
        End::Ran(Outcome::Error),
        &[Effect::Commit(Outcome::Error), Effect::Respond],
    );
}

#[test]
fn shutdown_tears_down_what_runs_and_refuses_what_waits() {
    let step = play(running_then(&[(Input::Shutdown, 20)]));
    assert_eq!(step.state, State::Result(End::Ran(Outcome::Unknown)));
    assert_eq!(step.effects[0], Effect::TearDown);
    // Nobody knows what it did, and the model is told so.
    assert!(matches!(&step.effects[2], Effect::Refuse(refusal)
        if refusal.message().contains("may have taken effect")));
    let step = play([(call(), 0), (Input::Shutdown, 20)]);
    assert_eq!(step.state, State::Result(End::NotRun));
}

#[test]
fn the_clock_stands_still_while_somebody_is_asked() {
    let waiting = running_then(&[(Input::Wait, 110), (Input::Tick, 100_000)]);
    assert!(matches!(
        play(waiting.clone()).state,
        State::Executing { .. }
    ));
    let resumed = waiting.into_iter().chain([(Input::Resume, 100_000)]);
    let step = play(resumed);
    // Half of the 200 ms were used up when it began to wait.
    assert_eq!(step.state.wake_at(), Some(Time(100_100)));
}

#[test]
fn nothing_after_the_end_changes_it() {
    let end = State::Result(End::Ran(Outcome::Success));
    for input in Invocation::samples() {
        let settled = matches!(input, Input::Settled);
        let step = step(&end, input, Time(1_000_000));
        assert_eq!(step.effects, []);
        assert_eq!(step.state == State::Idle, settled);
    }
}

#[test]
fn progress_is_forwarded_until_the_call_is_taken_back() {
    let step = play(running_then(&[(Input::Progress, 20)]));
    assert_eq!(step.effects, [Effect::Forward]);
    let step = play(running_then(&[(Input::Cancel, 20), (Input::Progress, 21)]));
    assert_eq!(step.effects, []);
}
