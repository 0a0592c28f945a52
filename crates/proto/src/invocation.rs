//! One call of a tool, resource or prompt, from its arrival to its one end.
//!
//! `Pending` waits for its turn, `Executing` runs. The clock stands still while the call waits for
//! a person or for the client. However it goes, there is exactly one end: it is answered, or it is
//! suppressed because the client took it back. A call counts as cancelled only if its handler had
//! not started, or stopped and said so; one that had to be torn down is unknown, because what it
//! did is not known. A deadline while executing is always a timeout. A client to which nothing can be
//! sent is asked by letting the call go, which moves nothing: it comes again, from its start, when
//! the client comes back with the answers.

use crate::{
    Code, Refusal, Time,
    machine::{Machine, Step},
};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// The invocation machine.
#[derive(Debug)]
pub struct Invocation;

/// Where a call is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u64)] // Moved in whole words.
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
    /// It needs answers, so it moved nothing; it comes again when they are there.
    Asked,
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
    /// It needs answers from a client that has to come back with them.
    Asked,
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
#[repr(u64)] // Moved in whole words.
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
    /// Answer with what is asked.
    Ask,
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
            | Input::Asked
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
        | Input::Asked
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
        Input::Asked => go(State::Result(End::Asked), [Effect::LeaveQueue, Effect::Ask]),
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
        Input::Shutdown => {
            let refusal = Refusal::new(Code::ServerShuttingDown).because(
                "the server is shutting down; the call was stopped and may have taken effect",
            );
            torn_down(Outcome::Unknown, refusal)
        }
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
        Input::Asked => {
            let effects = [Effect::TearDown, Effect::LeaveQueue, answer(Effect::Ask)];
            go(State::Result(End::Asked), effects)
        }
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
        ("Pending", "asked", "Result"),
        ("Pending", "cancel", "Result"),
        ("Pending", "shutdown", "Result"),
        ("Pending", "tick", "Result"),
        ("Executing", "asked", "Result"),
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
            Input::Asked,
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
            Input::Asked => "asked",
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
