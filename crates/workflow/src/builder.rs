//! Writes a workflow in Rust.
//!
//! Nothing here fails: the builder collects what it is told into a [`Draft`], and
//! [`Builder::build`] reports all that is wrong with it at once.

use crate::{
    Artifact, Catalogue, Draft, DraftAlways, DraftBinding, DraftEdge, DraftState, Invalid, Kind,
    Outcome, Settings, Workflow,
};
use std::{fmt, time::Duration};

impl Workflow {
    /// Begins a workflow of this name.
    ///
    /// ```
    /// use interlock_workflow::{Workflow, end, to};
    /// use std::time::Duration;
    ///
    /// let refund = Workflow::builder("refund")
    ///     .state("new", |s| s.initial().tool("lookup_order", |t| t.success("found")))
    ///     .state("found", |s| {
    ///         s.tool("refund", |t| {
    ///             t.success("paid")
    ///                 .error("found")
    ///                 .timeout(to("review").effect("call_a_manager"))
    ///                 .deadline(Duration::from_secs(10))
    ///         })
    ///         .resource("note://rules", |r| r.success("found"))
    ///         .prompt("apologise", |p| p.success("found"))
    ///     })
    ///     .state("review", |s| s.tool("close", |t| t.success(end("review"))))
    ///     .state("paid", |s| s.terminal())
    ///     .always_tool("search")
    ///     .build()?;
    /// assert!(refund.warnings().is_empty());
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            draft: Draft {
                name: name.into(),
                ..Draft::default()
            },
        }
    }
}

/// Collects a workflow. See [`Workflow::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    draft: Draft,
}

impl Builder {
    /// What it is for.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.draft.description = Some(text.into());
        self
    }

    /// How it is served.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.draft.settings = settings;
        self
    }

    /// Defines a state, or adds to one that was defined before.
    ///
    /// A target that is never defined is a state in which nothing is bound.
    pub fn state(
        mut self,
        name: impl Into<String>,
        define: impl FnOnce(StateBuilder) -> StateBuilder,
    ) -> Self {
        let empty = StateBuilder {
            state: DraftState {
                name: name.into(),
                ..DraftState::default()
            },
        };
        self.draft.states.push(define(empty).state);
        self
    }

    /// Makes a tool callable in every state. It never moves one.
    pub fn always_tool(self, name: impl Into<String>) -> Self {
        self.always(Kind::Tool, name)
    }

    /// Makes a resource readable in every state. It never moves one.
    pub fn always_resource(self, uri: impl Into<String>) -> Self {
        self.always(Kind::Resource, uri)
    }

    /// Makes a prompt usable in every state. It never moves one.
    pub fn always_prompt(self, name: impl Into<String>) -> Self {
        self.always(Kind::Prompt, name)
    }

    /// Makes an artifact of any kind callable in every state.
    pub fn always(mut self, kind: Kind, name: impl Into<String>) -> Self {
        self.draft.always.push(DraftAlways {
            artifact: Artifact::new(kind, name),
            span: None,
        });
        self
    }

    /// Makes everything that is bound nowhere callable in every state.
    pub fn always_everything(mut self) -> Self {
        self.draft.always_everything = true;
        self
    }

    /// Judges the workflow. All that is wrong is in the error; warnings are at
    /// [`Workflow::warnings`].
    ///
    /// ```
    /// use interlock_workflow::Workflow;
    ///
    /// let invalid = Workflow::builder("loop")
    ///     .state("a", |s| s.tool("go", |t| t.success("b").success("c")))
    ///     .build()
    ///     .unwrap_err();
    /// let codes: Vec<_> = invalid.errors().map(|error| error.problem.code()).collect();
    /// assert_eq!(codes, ["two-edges", "no-initial-state"]);
    /// ```
    pub fn build(self) -> Result<Workflow, Invalid> {
        self.draft.build(None)
    }

    /// Judges the workflow together with what the server has.
    pub fn build_for(self, catalogue: &Catalogue) -> Result<Workflow, Invalid> {
        self.draft.build(Some(catalogue))
    }

    /// What was collected so far.
    pub fn into_draft(self) -> Draft {
        self.draft
    }
}

/// Collects one state. See [`Builder::state`].
#[derive(Clone, Debug)]
#[must_use = "what is said of a state counts only if it is returned"]
pub struct StateBuilder {
    state: DraftState,
}

impl StateBuilder {
    /// Instances start here.
    pub fn initial(mut self) -> Self {
        self.state.initial = true;
        self
    }

    /// Every edge into this state ends the workflow.
    pub fn terminal(mut self) -> Self {
        self.state.terminal = true;
        self
    }

    /// What it means.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.state.description = Some(text.into());
        self
    }

    /// Makes a tool callable here.
    pub fn tool(
        self,
        name: impl Into<String>,
        define: impl FnOnce(BindingBuilder) -> BindingBuilder,
    ) -> Self {
        self.bind(Kind::Tool, name, define)
    }

    /// Makes a resource readable here.
    pub fn resource(
        self,
        uri: impl Into<String>,
        define: impl FnOnce(BindingBuilder) -> BindingBuilder,
    ) -> Self {
        self.bind(Kind::Resource, uri, define)
    }

    /// Makes a prompt usable here.
    pub fn prompt(
        self,
        name: impl Into<String>,
        define: impl FnOnce(BindingBuilder) -> BindingBuilder,
    ) -> Self {
        self.bind(Kind::Prompt, name, define)
    }

    /// Makes an artifact of any kind callable here.
    pub fn bind(
        mut self,
        kind: Kind,
        name: impl Into<String>,
        define: impl FnOnce(BindingBuilder) -> BindingBuilder,
    ) -> Self {
        let empty = BindingBuilder {
            binding: DraftBinding {
                artifact: Artifact::new(kind, name),
                span: None,
                edges: Vec::new(),
                deadline: None,
            },
        };
        self.state.bindings.push(define(empty).binding);
        self
    }
}

/// Collects one binding: where its outcomes lead. See [`StateBuilder::tool`].
#[derive(Clone, Debug)]
#[must_use = "what is said of a binding counts only if it is returned"]
pub struct BindingBuilder {
    binding: DraftBinding,
}

impl BindingBuilder {
    /// Where it leads when it did what it was asked. Left out: stay.
    pub fn success(self, target: impl Into<Target>) -> Self {
        self.on(Outcome::Success, target)
    }

    /// Where it leads when it failed. Left out: stay.
    pub fn error(self, target: impl Into<Target>) -> Self {
        self.on(Outcome::Error, target)
    }

    /// Where it leads when its deadline passed. Left out: as an error.
    pub fn timeout(self, target: impl Into<Target>) -> Self {
        self.on(Outcome::Timeout, target)
    }

    /// Where it leads when the client took the call back. Left out: stay.
    pub fn cancelled(self, target: impl Into<Target>) -> Self {
        self.on(Outcome::Cancelled, target)
    }

    /// Where it leads when nobody knows what it did. Left out: as an error.
    pub fn unknown(self, target: impl Into<Target>) -> Self {
        self.on(Outcome::Unknown, target)
    }

    /// Where any outcome leads.
    pub fn on(mut self, outcome: Outcome, target: impl Into<Target>) -> Self {
        let Target {
            to,
            terminal,
            effects,
        } = target.into();
        self.binding.edges.push(DraftEdge {
            outcome,
            to,
            terminal,
            effects,
            span: None,
        });
        self
    }

    /// How long it may run, if that differs from the tool's own time.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.binding.deadline = Some(deadline);
        self
    }
}

/// Where an edge leads, as written. A plain name is an edge that goes on.
///
/// ```
/// use interlock_workflow::{Target, end, to};
///
/// assert_eq!(Target::from("paid"), to("paid"));
/// assert_eq!(to("paid").to_string(), "\"paid\"");
/// assert_eq!(end("paid").to_string(), "\"paid\" (terminal)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The name of the state.
    pub to: String,
    /// Taking the edge ends the workflow.
    pub terminal: bool,
    /// What the server does after the step, by name and in this order.
    pub effects: Vec<String>,
}

impl Target {
    /// Adds something for the server to do after the step.
    #[must_use]
    pub fn effect(mut self, name: impl Into<String>) -> Self {
        self.effects.push(name.into());
        self
    }

    /// Whether both lead to the same place, whatever happens on the way.
    pub(crate) fn leads_as(&self, other: &Self) -> bool {
        self.to == other.to && self.terminal == other.terminal
    }
}

/// An edge to this state.
pub fn to(state: impl Into<String>) -> Target {
    Target {
        to: state.into(),
        terminal: false,
        effects: Vec::new(),
    }
}

/// An edge to this state that ends the workflow, whatever else leads there.
pub fn end(state: impl Into<String>) -> Target {
    Target {
        terminal: true,
        ..to(state)
    }
}

impl From<&str> for Target {
    fn from(state: &str) -> Self {
        to(state)
    }
}

impl From<String> for Target {
    fn from(state: String) -> Self {
        to(state)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to)?;
        if self.terminal {
            f.write_str(" (terminal)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builder_writes_down_what_it_is_told_and_judges_nothing() {
        let draft = Workflow::builder("w")
            .description("for tests")
            .state("a", |s| {
                s.initial().terminal().description("both").tool("t", |t| {
                    t.success("b")
                        .success(String::from("c"))
                        .error(end("d").effect("mail").effect("log"))
                        .deadline(Duration::from_secs(3))
                })
            })
            .state("a", |s| s)
            .always_prompt("p")
            .always_everything()
            .into_draft();
        let edge = |outcome, target: Target| DraftEdge {
            outcome,
            to: target.to,
            terminal: target.terminal,
            effects: target.effects,
            span: None,
        };
        let first = DraftState {
            name: "a".to_owned(),
            span: None,
            initial: true,
            terminal: true,
            description: Some("both".to_owned()),
            bindings: vec![DraftBinding {
                artifact: Artifact::new(Kind::Tool, "t"),
                span: None,
                edges: vec![
                    edge(Outcome::Success, to("b")),
                    edge(Outcome::Success, to("c")),
                    edge(Outcome::Error, end("d").effect("mail").effect("log")),
                ],
                deadline: Some(Duration::from_secs(3)),
            }],
        };
        let second = DraftState {
            name: "a".to_owned(),
            ..DraftState::default()
        };
        let expected = Draft {
            name: "w".to_owned(),
            description: Some("for tests".to_owned()),
            states: vec![first, second],
            always: vec![DraftAlways {
                artifact: Artifact::new(Kind::Prompt, "p"),
                span: None,
            }],
            always_everything: true,
            ..Draft::default()
        };
        assert_eq!(draft, expected);
    }

    #[test]
    fn each_method_is_about_its_own_outcome_and_kind() {
        let draft = Workflow::builder("w")
            .state("a", |s| {
                s.tool("t", |t| t.timeout("x").cancelled("x").unknown("x"))
                    .resource("r", |r| r.error("x"))
                    .prompt("p", |p| p.success("x"))
            })
            .always_tool("t")
            .always_resource("r")
            .into_draft();
        let bindings = &draft.states[0].bindings;
        let kinds: Vec<_> = bindings
            .iter()
            .map(|binding| binding.artifact.kind)
            .collect();
        assert_eq!(kinds, [Kind::Tool, Kind::Resource, Kind::Prompt]);
        let edges = bindings.iter().flat_map(|binding| &binding.edges);
        let outcomes: Vec<_> = edges.map(|edge| edge.outcome).collect();
        use Outcome::{Cancelled, Error, Success, Timeout, Unknown};
        assert_eq!(outcomes, [Timeout, Cancelled, Unknown, Error, Success]);
        let always: Vec<_> = draft
            .always
            .iter()
            .map(|always| always.artifact.kind)
            .collect();
        assert_eq!(always, [Kind::Tool, Kind::Resource]);
    }
}
