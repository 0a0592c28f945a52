//! What all machines have in common, so that tests can walk them and docs can draw them.
//!
//! A machine is one pure function, `step`. This module never decides anything: it only calls that
//! function with samples and writes down where it led.

use crate::{Refusal, Time};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt::{Debug, Write},
    hash::Hash,
};

mod effects;

pub use effects::{Effects, Orders};

/// What a step led to: the new state, and what to do, in that order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<S, E> {
    /// Where the machine is now.
    pub state: S,
    /// What to do, in this order.
    pub effects: Effects<E>,
}

/// A lifecycle, seen from outside.
pub trait Machine {
    /// What it is called in traces and docs.
    const NAME: &'static str;
    /// Every change of state there is: from, input, to.
    const EDGES: &'static [(&'static str, &'static str, &'static str)];

    /// Where it can be.
    type State: Clone + Debug + Eq + Hash;
    /// What grows beside the state; `()` where nothing does.
    type Ledger: Clone + Debug + Default + Eq + Hash;
    /// What can happen to it.
    type Input: Clone + Debug;
    /// What it can order.
    type Effect: Clone + Debug + Eq;

    /// Where it begins.
    fn first(now: Time) -> Self::State;

    /// One of each input, and more than one where its data matter.
    fn samples() -> Vec<Self::Input>;

    /// Decides. A refusal changes nothing.
    ///
    /// # Errors
    ///
    /// The refusal, if the input is not allowed now.
    fn step(
        state: &Self::State,
        ledger: &Self::Ledger,
        input: Self::Input,
        now: Time,
    ) -> Result<Step<Self::State, Self::Effect>, Refusal>;

    /// Brings the ledger up to date with a step.
    fn apply(ledger: &mut Self::Ledger, effects: &[Self::Effect], now: Time);

    /// The name of a state, without its data.
    fn state_name(state: &Self::State) -> &'static str;

    /// The name of an input, without its data.
    fn input_name(input: &Self::Input) -> &'static str;
}

/// A change of state: from, input, to.
pub type Edge = (&'static str, &'static str, &'static str);

/// Every change of state that `step` makes, found by trying each sample at each of the times, in
/// order, from every state that can be reached that way.
#[must_use]
pub fn walk<M: Machine>(times: &[Time]) -> BTreeSet<Edge> {
    let mut edges = BTreeSet::new();
    let mut seen = HashSet::new();
    let begin = times.first().copied().unwrap_or_default();
    let mut open = vec![(0, M::first(begin), M::Ledger::default())];
    while let Some((at, state, ledger)) = open.pop() {
        if !seen.insert((at, state.clone(), ledger.clone())) {
            continue;
        }
        for (later, now) in times.iter().enumerate().skip(at) {
            for input in M::samples() {
                let name = M::input_name(&input);
                let Ok(step) = M::step(&state, &ledger, input, *now) else {
                    continue;
                };
                let (from, to) = (M::state_name(&state), M::state_name(&step.state));
                if from != to {
                    edges.insert((from, name, to));
                }
                let mut ledger = ledger.clone();
                M::apply(&mut ledger, &step.effects, *now);
                open.push((later, step.state, ledger));
            }
        }
    }
    edges
}

/// Draws edges as a Mermaid state diagram, one arrow per pair of states.
#[must_use]
pub fn mermaid<M: Machine>(edges: &BTreeSet<Edge>) -> String {
    let first = M::state_name(&M::first(Time(0)));
    let mut arrows: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (from, input, to) in edges {
        arrows.entry((from, to)).or_default().push(input);
    }
    let mut text = format!("stateDiagram-v2\n    [*] --> {first}\n");
    for ((from, to), inputs) in arrows {
        writeln!(text, "    {from} --> {to}: {}", inputs.join(", "))
            .expect("writing to a string cannot fail");
    }
    text
}
