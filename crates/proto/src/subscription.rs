//! One client's interest in one resource.
//!
//! There is at most one for each client and resource. Notifications go out while `Subscribed` and
//! never else; what was attached is cleaned up on the way through `Unsubscribing`. The idle clock is
//! off by default, because 2025 versions have no way to tell the client that it ran out.

use crate::{
    Refusal, Time,
    machine::{Machine, Step},
};
use std::time::Duration;

/// The subscription machine.
#[derive(Debug)]
pub struct Subscription;

/// Where a subscription is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There is none.
    Unsubscribed,
    /// The client hears of changes.
    Subscribed {
        /// When it ends for want of changes.
        idle_at: Option<Time>,
    },
    /// It has ended; what belongs to it is being cleaned up.
    Unsubscribing,
}

/// What can happen to a subscription.
#[derive(Clone, Debug)]
pub enum Input {
    /// The client subscribes; whether the URI is canonical and the resource exists was looked up.
    Subscribe(Result<(), Refusal>),
    /// The client unsubscribes.
    Unsubscribe,
    /// The resource has changed.
    Updated,
    /// The resource is gone.
    Deleted,
    /// The connection has closed.
    Closed,
    /// What belonged to it has been cleaned up.
    Cleaned,
    /// Time has passed.
    Tick,
}

/// What a subscription orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Forget what is cached, so that the next read is fresh.
    Invalidate,
    /// Listen to the resource.
    Attach,
    /// Tell the client.
    Notify(Change),
    /// Stop listening to the resource.
    Detach,
    /// Nothing is left of it.
    Forget,
}

/// What has become of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It is another than before.
    Updated,
    /// It is gone.
    Deleted,
}

/// What a server may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// After how long without a change a subscription ends; never unless said otherwise.
    pub idle: Option<Duration>,
}

impl State {
    /// When the subscription next needs a [`Input::Tick`], if nothing else happens.
    #[must_use]
    pub const fn wake_at(&self) -> Option<Time> {
        match self {
            Self::Subscribed { idle_at } => *idle_at,
            Self::Unsubscribed | Self::Unsubscribing => None,
        }
    }
}

/// The only place where a subscription changes. A refusal leaves it untouched.
///
/// ```
/// use interlock_proto::{Time, subscription::{Change, Effect, Input, Rules, State, step}};
///
/// let rules = Rules::default();
/// let open = step(&rules, &State::Unsubscribed, Input::Subscribe(Ok(())), Time(0))?.state;
/// let told = step(&rules, &open, Input::Updated, Time(1))?;
/// assert_eq!(told.effects, [Effect::Notify(Change::Updated)]);
/// # Ok::<(), interlock_proto::Refusal>(())
/// ```
///
/// # Errors
///
/// Why the client may not subscribe.
pub fn step(
    rules: &Rules,
    state: &State,
    input: Input,
    now: Time,
) -> Result<Step<State, Effect>, Refusal> {
    let idle_at = rules.idle.map(|idle| now + idle);
    let subscribed = || State::Subscribed { idle_at };
    match state {
        State::Unsubscribed => match input {
            Input::Subscribe(allowed) => {
                allowed?;
                go(subscribed(), [Effect::Invalidate, Effect::Attach])
            }
            Input::Unsubscribe
            | Input::Updated
            | Input::Deleted
            | Input::Closed
            | Input::Cleaned
            | Input::Tick => go(State::Unsubscribed, []),
        },
        State::Subscribed { idle_at: due } => match input {
            // Once more is once: the client gets each change one time.
            Input::Subscribe(allowed) => {
                allowed?;
                go(state.clone(), [])
            }
            Input::Updated => go(subscribed(), [Effect::Notify(Change::Updated)]),
            Input::Deleted => {
                let effects = [Effect::Notify(Change::Deleted), Effect::Detach];
                go(State::Unsubscribing, effects)
            }
            Input::Unsubscribe | Input::Closed => go(State::Unsubscribing, [Effect::Detach]),
            Input::Tick if due.is_some_and(|due| now >= due) => {
                go(State::Unsubscribing, [Effect::Detach])
            }
            Input::Cleaned | Input::Tick => go(state.clone(), []),
        },
        State::Unsubscribing => match input {
            Input::Subscribe(allowed) => {
                allowed?;
                let effects = [Effect::Forget, Effect::Invalidate, Effect::Attach];
                go(subscribed(), effects)
            }
            Input::Unsubscribe
            | Input::Updated
            | Input::Deleted
            | Input::Closed
            | Input::Cleaned
            | Input::Tick => go(State::Unsubscribed, [Effect::Forget]),
        },
    }
}

type Stepped = Result<Step<State, Effect>, Refusal>;

fn go<const N: usize>(state: State, effects: [Effect; N]) -> Stepped {
    Ok(Step {
        state,
        effects: effects.into(),
    })
}

/// With its clock running, so that a walk meets it.
const SAMPLE_RULES: Rules = Rules {
    idle: Some(Duration::from_secs(30 * 60)),
};

impl Machine for Subscription {
    const NAME: &'static str = "subscription";
    const EDGES: &'static [(&'static str, &'static str, &'static str)] = &[
        ("Unsubscribed", "subscribe", "Subscribed"),
        ("Subscribed", "unsubscribe", "Unsubscribing"),
        ("Subscribed", "deleted", "Unsubscribing"),
        ("Subscribed", "closed", "Unsubscribing"),
        ("Subscribed", "tick", "Unsubscribing"),
        ("Unsubscribing", "subscribe", "Subscribed"),
        ("Unsubscribing", "unsubscribe", "Unsubscribed"),
        ("Unsubscribing", "updated", "Unsubscribed"),
        ("Unsubscribing", "deleted", "Unsubscribed"),
        ("Unsubscribing", "closed", "Unsubscribed"),
        ("Unsubscribing", "cleaned", "Unsubscribed"),
        ("Unsubscribing", "tick", "Unsubscribed"),
    ];

    type State = State;
    type Ledger = ();
    type Input = Input;
    type Effect = Effect;

    fn first(_now: Time) -> State {
        State::Unsubscribed
    }

    fn samples() -> Vec<Input> {
        vec![
            Input::Subscribe(Ok(())),
            Input::Subscribe(Err(Refusal::new(crate::Code::ResourceNotFound))),
            Input::Unsubscribe,
            Input::Updated,
            Input::Deleted,
            Input::Closed,
            Input::Cleaned,
            Input::Tick,
        ]
    }

    fn step(state: &State, (): &(), input: Input, now: Time) -> Stepped {
        step(&SAMPLE_RULES, state, input, now)
    }

    fn apply((): &mut (), _effects: &[Effect], _now: Time) {}

    fn state_name(state: &State) -> &'static str {
        match state {
            State::Unsubscribed => "Unsubscribed",
            State::Subscribed { .. } => "Subscribed",
            State::Unsubscribing => "Unsubscribing",
        }
    }

    fn input_name(input: &Input) -> &'static str {
        match input {
            Input::Subscribe(_) => "subscribe",
            Input::Unsubscribe => "unsubscribe",
            Input::Updated => "updated",
            Input::Deleted => "deleted",
            Input::Closed => "closed",
            Input::Cleaned => "cleaned",
            Input::Tick => "tick",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    const RULES: Rules = Rules { idle: None };

    fn at(state: &State, input: Input) -> Step<State, Effect> {
        step(&RULES, state, input, Time(5)).unwrap()
    }

    const OPEN: State = State::Subscribed { idle_at: None };

    #[test]
    fn subscribing_makes_the_next_read_fresh() {
        let step = at(&State::Unsubscribed, Input::Subscribe(Ok(())));
        assert_eq!(step.state, OPEN);
        assert_eq!(step.effects, [Effect::Invalidate, Effect::Attach]);
    }

    #[test]
    fn what_does_not_exist_cannot_be_subscribed_to_in_any_state() {
        for state in [State::Unsubscribed, OPEN, State::Unsubscribing] {
            let missing = Input::Subscribe(Err(Refusal::new(Code::ResourceNotFound)));
            let refusal = step(&RULES, &state, missing, Time(5)).unwrap_err();
            assert_eq!(refusal.code(), Code::ResourceNotFound);
        }
    }

    #[test]
    fn subscribing_twice_is_subscribing_once() {
        let step = at(&OPEN, Input::Subscribe(Ok(())));
        assert_eq!((step.state, step.effects), (OPEN, [].into()));
    }

    #[test]
    fn only_a_subscriber_is_told() {
        for input in [Input::Updated, Input::Deleted] {
            assert_eq!(at(&State::Unsubscribed, input.clone()).effects, []);
            assert_eq!(at(&State::Unsubscribing, input).effects, [Effect::Forget]);
        }
        assert_eq!(
            at(&OPEN, Input::Updated).effects,
            [Effect::Notify(Change::Updated)]
        );
        assert_eq!(at(&OPEN, Input::Updated).state, OPEN);
    }

    #[test]
    fn a_deleted_resource_is_told_of_and_the_subscription_ends() {
        let step = at(&OPEN, Input::Deleted);
        assert_eq!(step.state, State::Unsubscribing);
        assert_eq!(
            step.effects,
            [Effect::Notify(Change::Deleted), Effect::Detach]
        );
    }

    #[test]
    fn both_ends_of_a_connection_can_end_it() {
        for input in [Input::Unsubscribe, Input::Closed] {
            let step = at(&OPEN, input);
            assert_eq!(step.state, State::Unsubscribing);
            assert_eq!(step.effects, [Effect::Detach]);
        }
    }

    #[test]
    fn subscribing_again_while_the_old_one_is_cleaned_up_is_not_lost() {
        let step = at(&State::Unsubscribing, Input::Subscribe(Ok(())));
        assert_eq!(step.state, OPEN);
        assert_eq!(
            step.effects,
            [Effect::Forget, Effect::Invalidate, Effect::Attach]
        );
    }

    #[test]
    fn a_quiet_subscription_ends_at_its_deadline_if_there_is_one() {
        let rules = Rules {
            idle: Some(Duration::from_millis(100)),
        };
        let play = |state: &State, input, now| step(&rules, state, input, Time(now)).unwrap().state;
        let open = play(&State::Unsubscribed, Input::Subscribe(Ok(())), 0);
        assert_eq!(open.wake_at(), Some(Time(100)));
        let open = play(&open, Input::Updated, 60);
        assert_eq!(play(&open, Input::Tick, 159), open);
        assert_eq!(play(&open, Input::Tick, 160), State::Unsubscribing);
        assert_eq!(OPEN.wake_at(), None);
        assert_eq!(at(&OPEN, Input::Tick).state, OPEN);
    }
}
