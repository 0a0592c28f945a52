//! Questions about the whole graph: what can be reached, what can end, what is the way there.
//!
//! Every walk is a loop over a queue and touches each edge once, so a workflow of a million states
//! costs time in proportion and no stack.

use crate::{Artifact, Binding, Edge, Kind, Outcome, Position, StateId, Workflow, intern::Role};
use std::collections::{HashMap, VecDeque, hash_map::Entry};

impl Workflow {
    /// The states that an instance can be in or end in, in the order in which they were written.
    pub fn reachable(&self) -> Vec<StateId> {
        let reach = self.graph().reach(&[self.initial]);
        self.states()
            .filter(|state| reach.lived[state.index()] || reach.ended[state.index()])
            .collect()
    }

    /// The states that an instance can be in and from which it can reach no end.
    ///
    /// ```
    /// use interlock_workflow::{Workflow, end};
    ///
    /// let flow = Workflow::builder("pit")
    ///     .state("edge", |s| {
    ///         s.initial()
    ///             .tool("jump", |t| t.success("pit"))
    ///             .tool("leave", |t| t.success(end("home")))
    ///     })
    ///     .build()?;
    /// assert_eq!(flow.traps(), [flow.state_id("pit").unwrap()]);
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn traps(&self) -> Vec<StateId> {
        let graph = self.graph();
        let reach = graph.reach(&[self.initial]);
        let can_end = graph.can_end();
        self.states()
            .filter(|state| reach.lived[state.index()] && !can_end[state.index()])
            .collect()
    }

    /// The shortest way to where an artifact is callable, empty if it is callable already.
    ///
    /// A way on which every call succeeds is preferred to a shorter one that needs a failure. The
    /// way may lead through an end and on from the initial state, where the workflow restarts.
    ///
    /// ```
    /// use interlock_workflow::{Kind, Workflow};
    ///
    /// let refund = Workflow::builder("refund")
    ///     .state("new", |s| s.initial().tool("lookup_order", |t| t.success("found")))
    ///     .state("found", |s| s.tool("refund", |t| t.success("paid")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let way = refund.path_to(refund.initial(), Kind::Tool, "refund").unwrap();
    /// assert_eq!(way.len(), 1);
    /// assert_eq!(way[0].artifact.name, "lookup_order");
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn path_to(&self, from: Position, kind: Kind, name: &str) -> Option<Vec<Hop<'_>>> {
        self.path_within(from, kind, name, usize::MAX)
    }

    /// As [`path_to`](Self::path_to), giving up after looking at so many edges.
    pub(crate) fn path_within(
        &self,
        from: Position,
        kind: Kind,
        name: &str,
        edges: usize,
    ) -> Option<Vec<Hop<'_>>> {
        let wanted = self.symbols.find(kind, name)?;
        if self.symbols[wanted].role == Role::Always {
            return Some(Vec::new());
        }
        if from.finished {
            return None;
        }
        let arrived = |state| self.binding_ids.contains_key(&(state, wanted));
        self.walk(from.state, edges, arrived, |hop| hop == Outcome::Success)
            .or_else(|| self.walk(from.state, edges, arrived, |_| true))
    }

    fn walk(
        &self,
        from: StateId,
        mut edges: usize,
        arrived: impl Fn(StateId) -> bool,
        may_take: impl Fn(Outcome) -> bool,
    ) -> Option<Vec<Hop<'_>>> {
        let mut came_by: HashMap<StateId, Option<(&Binding, Outcome)>> = HashMap::new();
        came_by.insert(from, None);
        let mut queue = VecDeque::from([from]);
        while let Some(state) = queue.pop_front() {
            if arrived(state) {
                return Some(retrace(&came_by, state));
            }
            for binding in self.bindings(state) {
                for (outcome, edge) in binding.written() {
                    edges = edges.checked_sub(1)?;
                    let next = self.after(edge);
                    if next.finished || !may_take(outcome) {
                        continue;
                    }
                    if let Entry::Vacant(entry) = came_by.entry(next.state) {
                        entry.insert(Some((binding, outcome)));
                        queue.push_back(next.state);
                    }
                }
            }
        }
        None
    }

    fn graph(&self) -> Graph {
        let arrow = |from, edge: Edge| Arrow {
            from,
            to: Some(edge.to),
            terminal: edge.terminal,
        };
        let arrows = self.bindings.iter().flat_map(|binding| {
            let from = binding.state();
            binding.written().map(move |(_, edge)| arrow(from, edge))
        });
        Graph::new(self.states.len(), arrows.collect())
    }
}

/// One call on the way to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop<'a> {
    /// What to call.
    pub artifact: &'a Artifact,
    /// How the call must end.
    pub outcome: Outcome,
    /// Where the instance is then.
    pub to: StateId,
}

/// Follows the walk back from where it arrived.
fn retrace<'a>(
    came_by: &HashMap<StateId, Option<(&'a Binding, Outcome)>>,
    mut to: StateId,
) -> Vec<Hop<'a>> {
    let mut hops = Vec::new();
    while let Some((binding, outcome)) = came_by[&to] {
        hops.push(Hop {
            artifact: binding.artifact(),
            outcome,
            to,
        });
        to = binding.state();
    }
    hops.reverse();
    hops
}

/// The bare edges of an automaton that may not be valid.
///
/// An edge whose target nobody defined could lead anywhere. It counts as leading to every state
/// and to an end, so that whatever is found stays true however the author mends it.
#[derive(Debug)]
pub(crate) struct Graph {
    states: usize,
    arrows: Vec<Arrow>,
}

/// A bare edge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrow {
    pub(crate) from: StateId,
    /// Nothing where nobody defined the target.
    pub(crate) to: Option<StateId>,
    pub(crate) terminal: bool,
}

/// Where instances can get to.
#[derive(Debug)]
pub(crate) struct Reach {
    /// By state: an instance can be in it and go on.
    pub(crate) lived: Vec<bool>,
    /// By state: an instance can end in it.
    pub(crate) ended: Vec<bool>,
    /// An instance can get to a target that nobody defined.
    pub(crate) astray: bool,
}

impl Graph {
    pub(crate) fn new(states: usize, arrows: Vec<Arrow>) -> Self {
        Self { states, arrows }
    }

    /// Where instances can get to from these states.
    pub(crate) fn reach(&self, starts: &[StateId]) -> Reach {
        let leaving = Index::new(self.states, &self.arrows, |arrow| Some(arrow.from));
        let mut reach = Reach {
            lived: vec![false; self.states],
            ended: vec![false; self.states],
            astray: false,
        };
        let mut queue = Vec::new();
        for &start in starts {
            visit(&mut reach.lived, &mut queue, start);
        }
        while let Some(state) = queue.pop() {
            for arrow in leaving.of(state).map(|at| self.arrows[at]) {
                match arrow.to {
                    None => reach.astray = true,
                    Some(to) if arrow.terminal => reach.ended[to.index()] = true,
                    Some(to) => visit(&mut reach.lived, &mut queue, to),
                }
            }
        }
        reach
    }

    /// By state: whether an instance that is in it can reach an end.
    pub(crate) fn can_end(&self) -> Vec<bool> {
        let goes_on = |arrow: &Arrow| arrow.to.filter(|_| !arrow.terminal);
        let entering = Index::new(self.states, &self.arrows, goes_on);
        let mut can_end = vec![false; self.states];
        let mut queue = Vec::new();
        for arrow in self.arrows.iter().filter(|arrow| goes_on(arrow).is_none()) {
            visit(&mut can_end, &mut queue, arrow.from);
        }
        while let Some(state) = queue.pop() {
            for at in entering.of(state) {
                visit(&mut can_end, &mut queue, self.arrows[at].from);
            }
        }
        can_end
    }
}

fn visit(seen: &mut [bool], queue: &mut Vec<StateId>, state: StateId) {
    if !std::mem::replace(&mut seen[state.index()], true) {
        queue.push(state);
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
    use crate::{Finish, Settings, end};

    fn names(workflow: &Workflow, states: &[StateId]) -> Vec<String> {
        let name = |&state| workflow.state_name(state).to_owned();
        states.iter().map(name).collect()
    }

    fn way(workflow: &Workflow, from: &str, tool: &str) -> Option<String> {
        let from = Position {
            state: workflow.state_id(from).unwrap(),
            finished: false,
        };
        let hops = workflow.path_to(from, Kind::Tool, tool)?;
        let told: Vec<_> = hops
            .iter()
            .map(|hop| {
                let to = workflow.state_name(hop.to);
                format!("{} {} {to}", hop.artifact.name, hop.outcome)
            })
            .collect();
        Some(told.join(", "))
    }

    /// a → b → c → end; a fails straight to c; d is written but nobody goes there.
    fn line() -> Workflow {
        Workflow::builder("line")
            .state("a", |s| {
                s.initial().tool("ab", |t| t.success("b").error("c"))
            })
            .state("b", |s| s.tool("bc", |t| t.success("c").cancelled("pit")))
            .state("c", |s| s.tool("fin", |t| t.success(end("over"))))
            .state("d", |s| s.tool("lost", |t| t.success("a")))
            .build()
            .unwrap()
    }

    #[test]
    fn what_only_unreachable_states_lead_to_is_unreachable() {
        let line = line();
        assert_eq!(
            names(&line, &line.reachable()),
            ["a", "b", "c", "pit", "over"]
        );
        assert_eq!(names(&line, &line.traps()), ["pit"]);
    }

    #[test]
    fn success_is_preferred_to_a_shorter_way() {
        assert_eq!(
            way(&line(), "a", "fin").unwrap(),
            "ab success b, bc success c"
        );
    }

    #[test]
    fn another_outcome_is_taken_where_success_does_not_lead_there() {
        let flow = Workflow::builder("retry")
            .state("a", |s| {
                s.initial()
                    .tool("try", |t| t.success(end("done")).error("mend"))
            })
            .state("mend", |s| s.tool("fix", |t| t.success("a")))
            .build()
            .unwrap();
        assert_eq!(way(&flow, "a", "fix").unwrap(), "try error mend");
    }

    #[test]
    fn the_way_leads_on_from_the_start_only_where_the_end_restarts() {
        let flow = |finish| {
            Workflow::builder("round")
                .settings(Settings {
                    finish,
                    ..Settings::default()
                })
                .state("a", |s| s.initial().tool("ab", |t| t.success("b")))
                .state("b", |s| s.tool("fin", |t| t.success(end("over"))))
                .state("over", |s| s.tool("more", |t| t.success("a")))
                .build()
                .unwrap()
        };
        let restarts = flow(Finish::Restart);
        assert_eq!(way(&restarts, "b", "ab").unwrap(), "fin success a");
        assert_eq!(way(&flow(Finish::Stay), "b", "ab"), None);
        // What is bound where the instance stays finished is never callable either.
        assert_eq!(way(&flow(Finish::Stay), "b", "more"), None);
    }

    #[test]
    fn what_is_callable_has_an_empty_way_and_what_is_nowhere_has_none() {
        let flow = Workflow::builder("flow")
            .state("a", |s| s.initial().tool("fin", |t| t.success(end("over"))))
            .always_tool("search")
            .build()
            .unwrap();
        assert_eq!(way(&flow, "a", "fin").unwrap(), "");
        assert_eq!(way(&flow, "a", "search").unwrap(), "");
        assert_eq!(way(&flow, "a", "nope"), None);
        let finished = Position {
            finished: true,
            ..flow.initial()
        };
        assert_eq!(flow.path_to(finished, Kind::Tool, "fin"), None);
    }

    #[test]
    fn a_walk_gives_up_when_its_edges_are_spent() {
        let line = line();
        let within = |edges| line.path_within(line.initial(), Kind::Tool, "fin", edges);
        assert!(within(4).is_some());
        // Two edges leave each of the states on the successful way: one short is too few.
        assert!(within(3).is_none());
    }

    #[test]
    fn an_undefined_target_could_be_anywhere() {
        let (a, b) = (StateId::at(0), StateId::at(1));
        let arrow = Arrow {
            from: a,
            to: None,
            terminal: false,
        };
        let graph = Graph::new(2, vec![arrow]);
        assert!(graph.reach(&[a]).astray);
        assert!(!graph.reach(&[b]).astray);
        assert_eq!(graph.can_end(), [true, false]);
    }
}
