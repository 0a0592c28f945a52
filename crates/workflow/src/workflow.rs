//! A workflow that is known to be valid.
//!
//! One can only be had from [`Draft::build`](crate::Draft::build), so it has one initial state,
//! known targets and a reachable end. States, artifacts and lists are interned: the gate looks up
//! and compares small numbers.

use crate::{
    Artifact, Catalogue, Finding, Finish, Kind, Outcome, Position, Settings, StateId, catalogue,
    fingerprint::{self, Fingerprint},
    intern::{ListId, Lists, SymbolId, Symbols},
    validate::{Judged, JudgedBinding},
};
use std::{collections::HashMap, ops::Range, sync::Arc, time::Duration};

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
#[derive(Clone, Debug)]
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
    pub(crate) binding_ids: HashMap<(StateId, SymbolId), usize>,
    pub(crate) symbols: Symbols,
    /// What each list holds besides what is always callable.
    lists: Lists,
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
        Position {
            state: self.initial,
            finished: false,
        }
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
        &self.state(state).name
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

    /// What is callable here: what the state binds, as written, then what is always callable.
    ///
    /// A finished instance has only the latter. What a server has and the workflow does not name
    /// is not among it, even where [`always_everything`](Self::always_everything) admits it.
    pub fn visible(&self, at: Position, kind: Kind) -> Visible<'_> {
        Visible {
            symbols: &self.symbols,
            own: self.lists.of(self.list(at, kind)).iter(),
            always: self.always[kind.index()].iter(),
        }
    }

    /// A number for what is [`visible`](Self::visible) here: equal numbers, equal lists.
    ///
    /// It lets a server keep one prepared answer for each list instead of one for each state.
    pub fn list(&self, at: Position, kind: Kind) -> ListId {
        if at.finished {
            ListId::empty(kind)
        } else {
            self.state(at.state).lists[kind.index()]
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
        catalogue::compare(&self.symbols, self.always_everything, catalogue)
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

    /// Puts together what has been judged and found valid.
    pub(crate) fn assemble(parts: Parts) -> Self {
        let mut workflow = Self {
            name: parts.name,
            description: parts.description,
            settings: parts.settings,
            states: Vec::with_capacity(parts.states.len()),
            state_ids: parts.state_ids,
            initial: parts.initial,
            bindings: Vec::new(),
            binding_ids: HashMap::new(),
            symbols: parts.symbols,
            lists: Lists::default(),
            always: parts.always,
            always_everything: parts.always_everything,
            warnings: parts.warnings,
            fingerprint: Fingerprint(0),
        };
        for (at, judged) in parts.states.into_iter().enumerate() {
            let mut own: [Vec<SymbolId>; 3] = Default::default();
            let first = workflow.bindings.len();
            for binding in judged.bindings {
                own[binding.artifact.kind.index()].push(binding.symbol);
                let id = (StateId::at(at), binding.symbol);
                workflow.binding_ids.insert(id, workflow.bindings.len());
                workflow
                    .bindings
                    .push(Binding::new(StateId::at(at), binding));
            }
            workflow.states.push(State {
                name: judged.name,
                description: judged.description,
                terminal: judged.terminal,
                bindings: first..workflow.bindings.len(),
                lists: Kind::ALL.map(|kind| {
                    let own = std::mem::take(&mut own[kind.index()]);
                    workflow.lists.intern(kind, own)
                }),
            });
        }
        workflow.fingerprint = fingerprint::of(&workflow);
        workflow
    }

    /// Where an instance stands once it has followed an edge.
    pub(crate) fn after(&self, edge: Edge) -> Position {
        match (edge.terminal, self.settings.finish) {
            (false, Finish::Restart | Finish::Stay) => Position {
                state: edge.to,
                finished: false,
            },
            (true, Finish::Restart) => self.initial(),
            (true, Finish::Stay) => Position {
                state: edge.to,
                finished: true,
            },
        }
    }
}

/// What [`Workflow::assemble`] puts together.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) initial: StateId,
    pub(crate) states: Vec<Judged>,
    pub(crate) state_ids: HashMap<Arc<str>, StateId>,
    pub(crate) symbols: Symbols,
    pub(crate) always: [Vec<SymbolId>; 3],
    pub(crate) always_everything: bool,
    pub(crate) warnings: Vec<Finding>,
}

/// One state of a [`Workflow`].
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) name: Arc<str>,
    pub(crate) description: Option<String>,
    pub(crate) terminal: bool,
    pub(crate) bindings: Range<usize>,
    pub(crate) lists: [ListId; 3],
}

impl State {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it means.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Whether every edge into it ends the workflow.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }
}

/// What makes an artifact visible and callable in one state.
#[derive(Clone, Debug)]
pub struct Binding {
    pub(crate) state: StateId,
    pub(crate) artifact: Artifact,
    pub(crate) deadline: Option<Duration>,
    /// Where each outcome leads, defaults included, in the order of [`Outcome::ALL`].
    pub(crate) table: [Edge; 5],
    /// The effects of the edges that have some.
    pub(crate) effects: Vec<(Outcome, Vec<String>)>,
}

impl Binding {
    fn new(state: StateId, judged: JudgedBinding) -> Self {
        let stay = Edge {
            to: state,
            terminal: false,
            written: None,
        };
        let mut table = [stay; 5];
        let mut effects = Vec::new();
        for (outcome, edge) in Outcome::ALL.into_iter().zip(judged.edges) {
            // Outcomes come in such an order that the one a default refers to is there already.
            let default = match outcome {
                Outcome::Success | Outcome::Error | Outcome::Cancelled => stay,
                Outcome::Timeout | Outcome::Unknown => table[Outcome::Error.index()],
            };
            table[outcome.index()] = match edge {
                None => default,
                Some(edge) => {
                    if !edge.target.effects.is_empty() {
                        effects.push((outcome, edge.target.effects));
                    }
                    Edge {
                        to: edge.to.expect("an edge without a target is an error"),
                        terminal: edge.target.terminal,
                        written: Some(outcome),
                    }
                }
            };
        }
        Self {
            state,
            artifact: judged.artifact,
            deadline: judged.deadline,
            table,
            effects,
        }
    }

    /// The state it belongs to.
    pub fn state(&self) -> StateId {
        self.state
    }

    /// What is bound.
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// How long it may run, if that differs from the tool's own time.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Where an outcome leads.
    pub fn edge(&self, outcome: Outcome) -> Edge {
        self.table[outcome.index()]
    }

    /// What the server does after the step that this outcome takes, by name and in this order.
    pub fn effects(&self, outcome: Outcome) -> &[String] {
        let written = self.edge(outcome).written;
        self.effects
            .iter()
            .find(|(outcome, _)| Some(*outcome) == written)
            .map_or(&[], |(_, effects)| effects)
    }

    /// Whether a call can leave a mark on the instance: move it, end it, or have an effect.
    ///
    /// Calls that cannot may run side by side.
    pub fn moves(&self) -> bool {
        !self.effects.is_empty() || self.table.iter().any(|edge| !edge.stays(self.state))
    }

    /// The edges somebody wrote, in the order of [`Outcome::ALL`].
    pub fn written(&self) -> impl Iterator<Item = (Outcome, Edge)> {
        Outcome::ALL
            .into_iter()
            .zip(self.table)
            .filter(|(outcome, edge)| edge.written == Some(*outcome))
    }
}

/// Where an outcome leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The state it leads to.
    pub to: StateId,
    /// Taking it ends the workflow.
    pub terminal: bool,
    /// The outcome it was written for; another one than that which takes it where a default says
    /// "as error", and none where the default is to stay.
    pub written: Option<Outcome>,
}

impl Edge {
    /// Whether taking it from this state changes nothing.
    pub(crate) fn stays(self, from: StateId) -> bool {
        self.to == from && !self.terminal
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
        Position {
            state: workflow.state_id(state).unwrap(),
            finished: false,
        }
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
            Outcome::ALL.map(|outcome| {
                let edge = flow.bindings(a)[binding].edge(outcome);
                (flow.state_name(edge.to), edge.terminal, edge.written)
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
        assert_eq!(fails.effects(Timeout), ["mail"]);
        assert!(fails.effects(Cancelled).is_empty());
        assert_eq!(fails.written().count(), 1);
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
            })
            .build()
            .unwrap();
        let moves: Vec<_> = flow
            .bindings(flow.initial().state)
            .iter()
            .map(Binding::moves)
            .collect();
        assert_eq!(moves, [false, false, true, true, true]);
    }
}
