//! Something a person is asked, by a form or behind a URL.
//!
//! The first answer wins: the same one again is fine, another is an error. A question that nobody
//! answers expires, cannot be answered any more, and is cleaned up a while later, so that a late
//! answer is told "expired" rather than "unknown".

use crate::{
    Code, Refusal, Time,
    machine::{Machine, Step},
};
use std::time::Duration;

/// The elicitation machine.
#[derive(Debug)]
pub struct Elicitation;

/// Where a question is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody has answered.
    Pending {
        /// When it expires.
        expires: Time,
    },
    /// It has ended and is remembered for a while.
    Ended {
        /// How.
        end: End,
        /// When it is forgotten.
        forget_at: Time,
    },
    /// Nothing is left of it.
    CleanedUp,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was answered, with this.
    Completed(Answer),
    /// The person said no.
    Declined,
    /// The person went away, or the client did.
    Cancelled,
    /// Nobody answered in time.
    Expired,
}

/// A digest of an answer: enough to tell the same one from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer(pub u64);

/// Whether the person at the other end is the one who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// It is.
    Asked,
    /// It is somebody else.
    Stranger,
}

/// What can happen to a question.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody answers.
    Complete(Who, Answer),
    /// The person says no.
    Decline(Who),
    /// The person goes away.
    Cancel(Who),
    /// The client is gone, so nobody waits for the answer.
    ClientGone,
    /// Time has passed.
    Tick,
}

/// What a question orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write its end to the store.
    Save,
    /// Tell whoever waits for it.
    Tell(End),
    /// Delete it from the store.
    Delete,
}

/// What a server may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a person has to answer.
    pub ttl: Duration,
    /// How long an ended question is remembered.
    pub cleanup: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(5 * 60),
            cleanup: Duration::from_secs(60),
        }
    }
}

impl Rules {
    /// A new question.
    #[must_use]
    pub fn first(&self, now: Time) -> State {
        State::Pending {
            expires: now + self.ttl,
        }
    }
}

impl State {
    /// When the question next needs a [`Input::Tick`], if nothing else happens.
    #[must_use]
    pub const fn wake_at(&self) -> Option<Time> {
        match self {
            Self::Pending { expires } => Some(*expires),
            Self::Ended { forget_at, .. } => Some(*forget_at),
            Self::CleanedUp => None,
        }
    }
}

/// The only place where a question changes. A refusal leaves it untouched.
///
/// ```
/// use interlock_proto::{Time, elicitation::{Answer, Input, Rules, Who, step}};
///
/// let rules = Rules::default();
/// let asked = rules.first(Time(0));
/// let yes = Input::Complete(Who::Asked, Answer(1));
/// let answered = step(&rules, &asked, yes.clone(), Time(1))?.state;
/// assert!(step(&rules, &answered, yes, Time(2))?.effects.is_empty());
/// let other = Input::Complete(Who::Asked, Answer(2));
/// assert!(step(&rules, &answered, other, Time(2)).is_err());
/// # Ok::<(), interlock_proto::Refusal>(())
/// ```
///
/// # Errors
///
/// 1014 for a stranger, 1052 for a second and different answer, 1069 for one that comes too late,
/// 1046 once nothing is left.
pub fn step(
    rules: &Rules,
    state: &State,
    input: Input,
    now: Time,
) -> Result<Step<State, Effect>, Refusal> {
    match state {
        State::Pending { expires } => pending(rules, *expires, input, now),
        State::Ended { end, forget_at } => match input {
            Input::Complete(Who::Stranger, _)
            | Input::Decline(Who::Stranger)
            | Input::Cancel(Who::Stranger) => stranger(),
            Input::Complete(Who::Asked, answer) => again(state, *end, End::Completed(answer)),
            Input::Decline(Who::Asked) => again(state, *end, End::Declined),
            Input::Cancel(Who::Asked) => again(state, *end, End::Cancelled),
            Input::Tick if now >= *forget_at => go(State::CleanedUp, [Effect::Delete]),
            Input::ClientGone | Input::Tick => go(state.clone(), []),
        },
        State::CleanedUp => match input {
            Input::Complete(..) | Input::Decline(_) | Input::Cancel(_) => {
                Err(Refusal::new(Code::ResourceNotFound).because("nothing is asked here"))
            }
            Input::ClientGone | Input::Tick => go(State::CleanedUp, []),
        },
    }
}

fn pending(rules: &Rules, expires: Time, input: Input, now: Time) -> Stepped {
    let ended = |end| {
        let forget_at = now + rules.cleanup;
        go(
            State::Ended { end, forget_at },
            [Effect::Save, Effect::Tell(end)],
        )
    };
    match input {
        Input::Complete(Who::Stranger, _)
        | Input::Decline(Who::Stranger)
        | Input::Cancel(Who::Stranger) => stranger(),
        // Nobody answers after the deadline, whether or not its tick has come.
        Input::Complete(Who::Asked, _) | Input::Decline(Who::Asked) if now >= expires => late(),
        Input::Complete(Who::Asked, answer) => ended(End::Completed(answer)),
        Input::Decline(Who::Asked) => ended(End::Declined),
        Input::Cancel(Who::Asked) | Input::ClientGone => ended(End::Cancelled),
        Input::Tick if now >= expires => ended(End::Expired),
        Input::Tick => go(State::Pending { expires }, []),
    }
}

/// The first end wins. The same again is fine, another is an error.
fn again(here: &State, first: End, second: End) -> Stepped {
    if first == second {
        return go(here.clone(), []);
    }
    match first {
        End::Expired => late(),
        End::Completed(_) | End::Declined | End::Cancelled => {
            Err(Refusal::new(Code::EntityDuplicate).because("this was answered already"))
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

fn late() -> Stepped {
    Err(Refusal::new(Code::Timeout).because("the time to answer is over"))
}

fn stranger() -> Stepped {
    Err(Refusal::new(Code::AuthzForbidden))
}

impl Machine for Elicitation {
    const NAME: &'static str = "elicitation";
    const EDGES: &'static [(&'static str, &'static str, &'static str)] = &[
        ("Pending", "complete", "Completed"),
        ("Pending", "decline", "Declined"),
        ("Pending", "cancel", "Cancelled"),
        ("Pending", "client gone", "Cancelled"),
        ("Pending", "tick", "Expired"),
        ("Completed", "tick", "CleanedUp"),
        ("Declined", "tick", "CleanedUp"),
        ("Cancelled", "tick", "CleanedUp"),
        ("Expired", "tick", "CleanedUp"),
    ];

    type State = State;
    type Ledger = ();
    type Input = Input;
    type Effect = Effect;

    fn first(now: Time) -> State {
        Rules::default().first(now)
    }

    fn samples() -> Vec<Input> {
        vec![
            Input::Complete(Who::Asked, Answer(1)),
            Input::Complete(Who::Asked, Answer(2)),
            Input::Complete(Who::Stranger, Answer(1)),
            Input::Decline(Who::Asked),
            Input::Decline(Who::Stranger),
            Input::Cancel(Who::Asked),
            Input::Cancel(Who::Stranger),
            Input::ClientGone,
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
            State::Ended { end, .. } => match end {
                End::Completed(_) => "Completed",
                End::Declined => "Declined",
                End::Cancelled => "Cancelled",
                End::Expired => "Expired",
            },
            State::CleanedUp => "CleanedUp",
        }
    }

    fn input_name(input: &Input) -> &'static str {
        match input {
            Input::Complete(..) => "complete",
            Input::Decline(_) => "decline",
            Input::Cancel(_) => "cancel",
            Input::ClientGone => "client gone",
            Input::Tick => "tick",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        ttl: Duration::from_millis(100),
        cleanup: Duration::from_millis(60),
    };

    fn play(state: &State, input: Input, now: u64) -> Result<Step<State, Effect>, Code> {
        step(&RULES, state, input, Time(now)).map_err(|refusal| refusal.code())
    }

    fn asked() -> State {
        RULES.first(Time(0))
    }

    fn answer(number: u64) -> Input {
        Input::Complete(Who::Asked, Answer(number))
    }

    #[test]
    fn each_way_to_end_is_saved_before_it_is_told() {
        for (input, end) in [
            (answer(1), End::Completed(Answer(1))),
            (Input::Decline(Who::Asked), End::Declined),
            (Input::Cancel(Who::Asked), End::Cancelled),
            (Input::ClientGone, End::Cancelled),
        ] {
            let step = play(&asked(), input, 10).unwrap();
            assert_eq!(step.effects, [Effect::Save, Effect::Tell(end)]);
            assert_eq!(step.state.wake_at(), Some(Time(70)));
        }
    }

    #[test]
    fn the_first_answer_wins_and_the_same_again_is_fine() {
        let ended = play(&asked(), answer(1), 10).unwrap().state;
        let again = play(&ended, answer(1), 20).unwrap();
        assert_eq!((again.state, again.effects), (ended.clone(), [].into()));
        assert_eq!(play(&ended, answer(2), 20), Err(Code::EntityDuplicate));
        let no = Input::Decline(Who::Asked);
        assert_eq!(play(&ended, no.clone(), 20), Err(Code::EntityDuplicate));
        let declined = play(&asked(), no.clone(), 10).unwrap().state;
        assert_eq!(play(&declined, no, 20).unwrap().effects, []);
    }

    #[test]
    fn an_expired_question_takes_no_answer_and_is_forgotten_later() {
        assert_eq!(play(&asked(), Input::Tick, 99).unwrap().state, asked());
        assert_eq!(play(&asked(), answer(1), 100), Err(Code::Timeout));
        let expired = play(&asked(), Input::Tick, 100).unwrap();
        assert_eq!(expired.effects, [Effect::Save, Effect::Tell(End::Expired)]);
        assert_eq!(play(&expired.state, answer(1), 110), Err(Code::Timeout));
        assert_eq!(
            play(&expired.state, Input::Tick, 159).unwrap().state,
            expired.state
        );
        let gone = play(&expired.state, Input::Tick, 160).unwrap();
        assert_eq!(
            (gone.state, gone.effects),
            (State::CleanedUp, [Effect::Delete].into())
        );
        assert_eq!(
            play(&State::CleanedUp, answer(1), 170),
            Err(Code::ResourceNotFound)
        );
    }

    #[test]
    fn a_stranger_can_do_nothing() {
        let ended = play(&asked(), answer(1), 10).unwrap().state;
        for state in [asked(), ended] {
            for input in [
                Input::Complete(Who::Stranger, Answer(1)),
                Input::Decline(Who::Stranger),
                Input::Cancel(Who::Stranger),
            ] {
                assert_eq!(play(&state, input, 20), Err(Code::AuthzForbidden));
            }
        }
    }

    #[test]
    fn nothing_happens_to_what_is_gone() {
        assert_eq!(State::CleanedUp.wake_at(), None);
        for input in [Input::Tick, Input::ClientGone] {
            assert_eq!(play(&State::CleanedUp, input, 1).unwrap().effects, []);
        }
    }
}
