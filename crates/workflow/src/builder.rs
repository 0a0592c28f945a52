//! Writes a workflow in Rust.
//!
//! Nothing here fails: the builder collects what it is told into a [`Draft`], and
//! [`Builder::build`] reports all that is wrong with it at once.

use crate::{
    Artifact, Catalogue, Draft, DraftAlways, DraftApproval, DraftBinding, DraftEdge, DraftMessage,
    DraftSampling, DraftState, DraftText, DraftTimer, DraftVisits, Expression, Invalid, Kind,
    Outcome, Place, Role, Settings, Targets, Workflow,
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
    ///     .state("new", |s| {
    ///         s.initial()
    ///             .tool("lookup_order", |t| t.success(to("found").set("order", "args.order")))
    ///     })
    ///     .state("found", |s| {
    ///         s.tool("refund", |t| {
    ///             t.when("args.order == ctx.order && args.amount > 0")
    ///                 .approve("Refund {{args.amount}} for order {{ctx.order}}?")
    ///                 .success(to("found").when("result.structuredContent.partial == true"))
    ///                 .success("paid")
    ///                 .timeout(to("review").effect("call_a_manager"))
    ///                 .hold()
    ///                 .deadline(Duration::from_secs(10))
    ///         })
    ///         .resource("note://rules", |r| r.success("found"))
    ///         .prompt("apologise", |p| p.success("found"))
    ///         .after(Duration::from_secs(1_800), "expired")
    ///     })
    ///     .state("review", |s| s.max_visits(3).tool("close", |t| t.success(end("review"))))
    ///     .state("paid", |s| s.terminal())
    ///     .state("expired", |s| s.terminal())
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

    /// Defines a state, or adds to one that was defined before. What both say must be the same.
    ///
    /// A target that is never defined is a state in which nothing is bound; see
    /// [`closed`](Self::closed).
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
            place: Place::default(),
        });
        self
    }

    /// Makes everything that is bound nowhere callable in every state.
    pub fn always_everything(mut self) -> Self {
        self.draft.always_everything = true;
        self
    }

    /// Makes every target an error that is not defined, as in a file.
    ///
    /// Without this such a target is a state in which nothing is bound, unless its name is nearly that
    /// of a state that is defined.
    ///
    /// ```
    /// use interlock_workflow::Workflow;
    ///
    /// let shop = Workflow::builder("shop")
    ///     .state("cart", |s| s.initial().tool("pay", |t| t.success("paid").error("crat")))
    ///     .state("paid", |s| s.terminal());
    /// let invalid = shop.build().unwrap_err();
    /// assert_eq!(invalid.findings[0].problem.help().unwrap(), "did you mean \"cart\"?");
    ///
    /// let shop = Workflow::builder("shop")
    ///     .state("cart", |s| s.initial().tool("pay", |t| t.success("paid").error("broke")))
    ///     .state("paid", |s| s.terminal());
    /// assert_eq!(shop.clone().build()?.warnings()[0].problem.code(), "trap");
    /// let invalid = shop.closed().build().unwrap_err();
    /// assert_eq!(invalid.findings[0].problem.code(), "unknown-target");
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn closed(mut self) -> Self {
        self.draft.targets = Targets::Closed;
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

    /// What the model is told when an instance comes here. `{{ctx.order}}` is filled in.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.state.instructions = Some(plain(text));
        self
    }

    /// How often an instance may come here: on a later visit nothing can be called.
    ///
    /// An edge that stays is no visit, and a restart begins to count anew.
    pub fn max_visits(mut self, most: u32) -> Self {
        let place = Place::default();
        self.state.max_visits = Some(DraftVisits { most, place });
        self
    }

    /// Where an instance goes that has been here so long.
    ///
    /// An edge that stays does not wind the clock up again. Several targets for one duration are
    /// tried in order, as for an outcome.
    ///
    /// ```
    /// use interlock_workflow::{Workflow, to};
    /// use std::time::Duration;
    ///
    /// let day = Duration::from_secs(24 * 60 * 60);
    /// let flow = Workflow::builder("offer")
    ///     .state("open", |s| {
    ///         s.initial()
    ///             .tool("accept", |t| t.success("accepted"))
    ///             .after(day, to("open_again").when("visits < 3"))
    ///             .after(day, "lapsed")
    ///     })
    ///     .state("open_again", |s| s.tool("renew", |t| t.success("open")))
    ///     .state("accepted", |s| s.terminal())
    ///     .state("lapsed", |s| s.terminal())
    ///     .build()?;
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn after(mut self, after: Duration, target: impl Into<Target>) -> Self {
        let target = target.into();
        match self
            .state
            .timers
            .iter_mut()
            .find(|timer| timer.after == after)
        {
            Some(timer) => timer.targets.push(target),
            None => self.state.timers.push(DraftTimer {
                after,
                targets: vec![target],
                place: Place::default(),
            }),
        }
        self
    }

    /// Asks the client's model when a call brings an instance here; its answer can lead on.
    ///
    /// The answer, as the protocol's `CreateMessageResult`, is `result` in guards and values of the
    /// edges of `success`. If there is none, those of `error` are taken. What time or an operator
    /// brings here asks nothing: then this is a state like others, with its bindings.
    ///
    /// ```
    /// use interlock_workflow::{Workflow, to};
    ///
    /// let flow = Workflow::builder("triage")
    ///     .state("new", |s| s.initial().tool("report", |t| t.success(to("sort").set("what", "args.text"))))
    ///     .state("sort", |s| {
    ///         s.sampling(500, |m| {
    ///             m.user("Is this urgent? {{ctx.what}}")
    ///                 .success(to("urgent").when("result.content.text.contains('yes')"))
    ///                 .success("later")
    ///                 .error("later")
    ///         })
    ///     })
    ///     .state("urgent", |s| s.terminal())
    ///     .state("later", |s| s.terminal())
    ///     .build()?;
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn sampling(
        mut self,
        max_tokens: u32,
        define: impl FnOnce(SamplingBuilder) -> SamplingBuilder,
    ) -> Self {
        let empty = SamplingBuilder {
            sampling: DraftSampling {
                messages: Vec::new(),
                system: None,
                max_tokens,
                edges: Vec::new(),
                place: Place::default(),
            },
        };
        self.state.sampling = Some(define(empty).sampling);
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

    /// Makes a resource readable here: one URI, or all that fit a template such as `order://{id}`.
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
            binding: DraftBinding::new(Artifact::new(kind, name)),
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

    /// When nobody knows what it did, the instance waits until an operator decides.
    pub fn hold(mut self) -> Self {
        self.binding.hold = true;
        self
    }

    /// When nobody knows what it did, it can be run again: unless it is said where that leads, the
    /// instance stays where it is.
    pub fn idempotent(mut self) -> Self {
        self.binding.idempotent = true;
        self
    }

    /// Where any outcome leads.
    ///
    /// Said more than once, the targets of one outcome are tried in this order; all but the last
    /// need a [`when`](Target::when), and the last may have none.
    pub fn on(mut self, outcome: Outcome, target: impl Into<Target>) -> Self {
        let target = target.into();
        self.binding.edges.push(DraftEdge { outcome, target });
        self
    }

    /// What must be true of a call before it runs: CEL over `args`, `ctx`, `principal`, `state`
    /// and `visits`, or a function in [`rust`](crate::rust).
    pub fn when(mut self, guard: impl Into<Expression>) -> Self {
        self.binding.when = Some(guard.into());
        self
    }

    /// What a caller is told whose call the guard refuses, in place of the guard. `{{args.amount}}` is
    /// filled in.
    ///
    /// ```
    /// use interlock_workflow::{Call, Kind, Workflow};
    /// use serde_json::{Value, json};
    ///
    /// let flow = Workflow::builder("till")
    ///     .state("open", |s| {
    ///         s.initial().tool("pay", |t| {
    ///             t.when("args.amount < 100").otherwise("{{args.amount}} is too much").success("paid")
    ///         })
    ///     })
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let args = json!({ "amount": 500 });
    /// let call = Call { kind: Kind::Tool, name: "pay", args: &args, principal: &Value::Null };
    /// let refused = flow.judge(&flow.start(0), &call).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "tool \"pay\" is not allowed with these arguments: 500 is too much"
    /// );
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn otherwise(mut self, text: impl Into<String>) -> Self {
        self.binding.otherwise = Some(plain(text));
        self
    }

    /// What a person must agree to before it runs, within ten minutes. `{{args.amount}}` is
    /// filled in.
    pub fn approve(self, message: impl Into<String>) -> Self {
        self.approve_within(message, APPROVAL_EXPIRES)
    }

    /// As [`approve`](Self::approve), with a time of its own.
    pub fn approve_within(mut self, message: impl Into<String>, expires: Duration) -> Self {
        self.binding.approval = Some(DraftApproval {
            message: plain(message),
            expires,
        });
        self
    }

    /// How long it may run, if that differs from the tool's own time.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.binding.deadline = Some(deadline);
        self
    }
}

/// How long an approval is waited for unless somebody says otherwise.
pub(crate) const APPROVAL_EXPIRES: Duration = Duration::from_secs(600);

/// Collects what the client's model is asked. See [`StateBuilder::sampling`].
#[derive(Clone, Debug)]
#[must_use = "what is said of a question counts only if it is returned"]
pub struct SamplingBuilder {
    sampling: DraftSampling,
}

impl SamplingBuilder {
    /// What the model is told about itself.
    pub fn system(mut self, text: impl Into<String>) -> Self {
        self.sampling.system = Some(plain(text));
        self
    }

    /// What the person says. `{{ctx.order}}` is filled in.
    pub fn user(self, text: impl Into<String>) -> Self {
        self.message(Role::User, text)
    }

    /// What the model has said.
    pub fn assistant(self, text: impl Into<String>) -> Self {
        self.message(Role::Assistant, text)
    }

    fn message(mut self, role: Role, text: impl Into<String>) -> Self {
        let text = plain(text);
        self.sampling.messages.push(DraftMessage { role, text });
        self
    }

    /// Where an answer leads. Left out: stay.
    pub fn success(self, target: impl Into<Target>) -> Self {
        self.on(Outcome::Success, target)
    }

    /// Where it leads when there is no answer. Left out: stay.
    pub fn error(self, target: impl Into<Target>) -> Self {
        self.on(Outcome::Error, target)
    }

    fn on(mut self, outcome: Outcome, target: impl Into<Target>) -> Self {
        let target = target.into();
        self.sampling.edges.push(DraftEdge { outcome, target });
        self
    }
}

fn plain(text: impl Into<String>) -> DraftText {
    DraftText {
        text: text.into(),
        place: Place::default(),
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
    /// What must be true for it to be taken; if it is not, the next one is tried.
    pub when: Option<Expression>,
    /// What the instance remembers from then on, by key.
    pub set: Vec<(String, Expression)>,
    /// What the server does after the step, by name and in this order.
    pub effects: Vec<String>,
    /// Where it stands.
    pub place: Place,
}

impl Target {
    /// Takes the edge only if this is true: CEL over `args`, `result`, `ctx`, `principal`,
    /// `state` and `visits`, or a function in [`rust`](crate::rust).
    #[must_use]
    pub fn when(mut self, guard: impl Into<Expression>) -> Self {
        self.when = Some(guard.into());
        self
    }

    /// Remembers a value in the instance, where guards find it as `ctx.key`.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Expression>) -> Self {
        self.set.push((key.into(), value.into()));
        self
    }

    /// Adds something for the server to do after the step.
    #[must_use]
    pub fn effect(mut self, name: impl Into<String>) -> Self {
        self.effects.push(name.into());
        self
    }

    /// Whether both do the same but for their effects.
    pub(crate) fn leads_as(&self, other: &Self) -> bool {
        let Self {
            to,
            terminal,
            when,
            set,
            effects: _,
            place: _,
        } = self;
        *to == other.to && *terminal == other.terminal && *when == other.when && *set == other.set
    }
}

/// An edge to this state.
pub fn to(state: impl Into<String>) -> Target {
    Target {
        to: state.into(),
        terminal: false,
        when: None,
        set: Vec::new(),
        effects: Vec::new(),
        place: Place::default(),
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
        let edge = |outcome, target: Target| DraftEdge { outcome, target };
        let first = DraftState {
            name: "a".to_owned(),
            initial: true,
            terminal: true,
            description: Some("both".to_owned()),
            bindings: vec![DraftBinding {
                edges: vec![
                    edge(Outcome::Success, to("b")),
                    edge(Outcome::Success, to("c")),
                    edge(Outcome::Error, end("d").effect("mail").effect("log")),
                ],
                deadline: Some(Duration::from_secs(3)),
                ..DraftBinding::new(Artifact::new(Kind::Tool, "t"))
            }],
            ..DraftState::default()
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
                place: Place::default(),
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
