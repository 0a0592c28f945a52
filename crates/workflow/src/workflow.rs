//! A workflow that is known to be valid.
//!
//! One can only be had from [`Draft::build`](crate::Draft::build), so it has one initial state,
//! known targets, sound guards and a reachable end. States, artifacts, edges and lists are
//! numbered: the gate looks up and compares small numbers.

use crate::{
    Binding, BindingId, Catalogue, Edge, Finding, Finish, Kind, Outcome, Position, Settings, State,
    StateId, catalogue,
    fingerprint::Fingerprint,
    intern::{EdgeId, ListId, Lists, SymbolId, Symbols},
    samples,
};
use foldhash::fast::RandomState;
use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

/// A deterministic automaton over calls of tools, resources and prompts.
///
/// ```
/// use interlock_workflow::{Kind, Workflow};
///
/// let refund = Workflow::builder("refund")
///     .state("new", |s| s.initial().tool("lookup_order", |t| t.success("found")))
///     .state("found", |s| s.tool("refund", |t| t.success("paid")))
///     .state("paid", |s| s.terminal())
///     .always_tool("search")
///     .build()?;
///
/// let start = refund.initial();
/// assert_eq!(refund.state_name(start.state), "new");
/// let tools: Vec<_> = refund.visible(start, Kind::Tool).collect();
/// assert_eq!(tools, ["lookup_order", "search"]);
/// # Ok::<(), interlock_workflow::Invalid>(())
/// ```
#[derive(Clone)]
pub struct Workflow {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) settings: Settings,
    /// As written, then the targets that nobody defined in the order in which they were named.
    pub(crate) states: Vec<State>,
    pub(crate) state_ids: HashMap<Arc<str>, StateId>,
    pub(crate) initial: StateId,
    /// Grouped by state; within a state as written.
    pub(crate) bindings: Vec<Binding>,
    pub(crate) binding_ids: HashMap<(StateId, SymbolId), usize, RandomState>,
    /// What each of the bindings binds.
    pub(crate) bound: Vec<SymbolId>,
    /// Grouped by the state they lead away from.
    pub(crate) edges: Vec<Edge>,
    /// Where each of the edges leads.
    pub(crate) targets: Vec<StateId>,
    /// What is told of instances, one state after the other.
    pub(crate) standings: String,
    pub(crate) symbols: Symbols,
    /// What each list holds besides what is always callable.
    pub(crate) lists: Lists,
    pub(crate) always: [Vec<SymbolId>; 3],
    pub(crate) always_everything: bool,
    pub(crate) warnings: Vec<Finding>,
    pub(crate) fingerprint: Fingerprint,
}

impl Workflow {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// How it is served.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Where a new instance stands.
    pub fn initial(&self) -> Position {
        Position::from(self.initial)
    }

    /// All states, in the order in which they were written.
    pub fn states(&self) -> impl ExactSizeIterator<Item = StateId> + use<> {
        (0..self.states.len()).map(StateId::at)
    }

    /// What is known about a state.
    ///
    /// # Panics
    ///
    /// If the state belongs to another workflow that has more of them.
    pub fn state(&self, state: StateId) -> &State {
        &self.states[state.index()]
    }

    /// What a state is called.
    ///
    /// # Panics
    ///
    /// If the state belongs to another workflow that has more of them.
    pub fn state_name(&self, state: StateId) -> &str {
        &self.state(state).rest.name
    }

    /// What is told of an instance that stands there, as members of a JSON object: `state`, what the
    /// state is called, and `next`, the names of what can be called in it, guards aside.
    ///
    /// # Panics
    ///
    /// If the state belongs to another workflow that has more of them.
    pub fn standing(&self, state: StateId) -> &str {
        &self.standings[self.state(state).standing.clone()]
    }

    /// The state of this name.
    pub fn state_id(&self, name: &str) -> Option<StateId> {
        self.state_ids.get(name).copied()
    }

    /// What is bound in a state, in the order in which it was written.
    ///
    /// # Panics
    ///
    /// If the state belongs to another workflow that has more of them.
    pub fn bindings(&self, state: StateId) -> &[Binding] {
        &self.bindings[self.state(state).bindings.clone()]
    }

    /// What is bound there.
    ///
    /// # Panics
    ///
    /// If it belongs to another workflow that has more of them.
    pub fn binding(&self, binding: BindingId) -> &Binding {
        &self.bindings[binding.index()]
    }

    /// Every edge that somebody wrote, grouped by the state it leads away from.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = (EdgeId, &Edge)> {
        let numbered = self.edges.iter().enumerate();
        numbered.map(|(at, edge)| (EdgeId::at(at), edge))
    }

    /// The edge of this number.
    ///
    /// # Panics
    ///
    /// If it belongs to another workflow that has more of them.
    pub fn edge(&self, edge: EdgeId) -> &Edge {
        &self.edges[edge.index()]
    }

    /// The edges that lead away from a state: of its bindings, its timers and its sampling.
    ///
    /// # Panics
    ///
    /// If the state belongs to another workflow that has more of them.
    pub fn edges_from(&self, state: StateId) -> impl Iterator<Item = (EdgeId, &Edge)> {
        self.numbered(self.state(state).rest.edges.clone())
    }

    /// Where an outcome can lead, in the order in which it is tried; nowhere if it stays.
    pub fn alternatives(
        &self,
        binding: &Binding,
        outcome: Outcome,
    ) -> impl Iterator<Item = (EdgeId, &Edge)> {
        self.numbered(binding.rest.routes[outcome.index()].edges.clone())
    }

    pub(crate) fn numbered(&self, range: Range<usize>) -> impl Iterator<Item = (EdgeId, &Edge)> {
        let edges = self.edges.get(range.clone()).unwrap_or_default();
        range.map(EdgeId::at).zip(edges)
    }

    /// What is callable here: what the state binds, as written, then what is always callable.
    ///
    /// A finished or blocked instance has only the latter. What a server has and the workflow does not name
    /// is not among it, even where [`always_everything`](Self::always_everything) admits it.
    pub fn visible(&self, at: Position, kind: Kind) -> Visible<'_> {
        Visible {
            symbols: &self.symbols,
            own: self.lists.of(self.list(at, kind)).iter(),
            always: self.always[kind.index()].iter(),
        }
    }

    /// What is callable in every state.
    pub(crate) fn visible_always(&self, kind: Kind) -> impl Iterator<Item = &str> {
        let always = self.always[kind.index()].iter();
        always.map(|symbol| &*self.symbols[*symbol].name)
    }

    /// A number for what is [`visible`](Self::visible) here: equal numbers, equal lists.
    ///
    /// It lets a server keep one prepared answer for each list instead of one for each state.
    pub fn list(&self, at: Position, kind: Kind) -> ListId {
        match at.is_open() {
            true => self.state(at.state).lists[kind.index()],
            false => ListId::empty(kind),
        }
    }

    /// How many different lists there are: every [`ListId::index`] is below it.
    pub fn list_count(&self) -> usize {
        self.lists.count()
    }

    /// The kinds whose visible list changes between two positions.
    pub fn lists_differ(&self, a: Position, b: Position) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |&kind| self.list(a, kind) != self.list(b, kind))
    }

    /// Everything of one kind that the workflow names, in the order in which it first does.
    pub fn artifacts(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.symbols
            .iter()
            .filter(move |symbol| symbol.kind == kind)
            .map(|symbol| &*symbol.name)
    }

    /// Whether what the workflow does not name is callable in every state.
    pub fn always_everything(&self) -> bool {
        self.always_everything
    }

    /// What its author should look at.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Compares what the workflow names with what a server has.
    ///
    /// ```
    /// use interlock_workflow::{Catalogue, Kind, Workflow, end};
    ///
    /// let flow = Workflow::builder("hello")
    ///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("done"))))
    ///     .build()?;
    /// let findings = flow.check(&Catalogue::closed().with(Kind::Tool, "great"));
    /// assert_eq!(findings[0].problem.to_string(), "there is no tool \"greet\"");
    /// assert_eq!(findings[0].problem.help().unwrap(), "did you mean \"great\"?");
    /// assert_eq!(findings[1].problem.code(), "bound-nowhere");
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn check(&self, catalogue: &Catalogue) -> Vec<Finding> {
        let mut findings = catalogue::compare(&self.symbols, self.always_everything, catalogue);
        findings.extend(samples::check(self, catalogue));
        findings
    }

    /// A number for the automaton: the same for the same one in any process on any machine.
    ///
    /// It covers what decides where an instance can go (names, edges, what is always callable,
    /// what happens at the end) and neither descriptions, deadlines, effects and deployment
    /// settings nor the order in which things were written. It is no protection against somebody
    /// who looks for two workflows with the same number.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Where an instance stands once it has followed an edge.
    pub(crate) fn after(&self, edge: &Edge) -> Position {
        self.after_coming_to(edge.to, edge.terminal)
    }

    /// Where an instance stands once it has come to a state, and perhaps to its end.
    pub(crate) fn after_coming_to(&self, state: StateId, terminal: bool) -> Position {
        match terminal.then(|| self.settings.after_end()) {
            None => Position::from(state),
            Some(Finish::Restart) => self.initial(),
            Some(Finish::Stay) => Position {
                finished: true,
                ..state.into()
            },
        }
    }
}

/// Its name and those of its states; the rest can be long.
impl fmt::Debug for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = self.states.iter().map(State::name);
        f.debug_struct("Workflow")
            .field("name", &self.name)
            .field(
                "states",
                &fmt::from_fn(|f| f.debug_list().entries(states.clone()).finish()),
            )
            .finish_non_exhaustive()
    }
}

/// The names in one list, in the order in which they are shown.
#[derive(Clone, Debug)]
pub struct Visible<'a> {
    symbols: &'a Symbols,
    own: std::slice::Iter<'a, SymbolId>,
    always: std::slice::Iter<'a, SymbolId>,
}

impl<'a> Iterator for Visible<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let id = self.own.next().or_else(|| self.always.next())?;
        Some(&self.symbols[*id].name)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.own.len() + self.always.len();
        (left, Some(left))
    }
}

impl ExactSizeIterator for Visible<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{end, to};

    fn shop() -> Workflow {
        Workflow::builder("shop")
            .description("buys things")
            .state("new", |s| {
                s.initial()
                    .tool("z_pick", |t| t.success("full"))
                    .resource("note://rules", |r| r.success("new"))
                    .tool("a_look", |t| t.success("new"))
            })
            .state("full", |s| {
                s.description("something is in the basket")
                    .tool("pay", |t| t.success("paid").error("full"))
                    .resource("note://rules", |r| r.success("full"))
            })
            .state("paid", |s| s.terminal())
            .state("twin", |s| {
                s.tool("z_pick", |t| t.success("full"))
                    .tool("a_look", |t| t.success("new"))
            })
            .always_tool("search")
            .always_tool("help")
            .build()
            .unwrap()
    }

    fn at(workflow: &Workflow, state: &str) -> Position {
        Position::from(workflow.state_id(state).unwrap())
    }

    #[test]
    fn a_workflow_tells_what_it_was_told() {
        let shop = shop();
        assert_eq!(shop.name(), "shop");
        assert_eq!(shop.description(), Some("buys things"));
        assert_eq!(*shop.settings(), Settings::default());
        let names: Vec<_> = shop.states().map(|id| shop.state_name(id)).collect();
        assert_eq!(names, ["new", "full", "paid", "twin"]);
        let full = shop.state(shop.state_id("full").unwrap());
        assert_eq!(full.description(), Some("something is in the basket"));
        assert!(!full.is_terminal());
        assert!(shop.state(shop.state_id("paid").unwrap()).is_terminal());
        assert_eq!(shop.state_id("nowhere"), None);
        let tools: Vec<_> = shop.artifacts(Kind::Tool).collect();
        assert_eq!(tools, ["z_pick", "a_look", "pay", "search", "help"]);
    }

    #[test]
    fn lists_are_as_written_and_then_what_is_always_callable() {
        let shop = shop();
        let tools = shop.visible(shop.initial(), Kind::Tool);
        assert_eq!(tools.len(), 4);
        assert!(tools.eq(["z_pick", "a_look", "search", "help"]));
        assert!(shop.visible(shop.initial(), Kind::Prompt).next().is_none());
    }

    #[test]
    fn a_finished_instance_sees_only_what_is_always_callable() {
        let shop = shop();
        let finished = Position {
            finished: true,
            ..shop.initial()
        };
        assert!(shop.visible(finished, Kind::Tool).eq(["search", "help"]));
        assert_eq!(shop.visible(finished, Kind::Resource).len(), 0);
        assert_eq!(
            shop.list(finished, Kind::Tool),
            shop.list(at(&shop, "paid"), Kind::Tool)
        );
    }

    #[test]
    fn only_the_kinds_that_change_differ() {
        let shop = shop();
        let differ = |a, b| -> Vec<_> { shop.lists_differ(at(&shop, a), at(&shop, b)).collect() };
        assert_eq!(differ("new", "full"), [Kind::Tool]);
        assert_eq!(differ("new", "twin"), [Kind::Resource]);
        assert_eq!(differ("full", "paid"), [Kind::Tool, Kind::Resource]);
        assert_eq!(differ("new", "new"), []);
    }

    #[test]
    fn empty_lists_of_two_kinds_are_two_lists() {
        let shop = shop();
        let paid = at(&shop, "paid");
        assert_ne!(
            shop.list(paid, Kind::Resource),
            shop.list(paid, Kind::Prompt)
        );
    }

    #[test]
    fn outcomes_that_are_not_written_take_their_defaults() {
        let flow = Workflow::builder("defaults")
            .state("a", |s| {
                s.initial()
                    .tool("plain", |t| t.success(end("b")))
                    .tool("fails", |t| t.error(to("b").effect("mail")))
                    .tool("all", |t| {
                        let t = t.success("s").error("e").timeout("t");
                        t.cancelled("c").unknown("u")
                    })
            })
            .build()
            .unwrap();
        let a = flow.initial().state;
        let leads = |binding: usize| {
            let binding = &flow.bindings(a)[binding];
            Outcome::ALL.map(|outcome| {
                let edge = flow.alternatives(binding, outcome).next();
                let (to, terminal) = edge.map_or((a, false), |(_, edge)| (edge.to, edge.terminal));
                (flow.state_name(to), terminal, binding.written_for(outcome))
            })
        };
        use Outcome::{Cancelled, Error, Success, Timeout, Unknown};
        let stay = ("a", false, None);
        let failed = ("b", false, Some(Error));
        assert_eq!(
            leads(0),
            [("b", true, Some(Success)), stay, stay, stay, stay]
        );
        assert_eq!(leads(1), [stay, failed, failed, stay, failed]);
        assert_eq!(
            leads(2),
            [
                ("s", false, Some(Success)),
                ("e", false, Some(Error)),
                ("t", false, Some(Timeout)),
                ("c", false, Some(Cancelled)),
                ("u", false, Some(Unknown)),
            ]
        );
        let fails = &flow.bindings(a)[1];
        let (_, late) = flow.alternatives(fails, Timeout).next().unwrap();
        assert_eq!(late.effects, ["mail"]);
        assert_eq!(flow.alternatives(fails, Cancelled).count(), 0);
        assert_eq!(flow.edges_from(a).count(), 7);
    }

    #[test]
    fn a_binding_moves_if_any_outcome_leaves_a_mark() {
        let flow = Workflow::builder("moves")
            .state("a", |s| {
                s.initial()
                    .tool("stays", |t| t.success("a").error("a").cancelled("a"))
                    .tool("silent", |t| t)
                    .tool("moves", |t| t.unknown("b"))
                    .tool("ends", |t| t.success(end("a")))
                    .tool("tells", |t| t.success(to("a").effect("mail")))
                    .tool("holds", |t| t.success("a").hold())
                    .tool("remembers", |t| t.success(to("a").set("x", "1")))
                    .tool("asks", |t| t.success("a").approve("Go?"))
            })
            .build()
            .unwrap();
        let moves: Vec<_> = flow
            .bindings(flow.initial().state)
            .iter()
            .map(Binding::moves)
            .collect();
        assert_eq!(moves, [false, false, true, true, true, true, true, true]);
    }

    #[test]
    fn a_binding_knows_what_is_asked_of_its_calls() {
        let flow = Workflow::builder("asks")
            .state("a", |s| {
                s.initial()
                    .tool("plain", |t| t.success("b"))
                    .tool("guarded", |t| t.when("args.x == 1").success("b"))
                    .tool("counted", |t| t.success(to("b").set("n", "visits")))
                    .tool("told", |t| t.success(to("b").set("n", "result.n")))
                    .tool("elsewhere", |t| t.success("b"))
                    .tool("asked", |t| t.success("b").approve("Go?"))
                    .tool("free", |t| {
                        t.success(to("b").when(crate::rust("any", |_| true)))
                            .success("a")
                    })
            })
            .state("b", |s| {
                s.max_visits(3)
                    .tool("plain", |t| t.success(end("a")))
                    .tool("elsewhere", |t| t.success(end("a")).hold())
            })
            .build()
            .unwrap();
        let known = |state: &str| -> Vec<_> {
            let bindings = flow.bindings(flow.state_id(state).unwrap()).iter();
            bindings
                .map(|b| (b.is_conditional(), b.reads_call(), b.reads_result()))
                .collect()
        };
        assert_eq!(
            known("a"),
            [
                (false, false, false),
                (true, true, false),
                (false, false, false),
                (false, false, true),
                (false, true, false),
                (false, true, false),
                (false, true, true),
            ]
        );
        assert_eq!(known("b"), [(true, false, false), (true, true, false)]);
    }
}
