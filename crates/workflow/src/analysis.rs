//! Questions about the whole graph: what can be reached, what can end, what is the way there.

use crate::{
    Artifact, Cause, Edge, Finish, Kind, Outcome, Position, StateId, Workflow,
    graph::{self, Arrow, Asks, Graph},
    intern::{EdgeId, Role},
    validate::Via,
};
use std::collections::{HashMap, HashSet, VecDeque};

impl Workflow {
    /// The states that an instance can be in or end in, in the order in which they were written.
    ///
    /// Guards are taken to be true or false as need be.
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
        let reach = self.graph().reach(&[self.initial]);
        let states = self.states();
        states
            .filter(|state| reach.trapped[state.index()])
            .collect()
    }

    /// The traps from which an instance can go round for ever, unlike those where it gets stuck.
    pub fn livelocks(&self) -> Vec<StateId> {
        let mut trapped = vec![false; self.states.len()];
        for trap in self.traps() {
            trapped[trap.index()] = true;
        }
        let between = |edge: &&Edge| {
            let both = trapped[edge.from.index()] && trapped[edge.to.index()];
            both && edge.from != edge.to && !edge.terminal
        };
        let edges: Vec<_> = self.edges.iter().filter(between).collect();
        let edges: Vec<_> = edges.iter().map(|edge| (edge.from, edge.to)).collect();
        let round = graph::leads_round(self.states.len(), &edges);
        self.states().filter(|state| round[state.index()]).collect()
    }

    /// How the list of one kind changes between two positions: what appears, and what is gone.
    ///
    /// ```
    /// use interlock_workflow::{Kind, Position, Workflow};
    ///
    /// let refund = Workflow::builder("refund")
    ///     .state("new", |s| s.initial().tool("lookup", |t| t.success("found")))
    ///     .state("found", |s| s.tool("refund", |t| t.success("paid")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let found = Position::from(refund.state_id("found").unwrap());
    /// let difference = refund.difference(refund.initial(), found, Kind::Tool);
    /// assert_eq!(difference.appears, ["refund"]);
    /// assert_eq!(difference.gone, ["lookup"]);
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn difference(&self, from: Position, to: Position, kind: Kind) -> Difference<'_> {
        if self.list(from, kind) == self.list(to, kind) {
            return Difference::default();
        }
        let only = |there, here| {
            let here: HashSet<_> = self.visible(here, kind).collect();
            self.visible(there, kind)
                .filter(|name| !here.contains(name))
                .collect()
        };
        Difference {
            appears: only(to, from),
            gone: only(from, to),
        }
    }

    /// The shortest way to where an artifact is callable, empty if it is callable already.
    ///
    /// It counts calls. A way on which every call succeeds is preferred to a shorter one that
    /// needs a failure. The way may lead through an end and on from the initial state, where the
    /// workflow restarts. Nobody waits for a timer on it, and guards are taken to be true.
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
        self.path_within(from, (kind, name), usize::MAX, self.settings().finish)
    }

    /// As [`path_to`](Self::path_to), giving up after looking at so many edges. No way leads through
    /// an end after which an instance stays.
    pub(crate) fn path_within(
        &self,
        from: Position,
        (kind, name): (Kind, &str),
        edges: usize,
        finish: Finish,
    ) -> Option<Vec<Hop<'_>>> {
        let wanted = self.symbol(from, kind, name)?;
        if self.symbols[wanted].role == Role::Always {
            return Some(Vec::new());
        }
        if !from.is_open() {
            return None;
        }
        let arrived = |state| self.binding_ids.contains_key(&(state, wanted));
        let goes_on = |leg| match (finish, leg) {
            (Finish::Stay, Leg::Edge(edge)) => !self.edge(edge).terminal,
            (Finish::Stay, Leg::Stay(_)) | (Finish::Restart, _) => true,
        };
        let succeeds = |leg, outcome| goes_on(leg) && outcome == Outcome::Success;
        self.walk(from.state, edges, arrived, succeeds)
            .or_else(|| self.walk(from.state, edges, arrived, |leg, _| goes_on(leg)))
    }

    /// A search in which a call costs one, and an answer of the client's model nothing.
    fn walk(
        &self,
        from: StateId,
        mut edges: usize,
        arrived: impl Fn(StateId) -> bool,
        may_take: impl Fn(Leg, Outcome) -> bool,
    ) -> Option<Vec<Hop<'_>>> {
        let start = Node::at(from);
        let mut came_by = HashMap::from([(start, (0_usize, None))]);
        let mut queue = VecDeque::from([(0, start)]);
        while let Some((calls, node)) = queue.pop_front() {
            if came_by[&node].0 < calls {
                continue;
            }
            if !node.asking && arrived(node.state) {
                return Some(self.retrace(&came_by, node));
            }
            for leg in self.legs(node) {
                edges = edges.checked_sub(1)?;
                let (outcome, cost) = match self.outcome_of(leg) {
                    Some(told) => told,
                    None => continue,
                };
                let Some(next) = self.next(node, leg).filter(|_| may_take(leg, outcome)) else {
                    continue;
                };
                let calls = calls + cost;
                let known = came_by.get(&next).map(|(known, _)| *known);
                if known.is_none_or(|known| calls < known) {
                    came_by.insert(next, (calls, Some((node, leg))));
                    match cost {
                        0 => queue.push_front((calls, next)),
                        _ => queue.push_back((calls, next)),
                    }
                }
            }
        }
        None
    }

    /// How a leg ends and how many calls it takes; nothing if it only takes time.
    fn outcome_of(&self, leg: Leg) -> Option<(Outcome, usize)> {
        match leg {
            Leg::Stay(outcome) => Some((outcome, 0)),
            Leg::Edge(edge) => match self.edge(edge).cause {
                Cause::Call { outcome, .. } => Some((outcome, 1)),
                Cause::Sampling { outcome } => Some((outcome, 0)),
                Cause::Time { .. } => None,
            },
        }
    }

    /// Follows the walk back from where it arrived.
    fn retrace(&self, came_by: &CameBy, arrived: Node) -> Vec<Hop<'_>> {
        let mut hops = Vec::new();
        let mut node = arrived;
        // Where answers of the client's model lead after a call is where the call leads.
        let mut to = arrived.state;
        while let Some((before, leg)) = came_by[&node].1 {
            if let Leg::Edge(edge) = leg
                && let Cause::Call { artifact, outcome } = &self.edge(edge).cause
            {
                hops.push(Hop {
                    artifact,
                    outcome: *outcome,
                    to,
                });
                to = before.state;
            }
            node = before;
        }
        hops.reverse();
        hops
    }

    /// What can happen to an instance at this node.
    pub(crate) fn legs(&self, node: Node) -> impl Iterator<Item = Leg> {
        let state = self.state(node.state);
        let timers = state.rest.timers[..state.rest.fire].get(node.fired);
        let timers = timers.map(|timer| timer.edges.clone()).unwrap_or_default();
        let edges = self
            .edges_from(node.state)
            .filter(move |(id, edge)| match edge.cause {
                Cause::Sampling { .. } => node.asking,
                Cause::Call { .. } => !node.asking,
                Cause::Time { .. } => !node.asking && timers.contains(&id.index()),
            });
        let sampling = self.state(node.state).sampling();
        let sampling = sampling.filter(|_| node.asking);
        let stays = sampling.into_iter().flat_map(|sampling| {
            let success = (Outcome::Success, sampling.success.is_empty());
            let error = (Outcome::Error, sampling.error.is_empty());
            [success, error]
        });
        let stays = stays.filter(|(_, nothing)| *nothing);
        edges
            .map(|(id, _)| Leg::Edge(id))
            .chain(stays.map(|(outcome, _)| Leg::Stay(outcome)))
    }

    /// Where a leg leads; nowhere if the instance is finished then.
    pub(crate) fn next(&self, node: Node, leg: Leg) -> Option<Node> {
        let edge = match leg {
            Leg::Stay(_) => {
                return Some(Node {
                    asking: false,
                    ..node
                });
            }
            Leg::Edge(edge) => self.edge(edge),
        };
        let after = self.after(edge);
        let fired = match (edge.stays(), &edge.cause) {
            (false, _) => 0,
            (true, Cause::Time { .. }) => node.fired + 1,
            (true, Cause::Call { .. } | Cause::Sampling { .. }) => node.fired,
        };
        (!after.finished).then(|| Node {
            state: after.state,
            asking: self.asks(edge, after.state),
            fired,
        })
    }

    /// Whether taking the edge makes the state it comes to ask the client's model: only where a
    /// client still waits for its call.
    pub(crate) fn asks(&self, edge: &Edge, state: StateId) -> bool {
        let waits = match edge.cause {
            Cause::Call { outcome, .. } => client_waits(outcome),
            Cause::Sampling { .. } => true,
            Cause::Time { .. } => false,
        };
        waits && !edge.stays() && self.state(state).sampling().is_some()
    }

    fn graph(&self) -> Graph {
        let asks: Vec<_> = self
            .states
            .iter()
            .map(|state| match state.sampling() {
                None => Asks::Nothing,
                Some(asked) if asked.success.is_empty() || asked.error.is_empty() => Asks::MayStay,
                Some(_) => Asks::Always,
            })
            .collect();
        let never = self
            .states
            .iter()
            .flat_map(|state| &state.rest.timers[state.rest.fire..]);
        let never: HashSet<_> = never.flat_map(|timer| timer.edges.clone()).collect();
        let fires = |(at, _): &(usize, &Edge)| !never.contains(at);
        let edges = self.edges.iter().enumerate().filter(fires);
        let arrows = edges.map(|(_, edge)| Arrow {
            from: edge.from,
            to: Some(edge.to),
            terminal: edge.terminal,
            via: match edge.cause {
                Cause::Call { outcome, .. } => Via::of_call(outcome),
                Cause::Time { .. } => Via::Time,
                Cause::Sampling { .. } => Via::Sampling,
            },
        });
        Graph::new(&asks, arrows.collect(), self.settings.restart(self.initial))
    }
}

/// Whether the client still waits for a call that ended so.
pub(crate) fn client_waits(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Success | Outcome::Error | Outcome::Timeout => true,
        Outcome::Cancelled | Outcome::Unknown => false,
    }
}

/// How each node was come by: after how many calls, from where, and how.
type CameBy = HashMap<Node, (usize, Option<(Node, Leg)>)>;

/// Where a walk is: in a state, or in one whose question to the client's model is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) state: StateId,
    pub(crate) asking: bool,
    /// How many timers of the state have fired.
    pub(crate) fired: usize,
}

impl Node {
    /// Where a walk begins.
    pub(crate) fn at(state: StateId) -> Self {
        Self {
            state,
            asking: false,
            fired: 0,
        }
    }
}

/// One thing that happens on a way through a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leg {
    /// An edge is taken.
    Edge(EdgeId),
    /// The client's model answers, or does not, and nothing is written for that.
    Stay(Outcome),
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

/// How a list differs from what it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference<'a> {
    /// What is new in it.
    pub appears: Vec<&'a str>,
    /// What is not in it any more.
    pub gone: Vec<&'a str>,
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
        let from = Position::from(workflow.state_id(from).unwrap());
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
    fn a_livelock_goes_round_and_a_dead_end_does_not() {
        let flow = Workflow::builder("traps")
            .state("a", |s| {
                s.initial()
                    .tool("end", |t| t.success(end("a")))
                    .tool("round", |t| t.success("x").error("hole"))
            })
            .state("x", |s| s.tool("on", |t| t.success("y").error("hole")))
            .state("y", |s| s.tool("back", |t| t.success("x")))
            .state("hole", |s| {
                s.tool("dig", |t| t.success("hole").error("deep"))
            })
            .build()
            .unwrap();
        assert_eq!(names(&flow, &flow.traps()), ["x", "y", "hole", "deep"]);
        assert_eq!(names(&flow, &flow.livelocks()), ["x", "y"]);
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
        let within = |edges| {
            let fin = (Kind::Tool, "fin");
            line.path_within(line.initial(), fin, edges, Finish::Restart)
        };
        assert!(within(4).is_some());
        // Two edges leave each of the states on the successful way: one short is too few.
        assert!(within(3).is_none());
    }
}
