//! Ways through a workflow that take every edge there is.

use crate::{
    Cause, StateId, Workflow,
    analysis::{Leg, Node},
    intern::EdgeId,
};
use std::collections::{HashMap, VecDeque};

/// How many legs all ways may have together. A workflow for which that is not enough is not
/// tested by walking it.
const MOST_LEGS: usize = 100_000;

/// How many edges the search for them may look at.
const SEARCH: usize = 2_000_000;

/// Ways from the initial state that together take every edge that can be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// The ways; each begins anew, and ends where the workflow ends or nothing new is near.
    pub paths: Vec<Vec<Leg>>,
    /// The edges that no way takes: nothing leads to them, or the search was given up before.
    pub missed: Vec<EdgeId>,
    /// The search was given up before all was found.
    pub cut_short: bool,
}

impl Workflow {
    /// Finds ways that together take every edge: the base of generated tests.
    ///
    /// A guard is taken to be true where a way needs it, so whoever plays one says which
    /// [edge](Self::take) it takes. Visits are counted as in a real run.
    ///
    /// ```
    /// use interlock_workflow::Workflow;
    ///
    /// let refund = Workflow::builder("refund")
    ///     .state("new", |s| s.initial().tool("lookup", |t| t.success("found")))
    ///     .state("found", |s| s.tool("refund", |t| t.success("paid").error("new")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let coverage = refund.covering_paths();
    /// assert_eq!(coverage.paths.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    /// assert!(coverage.missed.is_empty());
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn covering_paths(&self) -> Coverage {
        let mut search = Search {
            workflow: self,
            taken: vec![false; self.edges.len()],
            legs: MOST_LEGS,
            edges: SEARCH,
        };
        let mut paths = Vec::new();
        while let Some(path) = search.path() {
            paths.push(path);
        }
        let cut_short = search.legs == 0 || search.edges == 0;
        let missed = self.edges().map(|(id, _)| id);
        let missed = missed.filter(|id| !search.taken[id.index()]).collect();
        Coverage {
            paths,
            missed,
            cut_short,
        }
    }
}

struct Search<'a> {
    workflow: &'a Workflow,
    /// By edge.
    taken: Vec<bool>,
    /// What may still be spent.
    legs: usize,
    edges: usize,
}

impl Search<'_> {
    /// A way that takes at least one edge that no way before it took.
    fn path(&mut self) -> Option<Vec<Leg>> {
        let mut at = Node::at(self.workflow.initial);
        let mut visits = HashMap::from([(at.state, 1)]);
        let mut path = Vec::new();
        while let Some(way) = self.way_to_something_new(at, &visits) {
            let mut ended = false;
            for leg in way {
                let Some(left) = self.legs.checked_sub(1) else {
                    return (!path.is_empty()).then_some(path);
                };
                self.legs = left;
                path.push(leg);
                if let Leg::Edge(edge) = leg {
                    self.taken[edge.index()] = true;
                }
                ended = ends(self.workflow, leg);
                let Some(next) = self.workflow.next(at, leg) else {
                    return Some(path);
                };
                if ended {
                    visits.clear();
                }
                if enters(self.workflow, leg) {
                    *visits.entry(next.state).or_insert(0) += 1;
                }
                at = next;
            }
            if ended {
                return Some(path);
            }
        }
        (!path.is_empty()).then_some(path)
    }

    /// The shortest way from here whose last leg is an edge that was not taken yet.
    fn way_to_something_new(
        &mut self,
        from: Node,
        visits: &HashMap<StateId, u32>,
    ) -> Option<Vec<Leg>> {
        let mut came_by = CameBy::from([(from, None)]);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            let on_the_way = entered(self.workflow, &came_by, node);
            let visits = visits.get(&node.state).copied().unwrap_or_default() + on_the_way;
            let most = self.workflow.state(node.state).max_visits();
            let full = most.is_some_and(|most| visits > most);
            for leg in self.workflow.legs(node) {
                self.edges = self.edges.checked_sub(1)?;
                if full && is_call(self.workflow, leg) {
                    continue;
                }
                let is_new = matches!(leg, Leg::Edge(edge) if !self.taken[edge.index()]);
                if is_new {
                    return Some(retrace(&came_by, node, leg));
                }
                // Past an end a new way is shorter, unless only an end makes the beginning ask.
                let goes_on = |next: &Node| next.asking || !ends(self.workflow, leg);
                if let Some(next) = self.workflow.next(node, leg).filter(goes_on)
                    && !came_by.contains_key(&next)
                {
                    came_by.insert(next, Some((node, leg)));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// How each node was come by: from where, and how.
type CameBy = HashMap<Node, Option<(Node, Leg)>>;

fn retrace(came_by: &CameBy, mut node: Node, last: Leg) -> Vec<Leg> {
    let mut legs = vec![last];
    while let Some((before, leg)) = came_by[&node] {
        legs.push(leg);
        node = before;
    }
    legs.reverse();
    legs
}

/// How often the way to a node enters its state. Only states with a limit are worth the walk.
fn entered(workflow: &Workflow, came_by: &CameBy, to: Node) -> u32 {
    if workflow.state(to.state).max_visits().is_none() {
        return 0;
    }
    let (mut count, mut node) = (0, to);
    while let Some((before, leg)) = came_by[&node] {
        count += u32::from(node.state == to.state && enters(workflow, leg));
        node = before;
    }
    count
}

fn is_call(workflow: &Workflow, leg: Leg) -> bool {
    match leg {
        Leg::Stay(_) => false,
        Leg::Edge(edge) => match workflow.edge(edge).cause {
            Cause::Call { .. } => true,
            Cause::Time { .. } | Cause::Sampling { .. } => false,
        },
    }
}

fn ends(workflow: &Workflow, leg: Leg) -> bool {
    match leg {
        Leg::Stay(_) => false,
        Leg::Edge(edge) => workflow.edge(edge).terminal,
    }
}

fn enters(workflow: &Workflow, leg: Leg) -> bool {
    match leg {
        Leg::Stay(_) => false,
        Leg::Edge(edge) => !workflow.edge(edge).stays(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Kind, Pass, end};
    use serde_json::Value::Null;
    use std::time::Duration;

    /// One visit is by a call, which asks; the next is by time, and too many.
    #[test]
    fn a_state_that_asks_is_visited_as_any_other() {
        let flow = Workflow::builder("twice")
            .state("i", |s| {
                s.initial().tool("go", |t| t.success("a").error("b"))
            })
            .state("a", |s| {
                s.max_visits(1)
                    .sampling(9, |m| m.user("?").success("b").error("b"))
                    .tool("t", |t| t.success(end("z")))
            })
            .state("b", |s| s.after(Duration::from_secs(1), "a"))
            .build()
            .unwrap();
        for path in flow.covering_paths().paths {
            let mut instance = flow.start(0);
            for leg in path {
                let Leg::Edge(id) = leg else { continue };
                if let Cause::Call { artifact, outcome } = &flow.edge(id).cause {
                    let call = Call {
                        kind: Kind::Tool,
                        name: &artifact.name,
                        args: &Null,
                        principal: &Null,
                    };
                    let pass = flow.judge(&instance, &call);
                    assert!(matches!(pass, Ok(Pass::Bound(_))), "{artifact} {outcome}");
                }
                let end = crate::End::from(crate::Outcome::Success);
                let step = flow.take(&instance, id, &end);
                instance.apply(&flow, &step, 0);
            }
        }
        assert_eq!(flow.covering_paths().missed, []);
    }
}
