//! Decides whether a call may run, and where its outcome leads.
//!
//! Both take a lookup or two, however many states there are.

use crate::{
    Artifact, Binding, Kind, Outcome, Position, StateId, Workflow, analysis::Hop, intern::Role,
    workflow::Visible,
};
use std::fmt;

/// How many edges a refusal looks at for the way to what was wanted. A caller can provoke any
/// number of refusals, and a way that is harder to find would not help it anyway.
const SEARCH: usize = 2_000;

impl Workflow {
    /// Whether an artifact may be called here.
    ///
    /// ```
    /// use interlock_workflow::{Kind, Outcome, Pass, Workflow};
    ///
    /// let refund = Workflow::builder("refund")
    ///     .state("new", |s| s.initial().tool("lookup_order", |t| t.success("found")))
    ///     .state("found", |s| s.tool("refund", |t| t.success("paid")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    ///
    /// let at = refund.initial();
    /// let refused = refund.admit(at, Kind::Tool, "refund").unwrap_err();
    /// assert_eq!(refused.code(), 1081);
    /// assert_eq!(refused.to_string(), "tool \"refund\" is not allowed in state \"new\"");
    /// assert!(refused.allowed(Kind::Tool).eq(["lookup_order"]));
    ///
    /// let Ok(Pass::Bound(lookup)) = refund.admit(at, Kind::Tool, "lookup_order") else { panic!() };
    /// let step = refund.step(at, lookup, Outcome::Success);
    /// assert!(refund.admit(step.after, Kind::Tool, "refund").is_ok());
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn admit(&self, at: Position, kind: Kind, name: &str) -> Result<Pass<'_>, Refused<'_>> {
        let refuse = |reason| Refused {
            workflow: self,
            reason,
            at,
            wanted: Artifact::new(kind, name),
        };
        let Some(symbol) = self.symbols.find(kind, name) else {
            return if self.always_everything {
                Ok(Pass::Always)
            } else if at.finished {
                Err(refuse(Reason::Finished))
            } else {
                Err(refuse(Reason::NotInState))
            };
        };
        match self.symbols[symbol].role {
            Role::Always => Ok(Pass::Always),
            Role::Bound if at.finished => Err(refuse(Reason::Finished)),
            Role::Bound => match self.binding_ids.get(&(at.state, symbol)) {
                Some(&id) => Ok(Pass::Bound(&self.bindings[id])),
                None => Err(refuse(Reason::NotInState)),
            },
        }
    }

    /// Whether the workflow names an artifact: in some state, or as always callable.
    pub fn is_bound(&self, kind: Kind, name: &str) -> bool {
        self.symbols.find(kind, name).is_some()
    }

    /// Whether an artifact is callable in every state, so that no instance is needed to call it.
    pub fn is_always(&self, kind: Kind, name: &str) -> bool {
        match self.symbols.find(kind, name) {
            Some(symbol) => self.symbols[symbol].role == Role::Always,
            None => self.always_everything,
        }
    }

    /// Where an instance goes when a call ends.
    ///
    /// A call that stays, stays where the instance is now, which is where it was admitted unless
    /// it ran beside others because it cannot [move](Binding::moves).
    pub fn step<'a>(&'a self, at: Position, binding: &'a Binding, outcome: Outcome) -> Step<'a> {
        let edge = binding.edge(outcome);
        let stays = edge.stays(binding.state());
        Step {
            from: at.state,
            to: if stays { at.state } else { edge.to },
            terminal: edge.terminal,
            taken: edge.written,
            effects: binding.effects(outcome),
            after: if stays { at } else { self.after(edge) },
        }
    }
}

/// Why a call may run.
#[derive(Clone, Copy, Debug)]
pub enum Pass<'a> {
    /// It is callable in every state and moves none.
    Always,
    /// The state binds it.
    Bound(&'a Binding),
}

/// What the end of a call does to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The state before.
    pub from: StateId,
    /// The state that the edge leads to.
    pub to: StateId,
    /// It ends the workflow.
    pub terminal: bool,
    /// The outcome whose edge was taken; none if nobody wrote one, and the instance stays.
    pub taken: Option<Outcome>,
    /// What the server does next, by name and in this order.
    pub effects: &'a [String],
    /// Where the instance stands now: at `to`, or after an end where the workflow says.
    pub after: Position,
}

/// Why a call may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The state does not bind it.
    NotInState,
    /// The instance is finished.
    Finished,
}

/// A call that may not run, and what the caller could do instead.
#[derive(Clone)]
pub struct Refused<'a> {
    workflow: &'a Workflow,
    reason: Reason,
    at: Position,
    wanted: Artifact,
}

impl<'a> Refused<'a> {
    /// Why it may not run.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The number of this refusal in the catalogue of refusals.
    pub fn code(&self) -> u16 {
        match self.reason {
            Reason::NotInState => 1081,
            Reason::Finished => 1085,
        }
    }

    /// What was wanted.
    pub fn wanted(&self) -> &Artifact {
        &self.wanted
    }

    /// The name of the state in which it was wanted.
    pub fn state(&self) -> &'a str {
        self.workflow.state_name(self.at.state)
    }

    /// What is callable instead.
    pub fn allowed(&self, kind: Kind) -> Visible<'a> {
        self.workflow.visible(self.at, kind)
    }

    /// The shortest way to where it is callable, if there is one that is not too hard to find.
    pub fn path(&self) -> Option<Vec<Hop<'a>>> {
        let Artifact { kind, name } = &self.wanted;
        self.workflow.path_within(self.at, *kind, name, SEARCH)
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wanted, state) = (&self.wanted, self.state());
        match self.reason {
            Reason::NotInState => write!(f, "{wanted} is not allowed in state {state:?}"),
            Reason::Finished => {
                write!(
                    f,
                    "{wanted} is not allowed: the workflow ended in state {state:?}"
                )
            }
        }
    }
}

/// Without the workflow, which can be long.
impl fmt::Debug for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.reason)
            .field("at", &self.at)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Refused<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Finish, Settings, end};

    fn builder() -> Builder {
        Workflow::builder("gate")
            .state("a", |s| {
                s.initial()
                    .tool("go", |t| t.success("b").timeout("c"))
                    .tool("look", |t| t.success("a"))
            })
            .state("b", |s| s.tool("fin", |t| t.success(end("c"))))
            .state("c", |s| s.tool("back", |t| t.success("a")))
            .always_tool("search")
    }

    fn flow() -> Workflow {
        builder().build().unwrap()
    }

    fn staying() -> Workflow {
        let settings = Settings {
            finish: Finish::Stay,
            ..Settings::default()
        };
        builder().settings(settings).build().unwrap()
    }

    fn at(flow: &Workflow, state: &str) -> Position {
        Position {
            state: flow.state_id(state).unwrap(),
            finished: false,
        }
    }

    #[track_caller]
    fn bound<'a>(flow: &'a Workflow, at: Position, name: &str) -> &'a Binding {
        match flow.admit(at, Kind::Tool, name).unwrap() {
            Pass::Bound(binding) => binding,
            Pass::Always => panic!("{name} is always callable"),
        }
    }

    #[test]
    fn only_the_state_that_binds_an_artifact_admits_it() {
        let flow = flow();
        let go = bound(&flow, flow.initial(), "go");
        assert_eq!(go.artifact().name, "go");
        let refused = flow.admit(at(&flow, "b"), Kind::Tool, "go").unwrap_err();
        assert_eq!(refused.reason(), Reason::NotInState);
        assert_eq!(refused.code(), 1081);
        assert_eq!(refused.state(), "b");
        assert_eq!(refused.wanted(), &Artifact::new(Kind::Tool, "go"));
        assert!(refused.allowed(Kind::Tool).eq(["fin", "search"]));
        let way = refused.path().unwrap();
        assert_eq!(way[0].artifact.name, "fin");
        assert_eq!(way[0].to, flow.initial().state);
    }

    #[test]
    fn a_tool_and_a_prompt_of_one_name_are_two_things() {
        let flow = flow();
        assert!(flow.admit(flow.initial(), Kind::Prompt, "go").is_err());
        assert!(!flow.is_bound(Kind::Prompt, "go"));
        assert!(flow.is_bound(Kind::Tool, "go"));
        assert!(flow.is_bound(Kind::Tool, "search"));
    }

    #[test]
    fn what_is_always_callable_is_admitted_even_when_finished() {
        let flow = flow();
        let finished = Position {
            finished: true,
            ..flow.initial()
        };
        for at in [flow.initial(), at(&flow, "b"), finished] {
            let pass = flow.admit(at, Kind::Tool, "search");
            assert!(matches!(pass, Ok(Pass::Always)));
        }
    }

    #[test]
    fn everything_else_can_be_let_through_without_opening_what_is_bound() {
        let flow = builder().always_everything().build().unwrap();
        let pass = flow.admit(flow.initial(), Kind::Tool, "unheard_of");
        assert!(matches!(pass, Ok(Pass::Always)));
        assert!(flow.admit(flow.initial(), Kind::Tool, "fin").is_err());
    }

    #[test]
    fn a_step_leads_where_the_outcome_says() {
        let flow = flow();
        let (start, go) = (flow.initial(), bound(&flow, flow.initial(), "go"));
        let step = flow.step(start, go, Outcome::Success);
        assert_eq!(step.from, start.state);
        assert_eq!(step.after, at(&flow, "b"));
        assert_eq!(step.taken, Some(Outcome::Success));
        let late = flow.step(start, go, Outcome::Timeout);
        assert_eq!(late.after, at(&flow, "c"));
        for outcome in [Outcome::Error, Outcome::Cancelled, Outcome::Unknown] {
            let step = flow.step(start, go, outcome);
            assert_eq!((step.after, step.taken), (start, None));
        }
    }

    #[test]
    fn after_an_end_the_workflow_begins_again() {
        let flow = flow();
        let b = at(&flow, "b");
        let step = flow.step(b, bound(&flow, b, "fin"), Outcome::Success);
        assert!(step.terminal);
        assert_eq!(step.to, at(&flow, "c").state);
        assert_eq!(step.after, flow.initial());
    }

    #[test]
    fn or_stays_finished_and_refuses_what_was_bound() {
        let flow = staying();
        let b = at(&flow, "b");
        let step = flow.step(b, bound(&flow, b, "fin"), Outcome::Success);
        assert!(step.after.finished);
        assert_eq!(step.after.state, at(&flow, "c").state);
        for name in ["back", "go", "unheard_of"] {
            let refused = flow.admit(step.after, Kind::Tool, name).unwrap_err();
            assert_eq!(refused.reason(), Reason::Finished);
            assert_eq!(refused.code(), 1085);
            assert_eq!(refused.path(), None);
            assert!(refused.allowed(Kind::Tool).eq(["search"]));
        }
        let refused = flow.admit(step.after, Kind::Tool, "go").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "tool \"go\" is not allowed: the workflow ended in state \"c\""
        );
    }

    #[test]
    fn the_same_edge_can_be_an_ordinary_one_for_others() {
        // c is entered by an end from b and by a timeout from a: only the first one finishes.
        let flow = staying();
        let go = bound(&flow, flow.initial(), "go");
        let step = flow.step(flow.initial(), go, Outcome::Timeout);
        assert!(!step.terminal && !step.after.finished);
        assert!(flow.admit(step.after, Kind::Tool, "back").is_ok());
    }

    #[test]
    fn a_call_that_cannot_move_does_not_pull_the_instance_back() {
        let flow = flow();
        let look = bound(&flow, flow.initial(), "look");
        assert!(!look.moves());
        let moved_meanwhile = at(&flow, "b");
        let step = flow.step(moved_meanwhile, look, Outcome::Success);
        assert_eq!(step.after, moved_meanwhile);
        assert_eq!(
            (step.from, step.to),
            (moved_meanwhile.state, moved_meanwhile.state)
        );
    }

    #[test]
    fn a_refusal_is_debugged_without_its_workflow() {
        let flow = flow();
        let refused = flow.admit(flow.initial(), Kind::Tool, "fin").unwrap_err();
        let told = format!("{refused:?}");
        assert!(
            told.contains("NotInState") && !told.contains("search"),
            "{told}"
        );
    }
}
