//! Calls: one end each, committed before it is told.

use super::{live, millis, story, survive, wild_story};
use crate::subject::Subject;
use interlock_proto::{
    Time,
    invocation::{Clock, Effect, End, Input, Outcome, State, Times},
};
use proptest::prelude::*;

const TIMES: Times = Times {
    queue: millis(100),
    execution: millis(80),
    grace: millis(30),
};

/// What one call has ordered so far.
#[derive(Default)]
struct Orders {
    ends: u32,
    commits: Vec<Outcome>,
    started: bool,
}

proptest! {
    #[test]
    fn a_call_has_exactly_one_end_and_at_most_one_commit(story in story(TIMES.inputs(), 1)) {
        let mut orders = Orders::default();
        live(TIMES, story, |moment| {
            if moment.before.state == State::Idle {
                orders = Orders::default();
            }
            for effect in moment.outcome.iter().flatten() {
                match effect {
                    Effect::Respond | Effect::Ask | Effect::Refuse(_) | Effect::Suppress => {
                        orders.ends += 1;
                    }
                    Effect::Commit(outcome) => {
                        assert_eq!(orders.ends, 0, "committed after the end");
                        orders.commits.push(*outcome);
                    }
                    Effect::Start => orders.started = true,
                    Effect::Forward | Effect::AskToStop | Effect::TearDown => {
                        assert!(orders.started && orders.ends == 0);
                    }
                    Effect::Enqueue => assert!(!orders.started),
                    Effect::LeaveQueue => {
                        let asked = moment.after.state == State::Result(End::Asked);
                        assert!(asked || !orders.started);
                    }
                }
            }
            match &moment.after.state {
                State::Result(end) => {
                    assert_eq!(orders.ends, 1);
                    match end {
                        End::Ran(outcome) => assert_eq!(orders.commits, [*outcome]),
                        End::NotRun => assert!(orders.commits.is_empty() && !orders.started),
                        End::Asked => assert!(orders.commits.is_empty()),
                    }
                }
                State::Pending { .. } => assert!(orders.ends == 0 && !orders.started),
                State::Executing { .. } => assert!(orders.ends == 0 && orders.commits.is_empty()),
                State::Idle => {}
            }
        });
    }

    #[test]
    fn what_executes_comes_to_a_result(story in story(TIMES.inputs(), 1)) {
        live(TIMES, story, |moment| match moment.before.state {
            State::Executing { .. } => {
                assert!(matches!(moment.after.state, State::Executing { .. } | State::Result(_)));
            }
            State::Result(_) => {
                let settled = matches!(moment.input, Input::Settled);
                assert_eq!(moment.after.state == State::Idle, settled);
            }
            State::Idle | State::Pending { .. } => {}
        });
    }

    #[test]
    fn no_call_starts_after_its_deadline(story in story(TIMES.inputs(), 1)) {
        live(TIMES, story, |moment| {
            let State::Pending { clock, .. } = moment.before.state else { return };
            if matches!(moment.after.state, State::Executing { .. })
                && let Clock::Running(until) = clock
            {
                assert!(moment.after.now < until);
            }
        });
    }

    #[test]
    fn a_call_is_suppressed_only_if_it_was_taken_back(story in story(TIMES.inputs(), 1)) {
        let mut taken_back = false;
        live(TIMES, story, |moment| {
            if moment.before.state == State::Idle {
                taken_back = false;
            }
            taken_back |= matches!(moment.input, Input::Cancel) && moment.before.state != State::Idle;
            for effect in moment.outcome.iter().flatten() {
                match effect {
                    Effect::Suppress => assert!(taken_back),
                    Effect::Respond | Effect::Ask => assert!(!taken_back),
                    Effect::Enqueue
                    | Effect::LeaveQueue
                    | Effect::Start
                    | Effect::Forward
                    | Effect::AskToStop
                    | Effect::TearDown
                    | Effect::Commit(_)
                    | Effect::Refuse(_) => {}
                }
            }
        });
    }

    #[test]
    fn a_clock_that_stands_still_loses_nothing(
        used in 0..100_u64,
        waits in 0..1_000_000_u64,
    ) {
        let mut life = crate::subject::Life::new(TIMES);
        let mut at = |input, now| {
            life.now = Time(now);
            life.play(input).unwrap();
            life.wake_at()
        };
        at(TIMES.inputs()[1].clone(), 0);
        assert_eq!(at(Input::Wait, used), None);
        assert_eq!(at(Input::Tick, used + waits), None);
        assert_eq!(at(Input::Resume, used + waits), Some(Time(100 + waits)));
    }

    #[test]
    fn no_time_is_too_far(story in wild_story(TIMES.inputs())) {
        survive(TIMES, story);
    }
}
