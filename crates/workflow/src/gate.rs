//! Decides whether a call may run. Where its end leads, `step.rs` says.
//!
//! Each takes a lookup or two and the guards that are asked, however many states there are.

use crate::{
    Artifact, Binding, Finish, Kind, Position, Workflow,
    analysis::Hop,
    guard::{Facts, Failed},
    instance::Instance,
    intern::{Role, SymbolId},
};
use serde_json::Value;
use std::fmt;

/// How many edges a refusal looks at for the way to what was wanted. A caller can provoke any
/// number of refusals, and a way that is harder to find would not help it anyway.
const SEARCH: usize = 2_000;

/// How many bindings of a state are looked through one by one.
const FEW: usize = 16;

/// A call that somebody wants to make.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What kind of thing is called.
    pub kind: Kind,
    /// Its name; for a resource, its URI.
    pub name: &'a str,
    /// Its arguments.
    pub args: &'a Value,
    /// Who calls; null if nobody said.
    pub principal: &'a Value,
}

impl Workflow {
    /// Whether an artifact is bound here, whatever it would be called with.
    ///
    /// [`judge`](Self::judge) also asks whether the instance is [blocked](Position::blocked), and
    /// the guards. Lists show what is bound unless it is blocked; guards never hide.
    ///
    /// ```
    /// use interlock_workflow::{Kind, Pass, Workflow};
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
    /// assert!(matches!(refund.admit(at, Kind::Tool, "lookup_order"), Ok(Pass::Bound(_))));
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn admit(&self, at: Position, kind: Kind, name: &str) -> Result<Pass<'_>, Refused<'_>> {
        let refuse = |reason| Refused {
            workflow: self,
            reason,
            at,
            wanted: Artifact::new(kind, name),
        };
        let Some(symbol) = self.symbol(at, kind, name) else {
            return if self.lets_through(kind, name) {
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
            Role::Bound => match self.bound_at(at, symbol) {
                Some(binding) => Ok(Pass::Bound(binding)),
                None => Err(refuse(Reason::NotInState)),
            },
        }
    }

    /// What binds an artifact here, if the state does: then [`admit`](Self::admit) says the same.
    pub fn bound_at(&self, at: Position, symbol: SymbolId) -> Option<&Binding> {
        if at.finished {
            return None;
        }
        // Most states bind so little that looking through it is quicker than looking it up.
        let here = self.state(at.state).bindings.clone();
        let id = match here.len() <= FEW {
            true => self.bound[here.clone()]
                .iter()
                .position(|bound| *bound == symbol)
                .map(|place| here.start + place),
            false => self.binding_ids.get(&(at.state, symbol)).copied(),
        };
        id.map(|id| &self.bindings[id])
    }

    /// The number of a tool or a prompt, if the workflow names it: it means the same in every state.
    /// What a URI means depends on the state, since several templates may fit it.
    ///
    /// ```
    /// use interlock_workflow::{Kind, Workflow, end};
    ///
    /// let flow = Workflow::builder("hello")
    ///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("new"))))
    ///     .build()?;
    /// let greet = flow.symbol_of(Kind::Tool, "greet").expect("it is named");
    /// assert!(flow.bound_at(flow.initial(), greet).is_some());
    /// assert_eq!(flow.symbol_of(Kind::Tool, "leave"), None);
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn symbol_of(&self, kind: Kind, name: &str) -> Option<SymbolId> {
        match kind {
            Kind::Tool | Kind::Prompt => self.symbols.find(kind, name),
            Kind::Resource => None,
        }
    }

    /// What a name means here. What can be called here comes first.
    pub(crate) fn symbol(&self, at: Position, kind: Kind, name: &str) -> Option<SymbolId> {
        let callable = |symbol: &SymbolId| match self.symbols[*symbol].role {
            Role::Always => true,
            Role::Bound => self.binding_ids.contains_key(&(at.state, *symbol)),
        };
        let mut meanings = self.meanings(kind, name);
        let first = meanings.next()?;
        match callable(&first) {
            true => Some(first),
            false => meanings.find(callable).or(Some(first)),
        }
    }

    /// Everything that a name can mean: itself, and for a URI each template that it fits.
    fn meanings<'a>(&'a self, kind: Kind, name: &'a str) -> impl Iterator<Item = SymbolId> + 'a {
        let itself = self.symbols.find(kind, name);
        let fitting = (kind == Kind::Resource).then(|| self.symbols.templates_for(name));
        itself.into_iter().chain(fitting.into_iter().flatten())
    }

    /// Whether what the workflow does not name is callable in every state. Whoever serves a URI may
    /// see more in it than the gate does, so one that begins like those of a bound template is not.
    fn lets_through(&self, kind: Kind, name: &str) -> bool {
        let may_be_bound =
            || kind == Kind::Resource && self.symbols.begins_like_bound_template(name);
        self.always_everything && !may_be_bound()
    }

    /// Whether a call may run: the state binds it, the instance is free to go on, and its guard
    /// is true.
    ///
    /// ```
    /// use interlock_workflow::{Call, End, Kind, Outcome, Pass, Workflow, to};
    /// use serde_json::{Value, json};
    ///
    /// let refund = Workflow::builder("refund")
    ///     .state("new", |s| {
    ///         s.initial().tool("lookup", |t| t.success(to("found").set("order", "args.order")))
    ///     })
    ///     .state("found", |s| s.tool("refund", |t| t.when("args.order == ctx.order").success("paid")))
    ///     .state("paid", |s| s.terminal())
    ///     .build()?;
    /// let call = |name, args| Call { kind: Kind::Tool, name, args, principal: &Value::Null };
    ///
    /// let mut instance = refund.start(0);
    /// let args = json!({ "order": "A-1" });
    /// let Ok(Pass::Bound(lookup)) = refund.judge(&instance, &call("lookup", &args)) else { panic!() };
    /// let end = End { args: &args, ..End::from(Outcome::Success) };
    /// let step = refund.step(&instance, lookup, &end);
    /// instance.apply(&refund, &step, 0);
    ///
    /// assert!(refund.judge(&instance, &call("refund", &args)).is_ok());
    /// let other = json!({ "order": "B-2" });
    /// let refused = refund.judge(&instance, &call("refund", &other)).unwrap_err();
    /// assert_eq!(refused.code(), 1082);
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn judge(&self, instance: &Instance, call: &Call<'_>) -> Result<Pass<'_>, Refused<'_>> {
        match self.admit(instance.position(), call.kind, call.name)? {
            Pass::Always => Ok(Pass::Always),
            Pass::Bound(binding) => self.judge_bound(instance, binding, call),
        }
    }

    /// As [`judge`](Self::judge), for whoever knows what the call is bound to in the state in which
    /// the instance is.
    ///
    /// # Errors
    ///
    /// If it may not run, and why.
    pub fn judge_bound<'w>(
        &'w self,
        instance: &Instance,
        binding: &'w Binding,
        call: &Call<'_>,
    ) -> Result<Pass<'w>, Refused<'w>> {
        let at = instance.position();
        let refuse = |reason| Refused {
            workflow: self,
            reason,
            at,
            wanted: Artifact::new(call.kind, call.name),
        };
        if let Some(held) = instance.held() {
            return Err(refuse(Reason::Held {
                artifact: held.artifact.clone(),
                forgot_args: held.shortened.is_some(),
            }));
        }
        if !binding.conditional {
            return Ok(Pass::Bound(binding));
        }
        if let Some(most) = instance.is_used_up(self) {
            return Err(refuse(Reason::TooManyVisits { most }));
        }
        if let Some(guard) = binding.when() {
            let facts = self.facts(instance, call.args, call.principal);
            let failed = match guard.test(&facts) {
                Ok(true) => return Ok(Pass::Bound(binding)),
                Ok(false) => None,
                Err(failed) => Some(failed),
            };
            return Err(refuse(Reason::Guard(Box::new(UntrueGuard {
                guard: guard.to_string(),
                failed,
                otherwise: binding.otherwise().map(|text| text.fill(&facts)),
            }))));
        }
        Ok(Pass::Bound(binding))
    }

    /// How the workflow writes the name of an artifact that it names itself: a URI can be written in
    /// several ways.
    ///
    /// ```
    /// use interlock_workflow::{Kind, Workflow, end};
    ///
    /// let flow = Workflow::builder("web")
    ///     .state("new", |s| s.initial().resource("http://example.com", |r| r.success(end("new"))))
    ///     .build()?;
    /// let named = flow.name_of(Kind::Resource, "HTTP://example.com/");
    /// assert_eq!(named, Some("http://example.com"));
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn name_of(&self, kind: Kind, name: &str) -> Option<&str> {
        let symbol = self.symbols.find(kind, name)?;
        Some(&self.symbols[symbol].name)
    }

    /// Whether the workflow names an artifact: in some state, or as always callable.
    pub fn is_bound(&self, kind: Kind, name: &str) -> bool {
        self.meanings(kind, name).next().is_some()
    }

    /// Whether an artifact is callable in every state, so that no instance is needed to call it:
    /// then, and only then, [`admit`](Self::admit) says so of every position.
    pub fn is_always(&self, kind: Kind, name: &str) -> bool {
        match self.meanings(kind, name).next() {
            // What is always callable is so everywhere, and what is bound is so somewhere.
            Some(first) => self.symbols[first].role == Role::Always,
            None => self.lets_through(kind, name),
        }
    }

    /// What is known of a call before it runs: for the texts that a person or a model is shown.
    pub fn facts<'a>(
        &'a self,
        instance: &'a Instance,
        args: &'a Value,
        principal: &'a Value,
    ) -> Facts<'a> {
        self.known(instance, args, None, principal)
    }

    pub(crate) fn known<'a>(
        &'a self,
        instance: &'a Instance,
        args: &'a Value,
        result: Option<&'a Value>,
        principal: &'a Value,
    ) -> Facts<'a> {
        let state = instance.position().state;
        Facts {
            args,
            result,
            ctx: instance.memory(),
            principal,
            state: self.state_name(state),
            visits: instance.visits(state),
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

/// Why a call may not run.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The state does not bind it.
    NotInState,
    /// The instance is finished.
    Finished,
    /// Nobody knows what a call did, and an operator must decide.
    Held {
        /// What was called.
        artifact: Artifact,
        /// Its arguments were too large to keep.
        forgot_args: bool,
    },
    /// The instance has come to this state too often.
    TooManyVisits {
        /// How often it may.
        most: u32,
    },
    /// The guard is not true of this call.
    Guard(Box<UntrueGuard>),
}

/// A guard that was not true of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UntrueGuard {
    /// The guard.
    pub guard: String,
    /// Why it has no answer, if it has none.
    pub failed: Option<Failed>,
    /// What the author of the workflow has to say to the caller.
    pub otherwise: Option<String>,
}

/// What the caller is told: the author's words, if there are any.
impl fmt::Display for UntrueGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let guard = &self.guard;
        match (&self.otherwise, &self.failed) {
            (Some(words), _) => f.write_str(words),
            (None, None) => write!(f, "{guard} is not true"),
            (None, Some(failed)) => write!(f, "{guard} has no answer: {failed}"),
        }
    }
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
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// The number of this refusal in the catalogue of refusals.
    pub fn code(&self) -> u16 {
        match self.reason {
            Reason::NotInState => 1081,
            Reason::TooManyVisits { .. } | Reason::Guard(_) => 1082,
            Reason::Held { .. } => 1084,
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
    pub fn allowed(&self, kind: Kind) -> impl Iterator<Item = &'a str> + '_ {
        let visible = self.workflow.visible(self.at, kind);
        visible.filter(move |name| kind != self.wanted.kind || *name != self.wanted.name)
    }

    /// The shortest way to where it is callable, if there is one that is not too hard to find and
    /// it is not callable here, with other arguments or at another time.
    pub fn path(&self) -> Option<Vec<Hop<'a>>> {
        self.path_if(self.workflow.settings().after_end())
    }

    /// The same for an instance to which this happens after an end, whatever the settings say.
    pub fn path_if(&self, finish: Finish) -> Option<Vec<Hop<'a>>> {
        let Artifact { kind, name } = &self.wanted;
        match self.reason {
            Reason::NotInState => {
                let wanted = (*kind, &**name);
                self.workflow.path_within(self.at, wanted, SEARCH, finish)
            }
            Reason::Finished
            | Reason::Held { .. }
            | Reason::TooManyVisits { .. }
            | Reason::Guard(_) => None,
        }
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wanted, state) = (&self.wanted, self.state());
        match &self.reason {
            Reason::NotInState => write!(f, "{wanted} is not allowed in state {state:?}"),
            Reason::Finished => write!(
                f,
                "{wanted} is not allowed: the workflow ended in state {state:?}"
            ),
            Reason::Held { artifact, .. } => write!(
                f,
                "{wanted} is not allowed: nobody knows what {artifact} did, and an operator must \
                 decide"
            ),
            Reason::TooManyVisits { most } => write!(
                f,
                "{wanted} is not allowed: state {state:?} may be visited {}",
                times(*most)
            ),
            Reason::Guard(why) => {
                write!(f, "{wanted} is not allowed with these arguments: {why}")
            }
        }
    }
}

/// `once`, `2 times`.
fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        _ => format!("{count} times"),
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
mod tests;
