//! The bare edges of an automaton, which may not be valid yet: what can be reached, what can end.
//!
//! Every walk is a loop over a queue and touches each edge once, so a workflow of a million states
//! costs time in proportion and no stack.

use crate::{StateId, validate::Via};

/// The bare edges of an automaton that may not be valid.
///
/// An edge whose target nobody defined could lead anywhere. It counts as leading to every state
/// and to an end, so that whatever is found stays true however the author mends it.
///
/// A state that asks the client's model is two nodes: a call that enters it comes to the one that
/// asks, and only answers lead on from there; everything else comes to the plain one.
#[derive(Debug)]
pub(crate) struct Graph {
    states: usize,
    /// The arrows between nodes; those that ask come after all the others.
    nodes: Vec<Arrow>,
}

/// A bare edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrow {
    pub(crate) from: StateId,
    /// Nothing where nobody defined the target.
    pub(crate) to: Option<StateId>,
    pub(crate) terminal: bool,
    pub(crate) via: Via,
}

/// Whether a state asks the client's model when a call enters it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Nothing,
    /// And every answer leads somewhere that is written.
    Always,
    /// And an answer for which nothing is written stays.
    MayStay,
}

/// Where instances can get to.
#[derive(Debug)]
pub(crate) struct Reach {
    /// By state: an instance can be in it and go on.
    pub(crate) lived: Vec<bool>,
    /// By state: an instance can end in it.
    pub(crate) ended: Vec<bool>,
    /// By state: an instance can be in it, and reach no end from there.
    pub(crate) trapped: Vec<bool>,
    /// An instance can get to a target that nobody defined.
    pub(crate) astray: bool,
    /// An instance can reach an end.
    pub(crate) ends: bool,
}

impl Graph {
    /// `restart` is where an instance is after an end, if it begins again.
    pub(crate) fn new(asks: &[Asks], arrows: Vec<Arrow>, restart: Option<StateId>) -> Self {
        let states = asks.len();
        let asking = |state: StateId| StateId::at(state.index() + states);
        let node = |arrow: &Arrow| {
            let enters_by_call = match arrow.via {
                Via::Call | Via::Sampling => arrow.to != Some(arrow.from),
                Via::Alone | Via::Time | Via::Never => false,
            };
            let to = arrow.to.map(|to| match asks[to.index()] {
                Asks::Always | Asks::MayStay if enters_by_call && !arrow.terminal => asking(to),
                Asks::Always | Asks::MayStay | Asks::Nothing => to,
            });
            let from = match arrow.via {
                Via::Sampling => asking(arrow.from),
                Via::Call | Via::Alone | Via::Time | Via::Never => arrow.from,
            };
            Arrow { from, to, ..*arrow }
        };
        let mut nodes: Vec<_> = arrows.iter().map(node).collect();
        let settle = |at| Arrow {
            from: asking(StateId::at(at)),
            to: Some(StateId::at(at)),
            terminal: false,
            via: Via::Sampling,
        };
        let stay = (0..states).filter(|at| asks[*at] == Asks::MayStay);
        nodes.extend(stay.map(settle));
        // A call that ends the workflow enters the initial state, which may ask.
        if let Some(restart) = restart.filter(|at| asks[at.index()] != Asks::Nothing) {
            let again: Vec<_> = nodes
                .iter()
                .filter(|arrow| arrow.terminal && matches!(arrow.via, Via::Call | Via::Sampling))
                .map(|arrow| Arrow {
                    to: Some(asking(restart)),
                    terminal: false,
                    ..*arrow
                })
                .collect();
            nodes.extend(again);
        }
        Self { states, nodes }
    }

    /// A state from which answers of the client's model alone lead round and round.
    pub(crate) fn endless_questions(&self) -> Option<StateId> {
        let asking = |node: StateId| node.index().checked_sub(self.states);
        let between = self.nodes.iter().filter(|arrow| !arrow.terminal);
        let between = between.filter_map(|arrow| {
            let (from, to) = (asking(arrow.from)?, asking(arrow.to?)?);
            Some((StateId::at(from), StateId::at(to)))
        });
        let round = leads_round(self.states, &between.collect::<Vec<_>>());
        round.into_iter().position(|round| round).map(StateId::at)
    }

    /// Where instances can get to from these states.
    pub(crate) fn reach(&self, starts: &[StateId]) -> Reach {
        let leaving = Index::new(2 * self.states, &self.nodes, |arrow| Some(arrow.from));
        let can_end = self.can_end();
        let mut lived = vec![false; 2 * self.states];
        let mut reach = Reach {
            lived: Vec::new(),
            ended: vec![false; self.states],
            trapped: Vec::new(),
            astray: false,
            ends: starts.iter().any(|start| can_end[start.index()]),
        };
        let mut queue = Vec::new();
        for &start in starts {
            visit(&mut lived, &mut queue, start);
        }
        while let Some(node) = queue.pop() {
            for arrow in leaving.of(node).map(|at| self.nodes[at]) {
                match arrow.to {
                    None => reach.astray = true,
                    Some(to) if arrow.terminal => reach.ended[to.index()] = true,
                    Some(to) => visit(&mut lived, &mut queue, to),
                }
            }
        }
        let both = |at: usize| [at, at + self.states];
        reach.trapped = (0..self.states)
            .map(|at| {
                both(at)
                    .into_iter()
                    .any(|node| lived[node] && !can_end[node])
            })
            .collect();
        reach.lived = (0..self.states)
            .map(|at| both(at).into_iter().any(|node| lived[node]))
            .collect();
        reach
    }

    /// By node: whether an instance that is in it can reach an end.
    fn can_end(&self) -> Vec<bool> {
        let goes_on = |arrow: &Arrow| arrow.to.filter(|_| !arrow.terminal);
        let entering = Index::new(2 * self.states, &self.nodes, goes_on);
        let mut can_end = vec![false; 2 * self.states];
        let mut queue = Vec::new();
        for arrow in self.nodes.iter().filter(|arrow| goes_on(arrow).is_none()) {
            visit(&mut can_end, &mut queue, arrow.from);
        }
        while let Some(node) = queue.pop() {
            for at in entering.of(node) {
                visit(&mut can_end, &mut queue, self.nodes[at].from);
            }
        }
        can_end
    }
}

/// By state: whether edges lead from it round in a circle, at once or later. States are taken away
/// one after the other, as long as they lead to none that is left.
pub(crate) fn leads_round(states: usize, edges: &[(StateId, StateId)]) -> Vec<bool> {
    let mut leaves = vec![0_usize; states];
    let mut into = vec![Vec::new(); states];
    for (from, to) in edges {
        leaves[from.index()] += 1;
        into[to.index()].push(*from);
    }
    let all = (0..states).map(StateId::at);
    let mut done: Vec<_> = all.filter(|at| leaves[at.index()] == 0).collect();
    while let Some(state) = done.pop() {
        for from in std::mem::take(&mut into[state.index()]) {
            leaves[from.index()] -= 1;
            if leaves[from.index()] == 0 {
                done.push(from);
            }
        }
    }
    leaves.into_iter().map(|left| left > 0).collect()
}

fn visit(seen: &mut [bool], queue: &mut Vec<StateId>, node: StateId) {
    if !std::mem::replace(&mut seen[node.index()], true) {
        queue.push(node);
    }
}

/// The arrows by one of their ends.
struct Index {
    /// Where the arrows of each state begin in `arrows`, and one past the last.
    starts: Vec<usize>,
    arrows: Vec<usize>,
}

impl Index {
    /// Counts, adds up, then puts each arrow in its place: two passes, two allocations.
    fn new(states: usize, arrows: &[Arrow], end: impl Fn(&Arrow) -> Option<StateId>) -> Self {
        let mut starts = vec![0; states + 1];
        for state in arrows.iter().filter_map(&end) {
            starts[state.index()] += 1;
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        // Each start is now one past its group, and filling from the back moves it to the front.
        let mut sorted = vec![0; total];
        for (at, arrow) in arrows.iter().enumerate().rev() {
            if let Some(state) = end(arrow) {
                starts[state.index()] -= 1;
                sorted[starts[state.index()]] = at;
            }
        }
        Self {
            starts,
            arrows: sorted,
        }
    }

    fn of(&self, state: StateId) -> impl Iterator<Item = usize> {
        let range = self.starts[state.index()]..self.starts[state.index() + 1];
        self.arrows[range].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrow(from: usize, to: Option<usize>, via: Via) -> Arrow {
        Arrow {
            from: StateId::at(from),
            to: to.map(StateId::at),
            terminal: false,
            via,
        }
    }

    #[test]
    fn an_undefined_target_could_be_anywhere() {
        let graph = Graph::new(&[Asks::Nothing; 2], vec![arrow(0, None, Via::Call)], None);
        let reach = graph.reach(&[StateId::at(0)]);
        assert!(reach.astray && reach.ends);
        assert!(!graph.reach(&[StateId::at(1)]).astray);
        assert_eq!(graph.can_end(), [true, false, false, false]);
    }

    #[test]
    fn staying_asks_nothing() {
        let arrows = vec![
            arrow(0, Some(0), Via::Call),
            arrow(0, Some(1), Via::Sampling),
        ];
        let graph = Graph::new(&[Asks::MayStay, Asks::Nothing], arrows, None);
        assert_eq!(graph.reach(&[StateId::at(0)]).lived, [true, false]);
    }

    #[test]
    fn answers_lead_on_only_where_a_call_led() {
        // 0 to 1 by call or by time, and from 1 an answer leads to 2.
        let reach = |via| {
            let arrows = vec![arrow(0, Some(1), via), arrow(1, Some(2), Via::Sampling)];
            let asks = [Asks::Nothing, Asks::MayStay, Asks::Nothing];
            let graph = Graph::new(&asks, arrows, None);
            graph.reach(&[StateId::at(0)]).lived
        };
        assert_eq!(reach(Via::Call), [true, true, true]);
        assert_eq!(reach(Via::Time), [true, true, false]);
        assert_eq!(reach(Via::Alone), [true, true, false]);
    }
}
