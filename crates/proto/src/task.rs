//! A call that outlives its request and is polled by the client.
//!
//! On the wire a task begins as `working`; inside it is `Pending` until somebody runs it. `Working`
//! and `InputRequired` alternate until the handler returns or the client cancels. Only a failure
//! inside `Working` that may pass is tried again. A task that has ended stays as it ended, also if
//! its handler goes on, and is gone when its time is over. Spec: MCP tasks, "Task Status Lifecycle".

use crate::{
    Code, Refusal, RpcCode, Time,
    machine::{Machine, Step},
};
use std::time::Duration;

/// The task machine.
#[derive(Debug)]
pub struct Task;

/// Where a task is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody runs it yet.
    Pending {
        /// When it is deleted; never if there is none.
        expires: Option<Time>,
    },
    /// Its handler runs.
    Working {
        /// When it is deleted.
        expires: Option<Time>,
        /// Which try this is, from 1.
        attempt: u32,
    },
    /// Its handler waits for something from the client.
    InputRequired {
        /// When it is deleted.
        expires: Option<Time>,
        /// Which try this is, from 1.
        attempt: u32,
    },
    /// It has ended.
    Done {
        /// How.
        end: End,
        /// When it is deleted.
        expires: Option<Time>,
    },
    /// It is deleted.
    Expired,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Its handler returned.
    Completed,
    /// Its handler failed.
    Failed,
    /// The client took it back.
    Cancelled,
}

/// What a client is told about where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is being worked on, or will be.
    Working,
    /// It waits for the client.
    InputRequired,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
    /// It was taken back.
    Cancelled,
}

impl Status {
    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What can happen to a task.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody runs it.
    Start,
    /// The handler needs something from the client.
    Ask,
    /// The client has given it.
    Answer,
    /// The handler returned.
    Finished(Finish),
    /// The client takes it back.
    Cancel,
    /// Time has passed.
    Tick,
}

/// What a handler says when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// It did what it was asked.
    Success,
    /// It failed for good.
    Failure,
    /// It failed in a way that may pass: a timeout, a peer that was away.
    Transient,
}

/// What a task orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run the handler.
    Run,
    /// End the handler.
    StopHandler,
    /// Write it to the store.
    Save,
    /// Tell whoever waits for it or wants to know.
    Notify(Status),
    /// Delete it from the store.
    Delete,
}

/// What a server may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How often a failure that may pass is tried again.
    pub retries: u32,
    /// How long a task is kept from its creation on, unless the client asks for less.
    pub ttl: Option<Duration>,
    /// How often a client should ask.
    pub poll_interval: Duration,
    /// How many tasks of one owner may be unfinished.
    pub max_unfinished: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            retries: 3,
            ttl: Some(Duration::from_secs(60 * 60)),
            poll_interval: Duration::from_secs(5),
            max_unfinished: 100,
        }
    }
}

impl Rules {
    /// A new task, to be kept for as long as the client wants it and the server allows.
    #[must_use]
    pub fn first(&self, wanted: Option<Duration>, now: Time) -> State {
        let ttl = match (wanted, self.ttl) {
            (Some(wanted), Some(most)) => Some(wanted.min(most)),
            (Some(ttl), None) | (None, Some(ttl)) => Some(ttl),
            (None, None) => None,
        };
        State::Pending {
            expires: ttl.map(|ttl| now + ttl),
        }
    }
}

impl State {
    /// When the task is deleted, which is the only thing that happens to it by itself.
    #[must_use]
    pub const fn wake_at(&self) -> Option<Time> {
        match self {
            Self::Pending { expires }
            | Self::Working { expires, .. }
            | Self::InputRequired { expires, .. }
            | Self::Done { expires, .. } => *expires,
            Self::Expired => None,
        }
    }

    /// What a client is told; nothing once the task is deleted.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Pending { .. } | Self::Working { .. } => Some(Status::Working),
            Self::InputRequired { .. } => Some(Status::InputRequired),
            Self::Done { end, .. } => Some(end.status()),
            Self::Expired => None,
        }
    }

    /// Whether it counts against the limit.
    #[must_use]
    pub const fn is_unfinished(&self) -> bool {
        match self {
            Self::Pending { .. } | Self::Working { .. } | Self::InputRequired { .. } => true,
            Self::Done { .. } | Self::Expired => false,
        }
    }
}

impl End {
    const fn status(self) -> Status {
        match self {
            Self::Completed => Status::Completed,
            Self::Failed => Status::Failed,
            Self::Cancelled => Status::Cancelled,
        }
    }
}

/// The only place where a task changes. A refusal leaves it untouched.
///
/// ```
/// use interlock_proto::{Time, task::{Finish, Input, Rules, Status, step}};
///
/// let rules = Rules::default();
/// let mut state = rules.first(None, Time(0));
/// for input in [Input::Start, Input::Ask, Input::Answer, Input::Finished(Finish::Success)] {
///     state = step(&rules, &state, input, Time(1))?.state;
/// }
/// assert_eq!(state.status(), Some(Status::Completed));
/// assert!(step(&rules, &state, Input::Cancel, Time(2)).is_err());
/// # Ok::<(), interlock_proto::Refusal>(())
/// ```
///
/// # Errors
///
/// −32602 for cancelling a task that has ended or is gone.
pub fn step(
    rules: &Rules,
    state: &State,
    input: Input,
    now: Time,
) -> Result<Step<State, Effect>, Refusal> {
    if matches!(input, Input::Tick) && state.wake_at().is_some_and(|expires| now >= expires) {
        return expire(state);
    }
    match state {
        State::Pending { expires } => match input {
            Input::Start => {
                let working = State::Working {
                    expires: *expires,
                    attempt: 1,
                };
                go(working, [Effect::Save, Effect::Run])
            }
            Input::Cancel => done(End::Cancelled, *expires),
            Input::Ask | Input::Answer | Input::Finished(_) | Input::Tick => stay(state),
        },
        State::Working { expires, attempt } => working(rules, *expires, *attempt, input),
        State::InputRequired { expires, attempt } => match input {
            Input::Answer => {
                let working = State::Working {
                    expires: *expires,
                    attempt: *attempt,
                };
                go(working, [Effect::Save, Effect::Notify(Status::Working)])
            }
            Input::Finished(Finish::Success) => done(End::Completed, *expires),
            // What fails while it waits for the client is not tried again.
            Input::Finished(Finish::Failure | Finish::Transient) => done(End::Failed, *expires),
            Input::Cancel => cancel(*expires),
            Input::Start | Input::Ask | Input::Tick => stay(state),
        },
        State::Done { .. } => match input {
            Input::Cancel => refuse("the task has ended already"),
            // A handler that was torn down may still say something.
            Input::Start | Input::Ask | Input::Answer | Input::Finished(_) | Input::Tick => {
                stay(state)
            }
        },
        State::Expired => match input {
            Input::Cancel => refuse("there is no such task"),
            Input::Start | Input::Ask | Input::Answer | Input::Finished(_) | Input::Tick => {
                stay(state)
            }
        },
    }
}

fn working(rules: &Rules, expires: Option<Time>, attempt: u32, input: Input) -> Stepped {
    let here = State::Working { expires, attempt };
    match input {
        Input::Ask => {
            let waiting = State::InputRequired { expires, attempt };
            let effects = [Effect::Save, Effect::Notify(Status::InputRequired)];
            go(waiting, effects)
        }
        Input::Finished(Finish::Success) => done(End::Completed, expires),
        Input::Finished(Finish::Transient) if attempt <= rules.retries => {
            let again = State::Working {
                expires,
                attempt: attempt + 1,
            };
            go(again, [Effect::Save, Effect::Run])
        }
        Input::Finished(Finish::Failure | Finish::Transient) => done(End::Failed, expires),
        Input::Cancel => cancel(expires),
        Input::Start | Input::Answer | Input::Tick => stay(&here),
    }
}

fn done(end: End, expires: Option<Time>) -> Stepped {
    let effects = [Effect::Save, Effect::Notify(end.status())];
    go(State::Done { end, expires }, effects)
}

fn cancel(expires: Option<Time>) -> Stepped {
    let end = End::Cancelled;
    let effects = [
        Effect::StopHandler,
        Effect::Save,
        Effect::Notify(end.status()),
    ];
    go(State::Done { end, expires }, effects)
}

fn expire(state: &State) -> Stepped {
    match state {
        State::Working { .. } | State::InputRequired { .. } => {
            go(State::Expired, [Effect::StopHandler, Effect::Delete])
        }
        State::Pending { .. } | State::Done { .. } | State::Expired => {
            go(State::Expired, [Effect::Delete])
        }
    }
}

type Stepped = Result<Step<State, Effect>, Refusal>;

fn go<const N: usize>(state: State, effects: [Effect; N]) -> Stepped {
    Ok(Step {
        state,
        effects: effects.into(),
    })
}

fn stay(here: &State) -> Stepped {
    go(here.clone(), [])
}

fn refuse(why: &'static str) -> Stepped {
    Err(Refusal::new(Code::InvalidParams)
        .with_rpc(RpcCode::INVALID_PARAMS)
        .because(why))
}

impl Machine for Task {
    const NAME: &'static str = "task";
    const EDGES: &'static [(&'static str, &'static str, &'static str)] = &[
        ("Pending", "start", "Working"),
        ("Pending", "cancel", "Cancelled"),
        ("Pending", "tick", "Expired"),
        ("Working", "ask", "InputRequired"),
        ("Working", "finished", "Completed"),
        ("Working", "finished", "Failed"),
        ("Working", "cancel", "Cancelled"),
        ("Working", "tick", "Expired"),
        ("InputRequired", "answer", "Working"),
        ("InputRequired", "finished", "Completed"),
        ("InputRequired", "finished", "Failed"),
        ("InputRequired", "cancel", "Cancelled"),
        ("InputRequired", "tick", "Expired"),
        ("Completed", "tick", "Expired"),
        ("Failed", "tick", "Expired"),
        ("Cancelled", "tick", "Expired"),
    ];

    type State = State;
    type Ledger = ();
    type Input = Input;
    type Effect = Effect;

    fn first(now: Time) -> State {
        Rules::default().first(None, now)
    }

    fn samples() -> Vec<Input> {
        vec![
            Input::Start,
            Input::Ask,
            Input::Answer,
            Input::Finished(Finish::Success),
            Input::Finished(Finish::Failure),
            Input::Finished(Finish::Transient),
            Input::Cancel,
            Input::Tick,
        ]
    }

    fn step(state: &State, (): &(), input: Input, now: Time) -> Stepped {
        step(&Rules::default(), state, input, now)
    }

    fn apply((): &mut (), _effects: &[Effect], _now: Time) {}

    fn state_name(state: &State) -> &'static str {
        match state {
            State::Pending { .. } => "Pending",
            State::Working { .. } => "Working",
            State::InputRequired { .. } => "InputRequired",
            State::Done { end, .. } => match end {
                End::Completed => "Completed",
                End::Failed => "Failed",
                End::Cancelled => "Cancelled",
            },
            State::Expired => "Expired",
        }
    }

    fn input_name(input: &Input) -> &'static str {
        match input {
            Input::Start => "start",
            Input::Ask => "ask",
            Input::Answer => "answer",
            Input::Finished(_) => "finished",
            Input::Cancel => "cancel",
            Input::Tick => "tick",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        retries: 2,
        ttl: Some(Duration::from_millis(100)),
        poll_interval: Duration::from_millis(10),
        max_unfinished: 1,
    };

    #[track_caller]
    fn play(inputs: impl IntoIterator<Item = Input>) -> Step<State, Effect> {
        let mut last = Step {
            state: RULES.first(None, Time(0)),
            effects: [].into(),
        };
        for input in inputs {
            last = step(&RULES, &last.state, input, Time(1)).unwrap();
        }
        last
    }

    fn at(state: &State, input: Input, now: u64) -> Step<State, Effect> {
        step(&RULES, state, input, Time(now)).unwrap()
    }

    const TRANSIENT: Input = Input::Finished(Finish::Transient);

    #[test]
    fn a_client_sees_it_working_from_the_start() {
        assert_eq!(play([]).state.status(), Some(Status::Working));
        let step = play([Input::Start]);
        assert_eq!(step.state.status(), Some(Status::Working));
        assert_eq!(step.effects, [Effect::Save, Effect::Run]);
    }

    #[test]
    fn each_status_has_the_name_that_the_specification_gives_it() {
        for (status, name) in [
            (Status::Working, "working"),
            (Status::InputRequired, "input_required"),
            (Status::Completed, "completed"),
            (Status::Failed, "failed"),
            (Status::Cancelled, "cancelled"),
        ] {
            assert_eq!(status.name(), name);
        }
    }

    #[test]
    fn answering_does_not_forget_how_often_it_was_tried() {
        let step = play([Input::Start, TRANSIENT, Input::Ask, Input::Answer]);
        assert!(matches!(step.state, State::Working { attempt: 2, .. }));
    }

    #[test]
    fn asking_and_answering_alternate() {
        let step = play([Input::Start, Input::Ask]);
        assert_eq!(
            step.effects,
            [Effect::Save, Effect::Notify(Status::InputRequired)]
        );
        let step = play([Input::Start, Input::Ask, Input::Answer]);
        assert_eq!(
            step.effects,
            [Effect::Save, Effect::Notify(Status::Working)]
        );
        assert_eq!(play([Input::Start, Input::Answer]).effects, []);
    }

    #[test]
    fn each_end_is_saved_before_it_is_told() {
        for (finish, status) in [
            (Finish::Success, Status::Completed),
            (Finish::Failure, Status::Failed),
        ] {
            for asked in [vec![Input::Start], vec![Input::Start, Input::Ask]] {
                let step = play(asked.into_iter().chain([Input::Finished(finish)]));
                assert_eq!(step.effects, [Effect::Save, Effect::Notify(status)]);
            }
        }
    }

    #[test]
    fn a_failure_that_may_pass_is_tried_again_so_often_and_no_more() {
        let twice = [Input::Start, TRANSIENT, TRANSIENT];
        let step = play(twice.clone());
        assert_eq!(step.effects, [Effect::Save, Effect::Run]);
        assert!(matches!(step.state, State::Working { attempt: 3, .. }));
        let step = play(twice.into_iter().chain([TRANSIENT]));
        assert_eq!(step.state.status(), Some(Status::Failed));
    }

    #[test]
    fn what_fails_while_it_waits_for_the_client_is_not_tried_again() {
        let step = play([Input::Start, Input::Ask, TRANSIENT]);
        assert_eq!(step.state.status(), Some(Status::Failed));
    }

    #[test]
    fn cancelling_stops_what_runs_and_holds_whatever_the_handler_says() {
        for running in [vec![Input::Start], vec![Input::Start, Input::Ask]] {
            let step = play(running.into_iter().chain([Input::Cancel]));
            assert_eq!(
                step.effects,
                [
                    Effect::StopHandler,
                    Effect::Save,
                    Effect::Notify(Status::Cancelled)
                ]
            );
            let late = at(&step.state, Input::Finished(Finish::Success), 2);
            assert_eq!((late.state, late.effects), (step.state, [].into()));
        }
        assert_eq!(
            play([Input::Cancel]).effects,
            [Effect::Save, Effect::Notify(Status::Cancelled)]
        );
    }

    #[test]
    fn what_has_ended_cannot_be_cancelled() {
        let ended = play([Input::Start, Input::Finished(Finish::Success)]).state;
        for state in [ended, State::Expired] {
            let refusal = step(&RULES, &state, Input::Cancel, Time(2)).unwrap_err();
            assert_eq!(refusal.rpc_code(), RpcCode::INVALID_PARAMS);
        }
    }

    #[test]
    fn a_task_is_deleted_at_its_time_and_not_before() {
        for (inputs, stops) in [
            (vec![], false),
            (vec![Input::Start], true),
            (vec![Input::Start, Input::Ask], true),
            (vec![Input::Cancel], false),
        ] {
            let state = play(inputs).state;
            assert_eq!(state.wake_at(), Some(Time(100)));
            assert_eq!(at(&state, Input::Tick, 99).state, state);
            let step = at(&state, Input::Tick, 100);
            assert_eq!(step.state, State::Expired);
            assert_eq!(step.state.status(), None);
            assert_eq!(step.effects.contains(&Effect::StopHandler), stops);
            assert_eq!(step.effects.last(), Some(&Effect::Delete));
        }
        assert_eq!(at(&State::Expired, Input::Tick, 1_000).effects, []);
    }

    #[test]
    fn a_client_may_ask_for_less_time_and_not_for_more() {
        let ttl = |wanted: Option<u64>, most: Option<u64>| {
            let rules = Rules {
                ttl: most.map(Duration::from_millis),
                ..RULES
            };
            let state = rules.first(wanted.map(Duration::from_millis), Time(0));
            state.wake_at().map(|Time(at)| at)
        };
        assert_eq!(ttl(Some(50), Some(100)), Some(50));
        assert_eq!(ttl(Some(500), Some(100)), Some(100));
        assert_eq!(ttl(None, Some(100)), Some(100));
        assert_eq!(ttl(Some(500), None), Some(500));
        assert_eq!(ttl(None, None), None);
    }
}
