//! Judges a draft: every problem at once, and nothing is pruned.

use crate::{
    Artifact, Catalogue, Draft, DraftAlways, DraftBinding, DraftEdge, DraftState, Finding, Invalid,
    Problem, Severity, Span, StateId, Target, Targets, Workflow,
    analysis::{Arrow, Graph},
    catalogue,
    intern::{Role, SymbolId, Symbols},
    nearest::Nearest,
    workflow::Parts,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

/// The one state of a workflow that has none of its own and lets everything through.
const NOTHING_GATED: &str = "open";

impl Draft {
    /// Judges the draft, together with what the server has if that is known.
    ///
    /// On success the warnings are at [`Workflow::warnings`]; on failure they are among the
    /// findings. A draft without states is a workflow only if everything is always callable.
    ///
    /// ```
    /// use interlock_workflow::{Draft, DraftState};
    ///
    /// let draft = Draft {
    ///     states: vec![DraftState { name: "a".into(), initial: true, ..DraftState::default() }],
    ///     ..Draft::default()
    /// };
    /// let invalid = draft.build(None).unwrap_err();
    /// assert_eq!(invalid.findings[0].problem.code(), "no-reachable-end");
    /// ```
    pub fn build(self, catalogue: Option<&Catalogue>) -> Result<Workflow, Invalid> {
        let mut judge = Judge::new(self.targets);
        let nothing_gated = self.states.is_empty() && self.always_everything;
        if nothing_gated {
            judge.state(DraftState {
                name: NOTHING_GATED.to_owned(),
                initial: true,
                ..DraftState::default()
            });
        }
        for state in self.states {
            judge.state(state);
        }
        judge.bindings();
        judge.always(self.always);
        let initial = judge.only_initial();
        if !nothing_gated {
            judge.walk();
        }
        if let Some(catalogue) = catalogue {
            let compared = catalogue::compare(&judge.symbols, self.always_everything, catalogue);
            judge.findings.extend(compared);
        }

        let findings = judge.findings;
        let stands_in_the_way = |finding: &Finding| finding.severity() == Severity::Error;
        match initial {
            Some(initial) if !findings.iter().any(stands_in_the_way) => {
                Ok(Workflow::assemble(Parts {
                    name: self.name,
                    description: self.description,
                    settings: self.settings,
                    initial,
                    states: judge.states,
                    state_ids: judge.ids,
                    symbols: judge.symbols,
                    always: judge.always,
                    always_everything: self.always_everything,
                    warnings: findings,
                }))
            }
            Some(_) | None => Err(Invalid { findings }),
        }
    }
}

/// A state, all that was written about it taken together.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) name: Arc<str>,
    pub(crate) initial: bool,
    pub(crate) terminal: bool,
    pub(crate) description: Option<String>,
    pub(crate) bindings: Vec<JudgedBinding>,
    span: Option<Span>,
    /// Its bindings as written, until they are judged.
    written: Vec<DraftBinding>,
}

/// A binding, all that was written about it taken together.
#[derive(Debug)]
pub(crate) struct JudgedBinding {
    pub(crate) symbol: SymbolId,
    pub(crate) artifact: Artifact,
    pub(crate) deadline: Option<Duration>,
    /// In the order of `Outcome::ALL`.
    pub(crate) edges: [Option<JudgedEdge>; 5],
    span: Option<Span>,
}

/// An edge with its target looked up.
#[derive(Debug)]
pub(crate) struct JudgedEdge {
    /// Nothing where nobody defined the target.
    pub(crate) to: Option<StateId>,
    /// As written, but terminal also where the state it leads to is.
    pub(crate) target: Target,
}

/// Takes the parts of a draft together and notes what is wrong with them.
struct Judge {
    targets: Targets,
    states: Vec<Judged>,
    ids: HashMap<Arc<str>, StateId>,
    symbols: Symbols,
    always: [Vec<SymbolId>; 3],
    /// Every edge that was written, both of two that differ included.
    arrows: Vec<Arrow>,
    nearest: Nearest,
    findings: Vec<Finding>,
}

impl Judge {
    fn new(targets: Targets) -> Self {
        Self {
            targets,
            states: Vec::new(),
            ids: HashMap::new(),
            symbols: Symbols::default(),
            always: Default::default(),
            arrows: Vec::new(),
            nearest: Nearest::new(),
            findings: Vec::new(),
        }
    }

    fn find(&mut self, span: Option<Span>, problem: Problem) {
        self.findings.push(Finding { problem, span });
    }

    /// The state of this name, which is added if it is new.
    fn intern(&mut self, name: &str, span: Option<Span>) -> StateId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let id = StateId::at(self.states.len());
        self.ids.insert(name.clone(), id);
        self.states.push(Judged {
            name,
            initial: false,
            terminal: false,
            description: None,
            bindings: Vec::new(),
            span,
            written: Vec::new(),
        });
        id
    }

    fn state(&mut self, draft: DraftState) {
        let known = self.states.len();
        let id = self.intern(&draft.name, draft.span);
        if id.index() < known && self.targets == Targets::Closed {
            let state = self.states[id.index()].name.clone();
            self.find(draft.span, Problem::DuplicateState { state });
        }
        let state = &mut self.states[id.index()];
        state.initial |= draft.initial;
        state.terminal |= draft.terminal;
        state.description = draft.description.or(state.description.take());
        state.written.extend(draft.bindings);
    }

    /// Judges the bindings of all states. Targets that become states have none, so those that
    /// are added on the way need no visit.
    fn bindings(&mut self) {
        for at in 0..self.states.len() {
            let written = std::mem::take(&mut self.states[at].written);
            let mut bindings: Vec<JudgedBinding> = Vec::with_capacity(written.len());
            let mut places = HashMap::new();
            for draft in written {
                let symbol = self
                    .symbols
                    .intern(&draft.artifact, draft.span, Role::Bound);
                let place = match places.entry(symbol) {
                    Entry::Occupied(entry) => *entry.get(),
                    Entry::Vacant(entry) => {
                        bindings.push(JudgedBinding {
                            symbol,
                            artifact: draft.artifact,
                            deadline: None,
                            edges: Default::default(),
                            span: draft.span,
                        });
                        *entry.insert(bindings.len() - 1)
                    }
                };
                let binding = &mut bindings[place];
                binding.deadline = draft.deadline.or(binding.deadline);
                for edge in draft.edges {
                    self.edge(StateId::at(at), binding, edge);
                }
            }
            for binding in &bindings {
                if binding.edges.iter().all(Option::is_none) {
                    let state = self.states[at].name.clone();
                    let artifact = binding.artifact.clone();
                    self.find(binding.span, Problem::NoOutcome { state, artifact });
                }
            }
            self.states[at].bindings = bindings;
        }
    }

    fn edge(&mut self, from: StateId, binding: &mut JudgedBinding, draft: DraftEdge) {
        let to = match self.targets {
            Targets::Open => Some(self.intern(&draft.to, draft.span)),
            Targets::Closed => self.ids.get(draft.to.as_str()).copied(),
        };
        let edge = JudgedEdge {
            to,
            target: Target {
                terminal: draft.terminal || to.is_some_and(|to| self.states[to.index()].terminal),
                to: draft.to,
                effects: draft.effects,
            },
        };
        self.arrows.push(Arrow {
            from,
            to,
            terminal: edge.target.terminal,
        });
        let state = &self.states[from.index()].name;
        if to.is_none() {
            let names = self.states.iter().map(|state| &*state.name);
            let problem = Problem::UnknownTarget {
                state: state.clone(),
                artifact: binding.artifact.clone(),
                outcome: draft.outcome,
                nearest: self.nearest.find(&edge.target.to, names),
                target: edge.target.to.clone(),
            };
            self.findings.push(Finding {
                problem,
                span: draft.span,
            });
        }
        match &mut binding.edges[draft.outcome.index()] {
            place @ None => *place = Some(edge),
            Some(first) if first.target.leads_as(&edge.target) => {
                for effect in edge.target.effects {
                    if !first.target.effects.contains(&effect) {
                        first.target.effects.push(effect);
                    }
                }
            }
            Some(first) => {
                let problem = Problem::TwoEdges {
                    state: state.clone(),
                    artifact: binding.artifact.clone(),
                    outcome: draft.outcome,
                    first: first.target.clone(),
                    second: edge.target,
                };
                self.find(draft.span, problem);
            }
        }
    }

    fn always(&mut self, always: Vec<DraftAlways>) {
        for DraftAlways { artifact, span } in always {
            match self.symbols.find(artifact.kind, &artifact.name) {
                None => {
                    let id = self.symbols.intern(&artifact, span, Role::Always);
                    self.always[artifact.kind.index()].push(id);
                }
                Some(id) => match self.symbols[id].role {
                    Role::Always => {}
                    Role::Bound => {
                        self.find(span, Problem::BoundAndAlways { artifact });
                    }
                },
            }
        }
    }

    fn only_initial(&mut self) -> Option<StateId> {
        let initial = self.initial();
        match initial[..] {
            [only] => return Some(only),
            [] if self.states.is_empty() => self.find(None, Problem::NoStates),
            [] => self.find(None, Problem::NoInitialState),
            [_, second, ..] => {
                let name = |state: &StateId| self.states[state.index()].name.clone();
                let states = initial.iter().map(name).collect();
                let span = self.states[second.index()].span;
                self.find(span, Problem::SeveralInitialStates { states });
            }
        }
        None
    }

    fn initial(&self) -> Vec<StateId> {
        let all = 0..self.states.len();
        all.filter(|&at| self.states[at].initial)
            .map(StateId::at)
            .collect()
    }

    /// Finds what no run reaches and what no run leaves.
    ///
    /// Without an initial state nothing can be said. From several, what holds for all of them is.
    fn walk(&mut self) {
        let initial = self.initial();
        let Some(first) = initial.first() else {
            return;
        };
        let graph = Graph::new(self.states.len(), std::mem::take(&mut self.arrows));
        let reach = graph.reach(&initial);
        let can_end = graph.can_end();
        let endless = !initial.iter().any(|state| can_end[state.index()]);
        let mut findings = Vec::new();
        if endless {
            let initial = self.states[first.index()].name.clone();
            findings.push(Finding {
                problem: Problem::NoReachableEnd { initial },
                span: self.states[first.index()].span,
            });
        }
        for (at, judged) in self.states.iter().enumerate() {
            let state = judged.name.clone();
            let problem = match (reach.lived[at], reach.ended[at]) {
                // Where no run ends, saying it again of every state would bury the rest.
                (true, _) if !can_end[at] && !endless => Problem::Trap { state },
                (false, true) if !judged.bindings.is_empty() => Problem::BindingsAfterEnd { state },
                (false, false) if !reach.astray => Problem::UnreachableState { state },
                (true | false, true | false) => continue,
            };
            let span = judged.span;
            findings.push(Finding { problem, span });
        }
        self.findings.extend(findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Kind, Outcome, end, to};

    #[track_caller]
    fn check(builder: Builder, expected: &[&str]) {
        check_draft(builder.into_draft(), expected);
    }

    /// Judges as a file would be judged, where every target must be defined.
    #[track_caller]
    fn check_file(builder: Builder, expected: &[&str]) {
        let targets = Targets::Closed;
        check_draft(
            Draft {
                targets,
                ..builder.into_draft()
            },
            expected,
        );
    }

    #[track_caller]
    fn check_draft(draft: Draft, expected: &[&str]) {
        let (findings, valid) = match draft.build(None) {
            Ok(workflow) => (workflow.warnings().to_vec(), true),
            Err(invalid) => (invalid.findings, false),
        };
        let told: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(told, expected);
        let error = findings.iter().any(|f| f.severity() == Severity::Error);
        assert_eq!(valid, !error);
    }

    /// A valid workflow to add mistakes to: a → b → end.
    fn base() -> Builder {
        Workflow::builder("base")
            .state("a", |s| s.initial().tool("ab", |t| t.success("b")))
            .state("b", |s| s.tool("fin", |t| t.success("over")))
            .state("over", |s| s.terminal())
    }

    #[test]
    fn a_good_workflow_has_no_findings() {
        check(base(), &[]);
        check_file(base(), &[]);
    }

    #[test]
    fn nothing_at_all_is_no_workflow() {
        check(
            Workflow::builder("empty"),
            &["error[no-states]: the workflow has no states"],
        );
    }

    #[test]
    fn without_states_everything_can_still_be_let_through() {
        let open = Workflow::builder("open").always_everything();
        check(open.clone(), &[]);
        let open = open.build().unwrap();
        assert_eq!(open.state_name(open.initial().state), "open");
    }

    #[test]
    fn there_is_one_initial_state() {
        let none = Workflow::builder("none").state("a", |s| s.tool("t", |t| t.success(end("b"))));
        check(
            none,
            &["error[no-initial-state]: no state is marked initial"],
        );
        let two = base().state("b", |s| s.initial());
        let several = "error[several-initial-states]: several states are marked initial: \
                       \"a\", \"b\"";
        check(two, &[several]);
    }

    #[test]
    fn an_undefined_target_is_a_state_in_rust_and_an_error_in_a_file() {
        let typo = base().state("b", |s| s.tool("again", |t| t.error("overr")));
        check(
            typo.clone(),
            &["warning[trap]: no end can be reached from state \"overr\""],
        );
        check_file(
            Workflow::builder("typo")
                .state("a", |s| s.initial().tool("t", |t| t.error("ovr")))
                .state("over", |s| s.terminal()),
            &[
                // Whether "over" is reached and the run ends depends on what was meant.
                "error[unknown-target]: error of tool \"t\" in state \"a\" leads to \"ovr\", \
                 which is not defined",
            ],
        );
    }

    #[test]
    fn an_unknown_target_comes_with_the_name_that_was_meant() {
        let draft = Draft {
            targets: Targets::Closed,
            ..base()
                .state("a", |s| s.tool("x", |t| t.success("ovre")))
                .into_draft()
        };
        let invalid = draft.build(None).unwrap_err();
        let problem = invalid.findings.last().unwrap().problem.clone();
        assert_eq!(problem.help().unwrap(), "did you mean \"over\"?");
    }

    #[test]
    fn a_state_defined_twice_is_merged_in_rust_and_an_error_in_a_file() {
        let twice = base().state("a", |s| s.description("twice"));
        check(twice.clone(), &[]);
        check_file(
            twice,
            &["error[duplicate-state]: state \"a\" is defined twice"],
        );
    }

    #[test]
    fn merged_bindings_hold_what_each_definition_said() {
        let flow = base()
            .state("a", |s| {
                s.description("start")
                    .tool("ab", |t| t.success(to("b").effect("mail")).error(end("a")))
                    .tool("ab", |t| t.success(to("b").effect("mail").effect("log")))
                    .tool("aa", |t| t.success("a"))
            })
            .state("a", |s| {
                s.tool("ab", |t| t.deadline(Duration::from_secs(1)))
            })
            .state("a", |s| s.tool("ab", |t| t))
            .build()
            .unwrap();
        let a = flow.initial().state;
        assert_eq!(flow.state(a).description(), Some("start"));
        let names: Vec<_> = flow.visible(flow.initial(), Kind::Tool).collect();
        assert_eq!(names, ["ab", "aa"]);
        let ab = &flow.bindings(a)[0];
        assert_eq!(ab.effects(Outcome::Success), ["mail", "log"]);
        assert!(ab.edge(Outcome::Error).terminal);
        assert_eq!(ab.deadline(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn two_edges_that_differ_are_an_error_that_names_both() {
        let elsewhere = base().state("a", |s| s.tool("ab", |t| t.success("a")));
        check(
            elsewhere,
            &[
                "error[two-edges]: success of tool \"ab\" in state \"a\" leads to both \
               \"b\" and \"a\"",
            ],
        );
        let ending = base().state("a", |s| s.tool("ab", |t| t.success(end("b"))));
        check(
            ending,
            &[
                "error[two-edges]: success of tool \"ab\" in state \"a\" leads to both \
               \"b\" and \"b\" (terminal)",
            ],
        );
    }

    #[test]
    fn an_edge_into_a_terminal_state_is_terminal_whether_it_says_so_or_not() {
        check(
            base().state("b", |s| s.tool("fin", |t| t.success(end("over")))),
            &[],
        );
    }

    #[test]
    fn what_is_always_callable_cannot_be_bound_too() {
        check(
            base().always_tool("ab").always_tool("ab"),
            &[
                "error[bound-and-always]: tool \"ab\" is always callable, yet a state binds it too",
                "error[bound-and-always]: tool \"ab\" is always callable, yet a state binds it too",
            ],
        );
        // Other kinds have names of their own, and saying it twice is harmless.
        check(base().always_prompt("ab").always_prompt("ab"), &[]);
    }

    #[test]
    fn a_workflow_that_cannot_end_is_an_error_said_once() {
        let round = Workflow::builder("round")
            .state("a", |s| s.initial().tool("ab", |t| t.success("b")))
            .state("b", |s| s.tool("ba", |t| t.success("a")))
            .state("over", |s| s.terminal());
        check(
            round,
            &[
                "error[no-reachable-end]: no end can be reached from the initial state \"a\"",
                "warning[unreachable-state]: state \"over\" cannot be reached",
            ],
        );
    }

    #[test]
    fn an_end_by_any_outcome_is_an_end() {
        let failing = Workflow::builder("failing")
            .state("a", |s| s.initial().tool("t", |t| t.cancelled(end("over"))));
        check(failing, &[]);
    }

    #[test]
    fn livelocks_and_dead_ends_are_traps() {
        let stuck = base()
            .state("b", |s| {
                s.tool("out", |t| t.error("x"))
                    .tool("off", |t| t.error("pit"))
            })
            .state("x", |s| s.tool("xy", |t| t.success("y")))
            .state("y", |s| s.tool("yx", |t| t.success("x")));
        check(
            stuck,
            &[
                "warning[trap]: no end can be reached from state \"x\"",
                "warning[trap]: no end can be reached from state \"y\"",
                "warning[trap]: no end can be reached from state \"pit\"",
            ],
        );
    }

    #[test]
    fn what_lies_behind_an_end_is_not_reached() {
        let behind = base()
            .state("over", |s| {
                s.tool("on", |t| t.success("beyond").error("over"))
            })
            .state("beyond", |s| s.tool("t", |t| t.success("a")));
        check(
            behind,
            &[
                "warning[bindings-after-end]: state \"over\" is entered only by edges that end the \
                 workflow, yet has bindings",
                "warning[unreachable-state]: state \"beyond\" cannot be reached",
            ],
        );
    }

    #[test]
    fn a_binding_that_leads_nowhere_is_worth_a_warning() {
        check(
            base().state("a", |s| s.resource("note://rules", |r| r)),
            &["warning[no-outcome]: resource \"note://rules\" in state \"a\" gives no outcome"],
        );
    }

    #[test]
    fn all_problems_come_at_once_with_the_warnings() {
        let draft = Draft {
            targets: Targets::Closed,
            ..Workflow::builder("bad")
                .state("a", |s| s.initial().tool("t", |t| t.success("a")))
                .state("a", |s| s.tool("t", |t| t.success("z")))
                .state("b", |s| s.initial().tool("u", |t| t))
                .always_tool("u")
                .into_draft()
        };
        let catalogue = Catalogue::closed()
            .with(Kind::Tool, "t")
            .with(Kind::Prompt, "p");
        let invalid = draft.build(Some(&catalogue)).unwrap_err();
        let codes: Vec<_> = invalid.findings.iter().map(|f| f.problem.code()).collect();
        assert_eq!(
            codes,
            [
                "duplicate-state",
                "unknown-target",
                "two-edges",
                "no-outcome",
                "bound-and-always",
                "several-initial-states",
                "trap",
                "unknown-artifact",
                "bound-nowhere",
            ]
        );
        assert_eq!(invalid.errors().count(), 6);
    }

    #[test]
    fn findings_point_into_the_file() {
        let at = |line| {
            Some(Span {
                start: 0,
                end: 1,
                line,
                column: 3,
            })
        };
        let mut draft = base()
            .state("a", |s| s.tool("x", |t| t.success("z")).tool("y", |t| t))
            .state("lost", |s| s)
            .into_draft();
        draft.targets = Targets::Closed;
        draft.states[3].name = "c".to_owned();
        draft.states[3].span = at(1);
        draft.states[3].bindings[0].edges[0].span = at(2);
        draft.states[3].bindings[1].span = at(3);
        draft.states[4].span = at(4);
        let invalid = draft.build(None).unwrap_err();
        let places: Vec<_> = invalid
            .findings
            .iter()
            .map(|finding| (finding.problem.code(), finding.span.map(|span| span.line)))
            .collect();
        assert_eq!(
            places,
            [
                ("unknown-target", Some(2)),
                ("no-outcome", Some(3)),
                ("unreachable-state", Some(1)),
                ("unreachable-state", Some(4)),
            ]
        );
        let first = invalid.findings[0].to_string();
        assert!(first.starts_with("2:3: error[unknown-target]: "), "{first}");
    }
}
