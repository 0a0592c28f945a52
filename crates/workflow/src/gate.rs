//! Decides whether a call may run, and where its end leads.
//!
//! Each takes a lookup or two and the guards that are asked, however many states there are.

use crate::{
    Artifact, Binding, Edge, Kind, Outcome, Position, StateId, Workflow,
    analysis::Hop,
    guard::{Facts, Failed},
    instance::{Held, Instance, MOST_MEMORY, weight},
    intern::{EdgeId, Role, SymbolId},
    workflow::Visible,
};
use serde_json::Value;
use std::{fmt, ops::Range};

/// How many edges a refusal looks at for the way to what was wanted. A caller can provoke any
/// number of refusals, and a way that is harder to find would not help it anyway.
const SEARCH: usize = 2_000;

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

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// In which way.
    pub outcome: Outcome,
    /// What it came to, if it came to its end.
    pub result: Option<&'a Value>,
    /// What it was called with.
    pub args: &'a Value,
    /// Who called; null if nobody said.
    pub principal: &'a Value,
}

/// A call that ended so, of which nothing else is known.
impl From<Outcome> for End<'static> {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            result: None,
            args: &Value::Null,
            principal: &Value::Null,
        }
    }
}

impl Workflow {
    /// Whether an artifact is bound here, whatever it would be called with.
    ///
    /// This is what lists show. [`judge`](Self::judge) asks the guards as well.
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
            return if self.always_everything && !self.may_be_bound(kind, name) {
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

    /// What a name means here: itself, or for a URI a template that it fits. What can be called
    /// here comes first.
    pub(crate) fn symbol(&self, at: Position, kind: Kind, name: &str) -> Option<SymbolId> {
        let itself = self.symbols.find(kind, name);
        if kind != Kind::Resource || !self.symbols.has_templates() {
            return itself;
        }
        let callable = |symbol: &SymbolId| match self.symbols[*symbol].role {
            Role::Always => true,
            Role::Bound => self.binding_ids.contains_key(&(at.state, *symbol)),
        };
        if let Some(itself) = itself.filter(callable) {
            return Some(itself);
        }
        let fitting: Vec<_> = self.symbols.templates_for(name).collect();
        let here = fitting.iter().copied().find(callable);
        here.or(itself).or_else(|| fitting.first().copied())
    }

    /// Whether a URI that fits no template might still be read as one: whoever serves it may see
    /// more in it than we do. What is not known to be free is not free.
    fn may_be_bound(&self, kind: Kind, name: &str) -> bool {
        kind == Kind::Resource && self.symbols.begins_like_bound_template(name)
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
            let artifact = held.artifact.clone();
            return Err(refuse(Reason::Held { artifact }));
        }
        let most = self.state(at.state).max_visits;
        if let Some(most) = most.filter(|most| instance.visits(at.state) > *most) {
            return Err(refuse(Reason::TooManyVisits { most }));
        }
        if let Some(guard) = &binding.when {
            let facts = self.facts(instance, call.args, call.principal);
            let failed = match guard.test(&facts) {
                Ok(true) => return Ok(Pass::Bound(binding)),
                Ok(false) => None,
                Err(failed) => Some(failed),
            };
            let guard = guard.to_string();
            return Err(refuse(Reason::Guard { guard, failed }));
        }
        Ok(Pass::Bound(binding))
    }

    /// Whether the workflow names an artifact: in some state, or as always callable.
    pub fn is_bound(&self, kind: Kind, name: &str) -> bool {
        self.symbol(self.initial(), kind, name).is_some()
    }

    /// Whether an artifact is callable in every state, so that no instance is needed to call it.
    pub fn is_always(&self, kind: Kind, name: &str) -> bool {
        match self.symbol(self.initial(), kind, name) {
            Some(symbol) => self.symbols[symbol].role == Role::Always,
            None => self.always_everything,
        }
    }

    /// Where an instance goes when a call ends. [`Instance::apply`] takes it there.
    ///
    /// A call that stays, stays where the instance is now, which is where it was admitted unless
    /// it ran beside others because it cannot [move](Binding::moves).
    pub fn step<'a>(
        &'a self,
        instance: &Instance,
        binding: &'a Binding,
        end: &End<'_>,
    ) -> Step<'a> {
        if end.outcome == Outcome::Unknown && binding.hold {
            return Step {
                held: Some(Box::new(Held {
                    artifact: binding.artifact.clone(),
                    args: end.args.clone(),
                    principal: end.principal.clone(),
                })),
                ..Step::nowhere(instance)
            };
        }
        let facts = self.known(instance, end.args, end.result, end.principal);
        let edges = &binding.routes[end.outcome.index()].edges;
        self.choose(instance, edges, &facts)
    }

    /// Where an instance goes whose time in its state has come, if it has come. One that an
    /// operator must decide about stays where it is.
    pub fn expire(&self, instance: &Instance, now: u64) -> Option<Step<'_>> {
        if instance.held().is_some() || instance.due().is_none_or(|due| now < due) {
            return None;
        }
        let timers = &self.state(instance.position().state).timers;
        let timer = timers.get(instance.fired())?;
        let facts = self.known(instance, &Value::Null, None, &Value::Null);
        Some(self.choose(instance, &timer.edges, &facts))
    }

    /// Where an instance goes when the client's model has answered, or has not.
    ///
    /// It is asked when a [`Step`] says so. `None` if the state asks nothing.
    pub fn sampled(
        &self,
        instance: &Instance,
        answer: Option<&Value>,
        principal: &Value,
    ) -> Option<Step<'_>> {
        let sampling = self.state(instance.position().state).sampling.as_ref()?;
        let edges = match answer {
            Some(_) => &sampling.success,
            None => &sampling.error,
        };
        let facts = self.known(instance, &Value::Null, answer, principal);
        Some(self.choose(instance, edges, &facts))
    }

    /// Where an instance that is held goes when an operator has found out how its call ended.
    ///
    /// Nobody is there to be asked anything, so no state on the way asks the client's model.
    /// `None` if it is not held, or if the operator knows no more than that it is unknown.
    pub fn settle(
        &self,
        instance: &Instance,
        outcome: Outcome,
        result: Option<&Value>,
    ) -> Option<Step<'_>> {
        let Held {
            artifact,
            args,
            principal,
        } = instance.held()?;
        let at = instance.position();
        match (outcome, self.admit(at, artifact.kind, &artifact.name)) {
            (Outcome::Unknown, _) | (_, Ok(Pass::Always) | Err(_)) => None,
            (outcome, Ok(Pass::Bound(binding))) => {
                let end = End {
                    outcome,
                    result,
                    args,
                    principal,
                };
                Some(Step {
                    held: None,
                    asks: false,
                    ..self.step(instance, binding, &end)
                })
            }
        }
    }

    /// Where an instance goes that is put into a state by somebody who may. It comes there as by
    /// an edge, and a terminal state ends it; no call is left to be decided about.
    ///
    /// ```
    /// use interlock_workflow::{Workflow, end};
    ///
    /// let flow = Workflow::builder("hello")
    ///     .state("new", |s| s.initial().tool("greet", |t| t.success("met")))
    ///     .state("met", |s| s.tool("leave", |t| t.success(end("new"))))
    ///     .build()?;
    /// let met = flow.state_id("met").expect("it is defined");
    /// let mut instance = flow.start(7);
    /// let step = flow.put(&instance, met);
    /// instance.apply(&flow, &step, 8);
    /// assert_eq!((instance.position().state, instance.visits(met)), (met, 1));
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn put(&self, instance: &Instance, to: StateId) -> Step<'_> {
        let terminal = self.state(to).is_terminal();
        let after = self.after_coming_to(to, terminal);
        Step {
            to,
            terminal,
            enters: !after.finished,
            held: None,
            after,
            ..Step::nowhere(instance)
        }
    }

    /// Where an instance goes that takes this edge, whatever its guard says: for what plays a
    /// path that assumes it.
    pub fn take(&self, instance: &Instance, edge: EdgeId, end: &End<'_>) -> Step<'_> {
        let facts = self.known(instance, end.args, end.result, end.principal);
        self.follow(instance, edge, self.edge(edge), &facts, Vec::new())
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

    fn known<'a>(
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

    /// Takes the first edge whose guard is true. A guard that fails counts as false, and is told.
    fn choose(&self, instance: &Instance, edges: &Range<usize>, facts: &Facts<'_>) -> Step<'_> {
        let mut faults = Vec::new();
        for (id, edge) in self.numbered(edges.clone()) {
            let taken = match edge.when.as_ref().map(|guard| guard.test(facts)) {
                None | Some(Ok(true)) => true,
                Some(Ok(false)) => false,
                Some(Err(failed)) => {
                    faults.push(Fault::Guard { edge: id, failed });
                    false
                }
            };
            if taken {
                return self.follow(instance, id, edge, facts, faults);
            }
        }
        Step {
            faults,
            ..Step::nowhere(instance)
        }
    }

    fn follow<'a>(
        &'a self,
        instance: &Instance,
        id: EdgeId,
        edge: &'a Edge,
        facts: &Facts<'_>,
        mut faults: Vec<Fault>,
    ) -> Step<'a> {
        let set = remembered(instance, id, edge, facts, &mut faults);
        let at = instance.position();
        let stays = edge.stays();
        let after = if stays { at } else { self.after(edge) };
        let enters = !stays && !after.finished;
        Step {
            from: at.state,
            to: if stays { at.state } else { edge.to },
            terminal: edge.terminal,
            taken: Some(id),
            enters,
            asks: enters && self.asks(edge, after.state),
            set,
            effects: &edge.effects,
            held: instance.held.clone(),
            faults,
            after,
        }
    }
}

/// Works out what the instance remembers, within its bounds.
fn remembered<'a>(
    instance: &Instance,
    id: EdgeId,
    edge: &'a Edge,
    facts: &Facts<'_>,
    faults: &mut Vec<Fault>,
) -> Vec<(&'a str, Option<Value>)> {
    if edge.set.is_empty() {
        return Vec::new();
    }
    let kept = |key: &str| edge.set.iter().all(|(set, _)| **set != *key);
    let mut room = MOST_MEMORY.saturating_sub(instance.memory_size(kept));
    let mut set = Vec::with_capacity(edge.set.len());
    for (key, rule) in &edge.set {
        let worked_out = rule.evaluate(facts).and_then(|value| {
            let size = weight(key, &value).ok_or(Failed::TooLarge)?;
            match room.checked_sub(size) {
                Some(left) => {
                    room = left;
                    Ok(value)
                }
                None => Err(Failed::TooLarge),
            }
        });
        let value = worked_out.map_err(|failed| {
            faults.push(Fault::Set {
                edge: id,
                key: key.to_string(),
                failed,
            });
        });
        set.push((&**key, value.ok()));
    }
    set
}

/// Why a call may run.
#[derive(Clone, Copy, Debug)]
pub enum Pass<'a> {
    /// It is callable in every state and moves none.
    Always,
    /// The state binds it.
    Bound(&'a Binding),
}

/// What the end of a call, the passing of time or an answer does to an instance.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step<'a> {
    /// The state before.
    pub from: StateId,
    /// The state that the edge leads to.
    pub to: StateId,
    /// It ends the workflow.
    pub terminal: bool,
    /// The edge that was taken; none if nobody wrote one, and the instance stays.
    pub taken: Option<EdgeId>,
    /// It comes into a state, be it the initial one of a new run.
    pub enters: bool,
    /// The client's model is asked next, within the call that led here.
    pub asks: bool,
    /// What the instance remembers from now on, by key. What could not be worked out is
    /// forgotten: an old value would be taken for the new one.
    pub set: Vec<(&'a str, Option<Value>)>,
    /// What the server does next, by name and in this order.
    pub effects: &'a [String],
    /// Nobody knows what a call did, and the instance waits for an operator. Boxed, for it is large
    /// and nearly always absent.
    pub held: Option<Box<Held>>,
    /// What could not be worked out, for the journal.
    pub faults: Vec<Fault>,
    /// Where the instance stands now: at `to`, or after an end where the workflow says.
    pub after: Position,
}

impl Step<'_> {
    /// The same step of an instance that stays finished after an end, whatever the settings say.
    #[must_use]
    pub fn finishing(self) -> Self {
        if !self.terminal {
            return self;
        }
        let after = Position {
            state: self.to,
            finished: true,
        };
        Self {
            enters: false,
            asks: false,
            after,
            ..self
        }
    }

    /// Nothing happens.
    pub(crate) fn nowhere(instance: &Instance) -> Self {
        let after = instance.position();
        Self {
            from: after.state,
            to: after.state,
            terminal: false,
            taken: None,
            enters: false,
            asks: false,
            set: Vec::new(),
            effects: &[],
            held: instance.held.clone(),
            faults: Vec::new(),
            after,
        }
    }
}

/// Something that could not be worked out. It stands in nobody's way; the journal tells it.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A guard, which then counted as false.
    Guard {
        /// The edge it belongs to.
        edge: EdgeId,
        /// Why.
        failed: Failed,
    },
    /// A value to remember, which then is forgotten.
    Set {
        /// The edge it belongs to.
        edge: EdgeId,
        /// The key.
        key: String,
        /// Why.
        failed: Failed,
    },
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
    },
    /// The instance has come to this state too often.
    TooManyVisits {
        /// How often it may.
        most: u32,
    },
    /// The guard is not true of this call.
    Guard {
        /// The guard.
        guard: String,
        /// Why it has no answer, if it has none.
        failed: Option<Failed>,
    },
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
            Reason::TooManyVisits { .. } | Reason::Guard { .. } => 1082,
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
    pub fn allowed(&self, kind: Kind) -> Visible<'a> {
        let nothing_bound = match self.reason {
            Reason::Held { .. } | Reason::TooManyVisits { .. } | Reason::Finished => true,
            Reason::NotInState | Reason::Guard { .. } => false,
        };
        let at = Position {
            finished: nothing_bound,
            ..self.at
        };
        self.workflow.visible(at, kind)
    }

    /// The shortest way to where it is callable, if there is one that is not too hard to find and
    /// it is not callable here, with other arguments or at another time.
    pub fn path(&self) -> Option<Vec<Hop<'a>>> {
        let Artifact { kind, name } = &self.wanted;
        match self.reason {
            Reason::NotInState => self.workflow.path_within(self.at, *kind, name, SEARCH),
            Reason::Finished
            | Reason::Held { .. }
            | Reason::TooManyVisits { .. }
            | Reason::Guard { .. } => None,
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
            Reason::Held { artifact } => write!(
                f,
                "{wanted} is not allowed: nobody knows what {artifact} did, and an operator must \
                 decide"
            ),
            Reason::TooManyVisits { most } => write!(
                f,
                "{wanted} is not allowed: state {state:?} may be visited {}",
                times(*most)
            ),
            Reason::Guard { guard, failed } => {
                write!(f, "{wanted} is not allowed with these arguments: {guard}")?;
                match failed {
                    None => f.write_str(" is not true"),
                    Some(failed) => write!(f, " has no answer: {failed}"),
                }
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
