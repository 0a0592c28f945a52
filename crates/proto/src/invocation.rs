//! One call of a tool, resource or prompt, from its arrival to its one end.
//!
//! `Pending` waits for its turn, `Executing` runs. The clock stands still while the call waits for
//! a person or for the client. However it goes, there is exactly one end: it is answered, or it is
//! suppressed because the client took it back. A call counts as cancelled only if its handler had
//! not started, or stopped and said so; one that had to be torn down is unknown, because what it
//! did is not known. A deadline while executing is always a timeout.

use crate::{
    Code, Refusal, Time,
    machine::{Machine, Step},
};
use std::time::Duration;

/// The invocation machine.
#[derive(Debug)]
pub struct Invocation;

/// Where a call is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There is no call.
    Idle,
    /// It waits for its turn.
    Pending {
        /// How long it will wait.
        clock: Clock,
        /// How long its handler would have to stop.
        grace: Duration,
    },
    /// Its handler runs.
    Executing {
        /// How long it may run.
        clock: Clock,
        /// Whether it has been asked to stop.
        stop: Stop,
    },
    /// It has ended.
    Result(End),
}

/// What a call may take, by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Times {
    /// How long it may wait for its turn.
    pub queue: Duration,
    /// How long it may run.
    pub execution: Duration,
    /// How long a handler that was asked to stop may take to do so.
    pub grace: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            queue: Duration::from_secs(30),
            execution: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

/// A clock that can stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// It runs until then.
    Running(Time),
    /// It stands still with this much left.
    Standing(Duration),
}

impl Clock {
    fn is_over(self, now: Time) -> bool {
        match self {
            Self::Running(until) => now >= until,
            Self::Standing(_) => false,
        }
    }

    const fn halted(self, now: Time) -> Self {
        match self {
            Self::Running(until) => Self::Standing(now.until(until)),
            Self::Standing(_) => self,
        }
    }

    fn resumed(self, now: Time) -> Self {
        match self {
            Self::Running(_) => self,
            Self::Standing(left) => Self::Running(now + left),
        }
    }

    const fn deadline(self) -> Option<Time> {
        match self {
            Self::Running(until) => Some(until),
            Self::Standing(_) => None,
        }
    }
}

/// Whether a handler has been asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Nobody asked.
    NotAsked {
        /// How long it would have.
        grace: Duration,
    },
    /// The client took the call back; the patience ends then.
    Asked {
        /// When the handler is torn down.
        until: Time,
    },
}

/// How a call ended for the workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It did what it was asked.
    Success,
    /// It failed, and said so or panicked.
    Error,
    /// Its deadline passed while it ran.
    Timeout,
    /// It was taken back and stopped.
    Cancelled,
    /// It was torn down.
    Unknown,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Its handler ran, or began to.
    Ran(Outcome),
    /// Its handler never started, so it moved nothing.
    NotRun,
}

/// What can happen to a call.
#[derive(Clone, Debug)]
pub enum Input {
    /// It came.
    Call {
        /// How long it may wait for its turn.
        queue: Duration,
        /// How long its handler may take to stop when asked to.
        grace: Duration,
    },
    /// It is its turn.
    Turn {
        /// How long it may run, from now on.
        execution: Duration,
    },
    /// When its turn came, it was not allowed any more.
    Refused(Refusal),
    /// It waits for a person or for the client.
    Wait,
    /// It goes on.
    Resume,
    /// The handler reports progress.
    Progress,
    /// The handler returned.
    Finished(Finish),
    /// The handler panicked.
    Panicked,
    /// The handler stopped because it was asked to.
    Stopped,
    /// The client takes the call back.
    Cancel,
    /// The server ends and waits no longer.
    Shutdown,
    /// Its end has been committed and told.
    Settled,
    /// Time has passed.
    Tick,
}

/// What a handler says when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// It did what it was asked.
    Success,
    /// It failed.
    Error,
}

/// What a call orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put it into the queue.
    Enqueue,
    /// Take it out of the queue.
    LeaveQueue,
    /// Start the handler.
    Start,
    /// Send the handler's progress on.
    Forward,
    /// Ask the handler to stop.
    AskToStop,
    /// End the handler without its consent.
    TearDown,
    /// Commit the step for this outcome.
    Commit(Outcome),
    /// Answer with what the handler returned.
    Respond,
    /// Answer with this.
    Refuse(Refusal),
    /// Do not answer: the client took it back.
    Suppress,
}

impl State {
    /// When the call next needs a [`Input::Tick`], if nothing else happens.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        match self {
            Self::Pending { clock, .. } => clock.deadline(),
            Self::Executing { clock, stop } => {
                let grace = match stop {
                    Stop::Asked { until } => Some(*until),
                    Stop::NotAsked { .. } => None,
                };
                clock.deadline().into_iter().chain(grace).min()
            }
            Self::Idle | Self::Result(_) => None,
        }
    }
}

/// The only place where a call changes.
///
/// It refuses nothing: what comes too late, or twice, changes nothing and orders nothing.
///
/// ```
/// use interlock_proto::{Time, invocation::{Effect, Input, Outcome, State, Times, step}};
///
/// let times = Times::default();
/// let call = Input::Call { queue: times.queue, grace: times.grace };
/// let pending = step(&State::Idle, call, Time(0)).state;
/// let turn = Input::Turn { execution: times.execution };
/// let running = step(&pending, turn, Time(10)).state;
/// let late = step(&running, Input::Tick, Time(10) + times.execution);
/// assert!(late.effects.contains(&Effect::Commit(Outcome::Timeout)));
/// ```
#[must_use]
pub fn step(state: &State, input: Input, now: Time) -> Step<State, Effect> {
    match state {
        State::Idle => idle(input, now),
        State::Pending { clock, grace } => pending(*clock, *grace, input, now),
        State::Executing { clock, stop } => executing(*clock, *stop, input, now),
        State::Result(end) => match input {
            Input::Settled => go(State::Idle, []),
            Input::Call { .. }
            | Input::Turn { .. }
            | Input::Refused(_)
            | Input::Wait
            | Input::Resume
            | Input::Progress
            | Input::Finished(_)
            | Input::Panicked
            | Input::Stopped
            | Input::Cancel
            | Input::Shutdown
            | Input::Tick => go(State::Result(*end), []),
        },
    }
}

fn idle(input: Input, now: Time) -> Step<State, Effect> {
    match input {
        Input::Call { queue, grace } => {
            let clock = Clock::Running(now + queue);
            go(State::Pending { clock, grace }, [Effect::Enqueue])
        }
        Input::Turn { .. }
        | Input::Refused(_)
        | Input::Wait
        | Input::Resume
        | Input::Progress
        | Input::Finished(_)
        | Input::Panicked
        | Input::Stopped
        | Input::Cancel
        | Input::Shutdown
        | Input::Settled
        | Input::Tick => go(State::Idle, []),
    }
}

fn pending(clock: Clock, grace: Duration, input: Input, now: Time) -> Step<State, Effect> {
    let not_run = |effects: [Effect; 2]| go(State::Result(End::NotRun), effects);
    match input {
        // No call starts after its deadline, whether or not the tick has come.
        Input::Turn { .. } | Input::Tick if clock.is_over(now) => {
            let refusal =
                Refusal::new(Code::Timeout).because("the call waited too long for its turn");
            not_run([Effect::LeaveQueue, Effect::Refuse(refusal)])
        }
        Input::Turn { execution } => {
            let running = State::Executing {
                clock: Clock::Running(now + execution),
                stop: Stop::NotAsked { grace },
            };
            go(running, [Effect::Start])
        }
        Input::Refused(refusal) => not_run([Effect::LeaveQueue, Effect::Refuse(refusal)]),
        Input::Cancel => not_run([Effect::LeaveQueue, Effect::Suppress]),
        Input::Shutdown => {
            let refusal = Refusal::new(Code::ServerShuttingDown);
            not_run([Effect::LeaveQueue, Effect::Refuse(refusal)])
        }
        Input::Wait => {
            let clock = clock.halted(now);
            go(State::Pending { clock, grace }, [])
        }
        Input::Resume => {
            let clock = clock.resumed(now);
            go(State::Pending { clock, grace }, [])
        }
        Input::Call { .. }
        | Input::Progress
        | Input::Finished(_)
        | Input::Panicked
        | Input::Stopped
        | Input::Settled
        | Input::Tick => go(State::Pending { clock, grace }, []),
    }
}

fn executing(clock: Clock, stop: Stop, input: Input, now: Time) -> Step<State, Effect> {
    let here = State::Executing { clock, stop };
    // Whoever took the call back is not answered, whatever became of it.
    let answer = |effect| match stop {
        Stop::NotAsked { .. } => effect,
        Stop::Asked { .. } => Effect::Suppress,
    };
    let ended = |outcome, effect| {
        let effects = [Effect::Commit(outcome), answer(effect)];
        go(State::Result(End::Ran(outcome)), effects)
    };
    let torn_down = |outcome, refusal| {
        let answer = answer(Effect::Refuse(refusal));
        let effects = [Effect::TearDown, Effect::Commit(outcome), answer];
        go(State::Result(End::Ran(outcome)), effects)
    };
    match input {
        Input::Finished(Finish::Success) => ended(Outcome::Success, Effect::Respond),
        Input::Finished(Finish::Error) => ended(Outcome::Error, Effect::Respond),
        Input::Panicked => {
            let refusal = Refusal::new(Code::InternalError).because("the handler panicked");
            ended(Outcome::Error, Effect::Refuse(refusal))
        }
        Input::Stopped => match stop {
            Stop::Asked { .. } => ended(Outcome::Cancelled, Effect::Suppress),
            // A handler that gives up unasked has failed.
            Stop::NotAsked { .. } => ended(Outcome::Error, Effect::Respond),
        },
        Input::Cancel => match stop {
            Stop::NotAsked { grace } => {
                let stop = Stop::Asked { until: now + grace };
                go(State::Executing { clock, stop }, [Effect::AskToStop])
            }
            Stop::Asked { .. } => go(here, []),
        },
        Input::Shutdown => torn_down(Outcome::Unknown, Refusal::new(Code::ServerShuttingDown)),
        Input::Tick if clock.is_over(now) => {
            let refusal = Refusal::new(Code::Timeout).because("the call took too long");
            torn_down(Outcome::Timeout, refusal)
        }
        Input::Tick => match stop {
            Stop::Asked { until } if now >= until => {
                torn_down(Outcome::Unknown, Refusal::new(Code::Timeout))
            }
            Stop::Asked { .. } | Stop::NotAsked { .. } => go(here, []),
        },
        Input::Progress => match stop {
            Stop::NotAsked { .. } => go(here, [Effect::Forward]),
            Stop::Asked { .. } => go(here, []),
        },
        Input::Wait => {
            let clock = clock.halted(now);
            go(State::Executing { clock, stop }, [])
        }
        Input::Resume => {
            let clock = clock.resumed(now);
            go(State::Executing { clock, stop }, [])
        }
        Input::Call { .. } | Input::Turn { .. } | Input::Refused(_) | Input::Settled => {
            go(here, [])
        }
    }
}

fn go<const N: usize>(state: State, effects: [Effect; N]) -> Step<State, Effect> {
    Step {
        state,
        effects: effects.into(),
    }
}

impl Machine for Invocation {
    const NAME: &'static str = "invocation";
    const EDGES: &'static [(&'static str, &'static str, &'static str)] = &[
        ("Idle", "call", "Pending"),
        ("Pending", "turn", "Executing"),
        ("Pending", "turn", "Result"),
        ("Pending", "refused", "Result"),
        ("Pending", "cancel", "Result"),
        ("Pending", "shutdown", "Result"),
        ("Pending", "tick", "Result"),
        ("Executing", "finished", "Result"),
        ("Executing", "panicked", "Result"),
        ("Executing", "stopped", "Result"),
        ("Executing", "shutdown", "Result"),
        ("Executing", "tick", "Result"),
        ("Result", "settled", "Idle"),
    ];

    type State = State;
    type Ledger = ();
    type Input = Input;
    type Effect = Effect;

    fn first(_now: Time) -> State {
        State::Idle
    }

    fn samples() -> Vec<Input> {
        let times = Times::default();
        vec![
            Input::Call {
                queue: times.queue,
                grace: times.grace,
            },
            Input::Turn {
                execution: times.execution,
            },
            Input::Refused(Refusal::new(Code::NotInState)),
            Input::Wait,
            Input::Resume,
            Input::Progress,
            Input::Finished(Finish::Success),
            Input::Finished(Finish::Error),
            Input::Panicked,
            Input::Stopped,
            Input::Cancel,
            Input::Shutdown,
            Input::Settled,
            Input::Tick,
        ]
    }

    fn step(
        state: &State,
        (): &(),
        input: Input,
        now: Time,
    ) -> Result<Step<State, Effect>, Refusal> {
        Ok(step(state, input, now))
    }

    fn apply((): &mut (), _effects: &[Effect], _now: Time) {}

    fn state_name(state: &State) -> &'static str {
        match state {
            State::Idle => "Idle",
            State::Pending { .. } => "Pending",
            State::Executing { .. } => "Executing",
            State::Result(_) => "Result",
        }
    }

    fn input_name(input: &Input) -> &'static str {
        match input {
            Input::Call { .. } => "call",
            Input::Turn { .. } => "turn",
            Input::Refused(_) => "refused",
            Input::Wait => "wait",
            Input::Resume => "resume",
            Input::Progress => "progress",
            Input::Finished(_) => "finished",
            Input::Panicked => "panicked",
            Input::Stopped => "stopped",
            Input::Cancel => "cancel",
            Input::Shutdown => "shutdown",
            Input::Settled => "settled",
            Input::Tick => "tick",
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(step.effects, effects);
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
}
