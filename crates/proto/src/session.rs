//! A session of the handshake era, from its id to its end.
//!
//! A session belongs to one principal; its id is no credential. While requests run it is `Active`;
//! when it has been quiet for a while it is written down, becomes `Idle` and leaves memory. It ends
//! when the client says so, when nobody ever used it, when its life is over, or when there are too
//! many and it is not in use. Once `Destroyed`, every request for it fails, for good.

use crate::{
    Code, Refusal, Time,
    machine::{Machine, Step},
};
use std::time::Duration;

/// The session machine.
#[derive(Debug)]
pub struct Session;

/// Where a session is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It has an id, and nobody has used it yet.
    Created {
        /// When it ends unused.
        until: Time,
        /// When it ends in any case.
        dies: Time,
    },
    /// It is in use.
    Active {
        /// When it was last used.
        used: Time,
        /// When it ends in any case.
        dies: Time,
    },
    /// It is written down, and not in memory.
    Idle {
        /// When it ends in any case.
        dies: Time,
    },
    /// It has ended; what belongs to it is being released.
    Cleanup,
    /// The end.
    Destroyed,
}

/// How many requests of a session are running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    running: u32,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// The principal the session was made for.
    Owner,
    /// Anybody else.
    Stranger,
}

/// What can happen to a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// A request for it begins.
    Begin(Who),
    /// A request for it has ended.
    End,
    /// A request changes its data.
    Write,
    /// A request reads its data.
    Read,
    /// The client ends it.
    Destroy(Who),
    /// There are too many sessions, and it was used least recently.
    GiveWay,
    /// What belonged to it has been released.
    Cleaned,
    /// Time has passed.
    Tick,
}

/// What a session orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read it from the store.
    Load,
    /// Hand the request on.
    Serve,
    /// A request has ended.
    Release,
    /// Write it to the store.
    Save,
    /// Take it out of memory.
    Unload,
    /// Delete it from the store, with everything that belongs to it.
    Delete,
    /// Say in the log how it ended.
    Record(Why),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The client said so.
    Destroyed,
    /// Nobody ever used it.
    Unused,
    /// Its life was over.
    Expired,
    /// It made room for another.
    GaveWay,
}

/// What a server may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a session that nobody uses is kept.
    pub unused: Duration,
    /// After how long without a request a session leaves memory.
    pub idle: Duration,
    /// How long a session lives at most.
    pub life: Duration,
    /// How many of its requests may run at once.
    pub max_running: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            unused: Duration::from_secs(5 * 60),
            idle: Duration::from_secs(30 * 60),
            life: Duration::from_secs(24 * 60 * 60),
            max_running: 1024,
        }
    }
}

impl Rules {
    /// A new session.
    #[must_use]
    pub fn first(&self, now: Time) -> State {
        State::Created {
            until: now + self.unused,
            dies: now + self.life,
        }
    }
}

impl State {
    /// When the session next needs a [`Input::Tick`], if nothing else happens.
    #[must_use]
    pub fn wake_at(&self, rules: &Rules, ledger: &Ledger) -> Option<Time> {
        match self {
            Self::Created { until, dies } => Some(*until.min(dies)),
            // Requests have deadlines of their own; the last to end sets the clock anew.
            Self::Active { .. } if ledger.running > 0 => None,
            Self::Active { used, dies } => Some((*used + rules.idle).min(*dies)),
            Self::Idle { dies } => Some(*dies),
            Self::Cleanup | Self::Destroyed => None,
        }
    }
}

/// The only place where a session changes. A refusal leaves it untouched.
///
/// ```
/// use interlock_proto::{Code, Time, session::{Input, Ledger, Rules, Who, step}};
///
/// let rules = Rules::default();
/// let state = rules.first(Time(0));
/// let stranger = step(&rules, &state, &Ledger::default(), Input::Begin(Who::Stranger), Time(1));
/// assert_eq!(stranger.unwrap_err().code(), Code::SessionInvalid);
/// ```
///
/// # Errors
///
/// 1016 for a session that has ended, and for one that is somebody else's: nobody learns which;
/// 1001 if too many of its requests are running.
pub fn step(
    rules: &Rules,
    state: &State,
    ledger: &Ledger,
    input: Input,
    now: Time,
) -> Result<Step<State, Effect>, Refusal> {
    match state {
        State::Created { until, dies } => match input {
            Input::Begin(Who::Owner) if now < *until && now < *dies => {
                let active = State::Active {
                    used: now,
                    dies: *dies,
                };
                // From now on it survives whoever serves it.
                go(active, [Effect::Serve, Effect::Save])
            }
            Input::Destroy(Who::Owner) => end(Why::Destroyed),
            Input::Tick if now >= *until || now >= *dies => end(Why::Unused),
            Input::GiveWay => end(Why::GaveWay),
            Input::Begin(_) | Input::Destroy(Who::Stranger) | Input::Read | Input::Write => {
                invalid()
            }
            Input::End | Input::Cleaned | Input::Tick => go(state.clone(), []),
        },
        State::Active { used, dies } => active(rules, (*used, *dies), ledger, input, now),
        State::Idle { dies } => match input {
            Input::Begin(Who::Owner) if now < *dies => {
                let active = State::Active {
                    used: now,
                    dies: *dies,
                };
                go(active, [Effect::Load, Effect::Serve])
            }
            Input::Destroy(Who::Owner) => end(Why::Destroyed),
            Input::Tick if now >= *dies => end(Why::Expired),
            Input::GiveWay => end(Why::GaveWay),
            Input::Begin(_) | Input::Destroy(Who::Stranger) | Input::Read | Input::Write => {
                invalid()
            }
            Input::End | Input::Cleaned | Input::Tick => go(state.clone(), []),
        },
        State::Cleanup => match input {
            Input::Cleaned => go(State::Destroyed, []),
            Input::Begin(_) | Input::Destroy(_) | Input::Read | Input::Write => invalid(),
            Input::End => go(state.clone(), [Effect::Release]),
            Input::Tick | Input::GiveWay => go(state.clone(), []),
        },
        State::Destroyed => match input {
            Input::Begin(_) | Input::Destroy(_) | Input::Read | Input::Write => invalid(),
            Input::End => go(state.clone(), [Effect::Release]),
            Input::Cleaned | Input::Tick | Input::GiveWay => go(state.clone(), []),
        },
    }
}

fn active(
    rules: &Rules,
    (used, dies): (Time, Time),
    ledger: &Ledger,
    input: Input,
    now: Time,
) -> Stepped {
    let in_use = State::Active { used: now, dies };
    let here = State::Active { used, dies };
    match input {
        Input::Begin(Who::Owner) if now < dies && ledger.running >= rules.max_running => {
            Err(Refusal::new(Code::QueueCapExceeded))
        }
        Input::Begin(Who::Owner) if now < dies => go(in_use, [Effect::Serve]),
        // What a request writes is written at once, so a crash loses nothing that was answered.
        Input::Write => go(in_use, [Effect::Save]),
        Input::Read => go(in_use, []),
        Input::End => go(in_use, [Effect::Release]),
        Input::Destroy(Who::Owner) => end(Why::Destroyed),
        Input::Tick if ledger.running > 0 => go(here, []),
        Input::Tick if now >= dies => end(Why::Expired),
        Input::Tick if now >= used + rules.idle => {
            go(State::Idle { dies }, [Effect::Save, Effect::Unload])
        }
        Input::Begin(_) | Input::Destroy(Who::Stranger) => invalid(),
        // What is in use gives way to nothing.
        Input::Cleaned | Input::Tick | Input::GiveWay => go(here, []),
    }
}

type Stepped = Result<Step<State, Effect>, Refusal>;

fn go<const N: usize>(state: State, effects: [Effect; N]) -> Stepped {
    Ok(Step {
        state,
        effects: effects.into(),
    })
}

fn end(why: Why) -> Stepped {
    go(State::Cleanup, [Effect::Delete, Effect::Record(why)])
}

fn invalid() -> Stepped {
    Err(Refusal::new(Code::SessionInvalid))
}

impl Ledger {
    /// Brings the ledger up to date with a step.
    pub fn apply(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Serve => self.running = self.running.saturating_add(1),
                Effect::Release => self.running = self.running.saturating_sub(1),
                Effect::Load
                | Effect::Save
                | Effect::Unload
                | Effect::Delete
                | Effect::Record(_) => {}
            }
        }
    }

    /// How many requests are running.
    #[must_use]
    pub const fn running(&self) -> u32 {
        self.running
    }
}

/// With few requests at once, so that a walk comes to an end.
const SAMPLE_RULES: Rules = Rules {
    unused: Duration::from_secs(5 * 60),
    idle: Duration::from_secs(30 * 60),
    life: Duration::from_secs(24 * 60 * 60),
    max_running: 2,
};

impl Machine for Session {
    const NAME: &'static str = "session";
    const EDGES: &'static [(&'static str, &'static str, &'static str)] = &[
        ("Created", "begin", "Active"),
        ("Created", "destroy", "Cleanup"),
        ("Created", "tick", "Cleanup"),
        ("Created", "give_way", "Cleanup"),
        ("Active", "destroy", "Cleanup"),
        ("Active", "tick", "Idle"),
        ("Active", "tick", "Cleanup"),
        ("Idle", "begin", "Active"),
        ("Idle", "destroy", "Cleanup"),
        ("Idle", "tick", "Cleanup"),
        ("Idle", "give_way", "Cleanup"),
        ("Cleanup", "cleaned", "Destroyed"),
    ];

    type State = State;
    type Ledger = Ledger;
    type Input = Input;
    type Effect = Effect;

    fn first(now: Time) -> State {
        SAMPLE_RULES.first(now)
    }

    fn samples() -> Vec<Input> {
        vec![
            Input::Begin(Who::Owner),
            Input::Begin(Who::Stranger),
            Input::End,
            Input::Write,
            Input::Read,
            Input::Destroy(Who::Owner),
            Input::Destroy(Who::Stranger),
            Input::GiveWay,
            Input::Cleaned,
            Input::Tick,
        ]
    }

    fn step(state: &State, ledger: &Ledger, input: Input, now: Time) -> Stepped {
        step(&SAMPLE_RULES, state, ledger, input, now)
    }

    fn apply(ledger: &mut Ledger, effects: &[Effect], _now: Time) {
        ledger.apply(effects);
    }

    fn state_name(state: &State) -> &'static str {
        match state {
            State::Created { .. } => "Created",
            State::Active { .. } => "Active",
            State::Idle { .. } => "Idle",
            State::Cleanup => "Cleanup",
            State::Destroyed => "Destroyed",
        }
    }

    fn input_name(input: &Input) -> &'static str {
        match input {
            Input::Begin(_) => "begin",
            Input::End => "end",
            Input::Write => "write",
            Input::Read => "read",
            Input::Destroy(_) => "destroy",
            Input::GiveWay => "give_way",
            Input::Cleaned => "cleaned",
            Input::Tick => "tick",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        unused: Duration::from_millis(50),
        idle: Duration::from_millis(100),
        life: Duration::from_millis(1_000),
        max_running: 2,
    };

    /// A session that plays its inputs and keeps the pair of state and ledger.
    struct Life {
        state: State,
        ledger: Ledger,
    }

    impl Life {
        fn new() -> Self {
            Self {
                state: RULES.first(Time(0)),
                ledger: Ledger::default(),
            }
        }

        fn play(&mut self, input: Input, now: u64) -> Result<Vec<Effect>, Code> {
            let step = step(&RULES, &self.state, &self.ledger, input, Time(now))
                .map_err(|refusal| refusal.code())?;
            self.ledger.apply(&step.effects);
            self.state = step.state;
            Ok(step.effects.to_vec())
        }

        fn wake_at(&self) -> Option<Time> {
            self.state.wake_at(&RULES, &self.ledger)
        }

        fn used_once() -> Self {
            let mut life = Self::new();
            life.play(Input::Begin(Who::Owner), 10).unwrap();
            life.play(Input::End, 20).unwrap();
            life
        }
    }

    #[test]
    fn a_session_nobody_uses_ends_at_its_deadline_and_not_before() {
        let mut life = Life::new();
        assert_eq!(life.wake_at(), Some(Time(50)));
        assert_eq!(life.play(Input::Tick, 49), Ok(vec![]));
        assert_eq!(
            life.play(Input::Tick, 50),
            Ok(vec![Effect::Delete, Effect::Record(Why::Unused)])
        );
    }

    #[test]
    fn the_first_request_makes_it_active() {
        let mut life = Life::new();
        assert_eq!(
            life.play(Input::Begin(Who::Owner), 10),
            Ok(vec![Effect::Serve, Effect::Save])
        );
        assert_eq!(life.ledger.running(), 1);
        assert_eq!(life.wake_at(), None);
    }

    #[test]
    fn a_stranger_is_told_what_one_is_told_of_a_session_that_never_was() {
        let mut life = Life::used_once();
        let before = life.state.clone();
        for input in [Input::Begin(Who::Stranger), Input::Destroy(Who::Stranger)] {
            assert_eq!(life.play(input, 30), Err(Code::SessionInvalid));
        }
        assert_eq!(life.state, before);
    }

    #[test]
    fn it_is_saved_before_it_leaves_memory() {
        let mut life = Life::used_once();
        assert_eq!(life.wake_at(), Some(Time(120)));
        assert_eq!(life.play(Input::Tick, 119), Ok(vec![]));
        assert_eq!(
            life.play(Input::Tick, 120),
            Ok(vec![Effect::Save, Effect::Unload])
        );
        assert_eq!(
            life.play(Input::Begin(Who::Owner), 130),
            Ok(vec![Effect::Load, Effect::Serve])
        );
    }

    #[test]
    fn it_neither_idles_nor_ends_while_a_request_runs() {
        let mut life = Life::new();
        life.play(Input::Begin(Who::Owner), 10).unwrap();
        assert_eq!(life.play(Input::Tick, 5_000), Ok(vec![]));
        life.play(Input::End, 5_000).unwrap();
        assert_eq!(
            life.play(Input::Tick, 5_000),
            Ok(vec![Effect::Delete, Effect::Record(Why::Expired)])
        );
    }

    #[test]
    fn so_many_requests_run_at_once_and_no_more() {
        let mut life = Life::new();
        life.play(Input::Begin(Who::Owner), 10).unwrap();
        life.play(Input::Begin(Who::Owner), 10).unwrap();
        assert_eq!(
            life.play(Input::Begin(Who::Owner), 10),
            Err(Code::QueueCapExceeded)
        );
        life.play(Input::End, 11).unwrap();
        assert!(life.play(Input::Begin(Who::Owner), 12).is_ok());
    }

    #[test]
    fn reading_and_writing_count_as_use() {
        let mut life = Life::used_once();
        assert_eq!(life.play(Input::Write, 60), Ok(vec![Effect::Save]));
        assert_eq!(life.play(Input::Read, 90), Ok(vec![]));
        assert_eq!(life.wake_at(), Some(Time(190)));
    }

    #[test]
    fn what_comes_at_a_deadline_comes_too_late() {
        let mut unused = Life::new();
        let begin = || Input::Begin(Who::Owner);
        assert_eq!(unused.play(begin(), 50), Err(Code::SessionInvalid));
        assert!(unused.play(begin(), 49).is_ok());
        // It was full, but that is not what its owner is told.
        unused.play(begin(), 50).unwrap();
        assert_eq!(unused.play(begin(), 1_000), Err(Code::SessionInvalid));
        unused.play(Input::End, 1_000).unwrap();
        assert_eq!(unused.play(begin(), 1_000), Err(Code::SessionInvalid));
        assert!(unused.play(begin(), 999).is_ok());
    }

    #[test]
    fn a_life_may_be_shorter_than_the_wait_for_its_first_request() {
        let rules = Rules {
            life: Duration::from_millis(30),
            ..RULES
        };
        let state = rules.first(Time(0));
        let ledger = Ledger::default();
        assert_eq!(state.wake_at(&rules, &ledger), Some(Time(30)));
        let at = |input, now| step(&rules, &state, &ledger, input, Time(now));
        assert!(at(Input::Begin(Who::Owner), 29).is_ok());
        assert!(at(Input::Begin(Who::Owner), 30).is_err());
        assert_eq!(at(Input::Tick, 29).unwrap().state, state);
        assert_eq!(at(Input::Tick, 30).unwrap().state, State::Cleanup);
    }

    #[test]
    fn an_idle_session_waits_until_its_life_is_over() {
        let mut life = Life::used_once();
        life.play(Input::Tick, 120).unwrap();
        let idle = life.state.clone();
        assert_eq!(life.play(Input::Tick, 999), Ok(vec![]));
        assert_eq!(life.state, idle);
        assert_eq!(
            life.play(Input::Begin(Who::Stranger), 999),
            Err(Code::SessionInvalid)
        );
        assert_eq!(life.state, idle);
    }

    #[test]
    fn nobody_extends_its_life() {
        let mut life = Life::used_once();
        life.play(Input::Tick, 120).unwrap();
        assert_eq!(life.wake_at(), Some(Time(1_000)));
        assert_eq!(
            life.play(Input::Begin(Who::Owner), 1_000),
            Err(Code::SessionInvalid)
        );
        assert_eq!(
            life.play(Input::Tick, 1_000),
            Ok(vec![Effect::Delete, Effect::Record(Why::Expired)])
        );
    }

    #[test]
    fn destroyed_is_the_end() {
        let mut life = Life::used_once();
        life.play(Input::Destroy(Who::Owner), 30).unwrap();
        assert_eq!(life.state, State::Cleanup);
        for input in Session::samples() {
            if matches!(input, Input::Cleaned) {
                continue;
            }
            match life.play(input, 31) {
                Ok(effects) => assert!(matches!(effects[..], [] | [Effect::Release])),
                Err(code) => assert_eq!(code, Code::SessionInvalid),
            }
            assert_eq!(life.state, State::Cleanup);
        }
        life.play(Input::Cleaned, 32).unwrap();
        for input in Session::samples() {
            match life.play(input, 33) {
                Ok(effects) => assert!(matches!(effects[..], [] | [Effect::Release])),
                Err(code) => assert_eq!(code, Code::SessionInvalid),
            }
            assert_eq!(life.state, State::Destroyed);
        }
    }
}
