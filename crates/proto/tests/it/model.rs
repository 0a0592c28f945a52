//! Every machine, tried exhaustively: every input of client, server and clock, in every order.
//!
//! The checker knows no liveness, so time is bounded: it moves through a few points around each
//! deadline, and what must end is checked to have a deadline that lies near and is never overdue.
//! The functions that are called are those that ship.

mod connection;
mod elicitation;
mod invocation;
mod negotiation;
mod session;
mod subscription;
mod task;

use crate::subject::{EffectOf, InputOf, LedgerOf, Life, StateOf, Subject};
use interlock_proto::{Code, Time, machine::Machine};
use stateright::{Checker, Model, Property};
use std::{collections::BTreeSet, fmt::Debug, hash::Hash, time::Duration};

const OVERDUE: &str = "after a tick nothing is overdue";
const UNBOUNDED: &str = "what must end has a deadline, and it is near";
const REFUSED: &str = "a refusal changes nothing";
const MISSPELT: &str = "what is denied is a property";

/// A machine that can be tried exhaustively.
trait Modelled: Subject + Send + Sync + 'static
where
    StateOf<Self>: Send + Sync,
    LedgerOf<Self>: Send + Sync,
    InputOf<Self>: Send + Sync,
{
    /// What a property needs to know of the past.
    type Memory: Clone + Debug + Default + Eq + Hash + Send + Sync;

    /// The points in time, in milliseconds.
    const TIMES: &'static [u64];
    /// No deadline lies further away.
    const LONGEST: Duration;

    fn choices(&self) -> Vec<InputOf<Self>> {
        self.inputs()
    }

    /// Whether time alone must end this state.
    fn must_end(state: &StateOf<Self>, ledger: &LedgerOf<Self>) -> bool;

    /// Judges one step. What should not be is [`Notes::deny`]ed; what should be possible is
    /// [`Notes::show`]n.
    fn judge(notes: &mut Notes<Self::Memory>, moment: &Moment<'_, Self>);

    /// What always holds and what sometimes comes about, besides what is common to all.
    fn properties() -> Vec<Property<Exhaustive<Self>>>;
}

/// One step of a machine.
struct Moment<'a, S: Subject> {
    before: &'a Life<S>,
    input: &'a InputOf<S>,
    outcome: &'a Result<Vec<EffectOf<S>>, Code>,
    after: &'a Life<S>,
}

impl<S: Subject> Moment<'_, S> {
    fn effects(&self) -> &[EffectOf<S>] {
        self.outcome.as_deref().unwrap_or_default()
    }

    fn orders(&self, wanted: impl Fn(&EffectOf<S>) -> bool) -> bool {
        self.effects().iter().any(wanted)
    }
}

/// What the model writes down about the past and about the last step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Notes<T> {
    memory: T,
    /// The properties that the way here has broken.
    broken: BTreeSet<&'static str>,
    /// What the last step was an example of.
    shows: BTreeSet<&'static str>,
}

impl<T> Notes<T> {
    fn deny(&mut self, property: &'static str, broken: bool) {
        if broken {
            self.broken.insert(property);
        }
    }

    fn show(&mut self, example: &'static str, is_one: bool) {
        if is_one {
            self.shows.insert(example);
        }
    }
}

/// The model of a machine.
#[derive(Clone, Debug)]
struct Exhaustive<S: Subject> {
    subject: S,
    choices: Vec<InputOf<S>>,
}

/// Where a model is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node<State, Ledger, Memory> {
    at: usize,
    state: State,
    ledger: Ledger,
    notes: Notes<Memory>,
}

type NodeOf<S> = Node<StateOf<S>, LedgerOf<S>, <S as Modelled>::Memory>;

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    /// Time goes on to its next point.
    Pass,
    /// This one of the choices happens; its name is for whoever reads a counterexample.
    Play(usize, &'static str),
}

impl<S: Modelled> Model for Exhaustive<S>
where
    StateOf<S>: Send + Sync,
    LedgerOf<S>: Send + Sync,
    InputOf<S>: Send + Sync,
{
    type State = NodeOf<S>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![Node {
            at: 0,
            state: self.subject.first(Time(S::TIMES[0])),
            ledger: LedgerOf::<S>::default(),
            notes: Notes::default(),
        }]
    }

    fn actions(&self, node: &Self::State, actions: &mut Vec<Self::Action>) {
        // What has gone wrong is looked at, and not gone on with.
        if !node.notes.broken.is_empty() {
            return;
        }
        if node.at + 1 < S::TIMES.len() {
            actions.push(Action::Pass);
        }
        let names = self.choices.iter().map(S::M::input_name).enumerate();
        actions.extend(names.map(|(which, name)| Action::Play(which, name)));
    }

    fn next_state(&self, last: &Self::State, action: Self::Action) -> Option<Self::State> {
        let mut notes = last.notes.clone();
        notes.shows.clear();
        let input = match action {
            Action::Pass => {
                let at = last.at + 1;
                return Some(Node {
                    at,
                    notes,
                    ..last.clone()
                });
            }
            Action::Play(which, _) => self.choices[which].clone(),
        };
        let now = Time(S::TIMES[last.at]);
        let before = Life {
            subject: self.subject.clone(),
            state: last.state.clone(),
            ledger: last.ledger.clone(),
            now,
        };
        let mut after = before.clone();
        let outcome = after.play(input.clone());
        notes.deny(REFUSED, outcome.is_err() && !after.is_same_as(&before));
        if S::M::input_name(&input) == S::M::input_name(&S::tick()) {
            notes.deny(OVERDUE, after.wake_at().is_some_and(|due| due <= now));
        }
        let near = |due: Time| due <= now + S::LONGEST;
        notes.deny(
            UNBOUNDED,
            S::must_end(&after.state, &after.ledger) && !after.wake_at().is_some_and(near),
        );
        S::judge(
            &mut notes,
            &Moment {
                before: &before,
                input: &input,
                outcome: &outcome,
                after: &after,
            },
        );
        Some(Node {
            at: last.at,
            state: after.state,
            ledger: after.ledger,
            notes,
        })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(OVERDUE, |_, node: &NodeOf<S>| !node.is_broken(OVERDUE)),
            Property::always(UNBOUNDED, |_, node: &NodeOf<S>| !node.is_broken(UNBOUNDED)),
            Property::always(REFUSED, |_, node: &NodeOf<S>| !node.is_broken(REFUSED)),
        ];
        properties.push(Property::always(MISSPELT, |_, node: &NodeOf<S>| {
            let common = [OVERDUE, UNBOUNDED, REFUSED];
            node.notes.broken.iter().all(|name| {
                common.contains(name) || S::properties().iter().any(|known| known.name == *name)
            })
        }));
        properties.extend(S::properties());
        properties
    }
}

impl<State, Ledger, Memory> Node<State, Ledger, Memory> {
    fn is_broken(&self, property: &str) -> bool {
        self.notes.broken.contains(property)
    }

    fn shows(&self, example: &str) -> bool {
        self.notes.shows.contains(example)
    }
}

/// A property that [`Modelled::judge`] denies where it does not hold.
macro_rules! always {
    ($name:literal) => {
        Property::always($name, |_, node: &$crate::model::NodeOf<Self>| {
            !node.is_broken($name)
        })
    };
}

/// Something that [`Modelled::judge`] shows where it comes about.
macro_rules! sometimes {
    ($name:literal) => {
        Property::sometimes($name, |_, node: &$crate::model::NodeOf<Self>| {
            node.shows($name)
        })
    };
}

use {always, sometimes};

/// Tries everything, and says how much that was. A model that got nowhere has proved nothing.
#[track_caller]
fn check<S: Modelled>(subject: S, at_least: usize)
where
    StateOf<S>: Send + Sync,
    LedgerOf<S>: Send + Sync,
    InputOf<S>: Send + Sync,
{
    let choices = subject.choices();
    let model = Exhaustive { subject, choices };
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    println!("{}: {states} states, {steps} steps", S::M::NAME);
    assert!(states >= at_least, "{}: only {states} states", S::M::NAME);
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
