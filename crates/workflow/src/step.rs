//! Where the end of a call, the passing of time or an answer takes an instance.
//!
//! Each takes a lookup or two and the guards that are asked, however many states there are.

use crate::{
    Binding, Edge, Outcome, Pass, Position, StateId, Workflow,
    guard::{Facts, Failed},
    instance::{Held, Instance, MOST_MEMORY, weight},
    intern::EdgeId,
};
use serde_json::Value;
use std::ops::Range;

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
                    artifact: binding.artifact().clone(),
                    args: end.args.clone(),
                    shortened: None,
                    principal: end.principal.clone(),
                })),
                ..Step::nowhere(instance)
            };
        }
        let facts = self.known(instance, end.args, end.result, end.principal);
        let edges = &binding.rest.routes[end.outcome.index()].edges;
        self.choose(instance, edges, &facts)
    }

    /// Where an instance goes whose time in its state has come, if it has come. One that an
    /// operator must decide about stays where it is.
    pub fn expire(&self, instance: &Instance, now: u64) -> Option<Step<'_>> {
        if instance.held().is_some() || instance.due().is_none_or(|due| now < due) {
            return None;
        }
        let timers = self.state(instance.position().state).timers();
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
        let sampling = self.state(instance.position().state).sampling()?;
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
            ..
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
            finished: true,
            ..self.to.into()
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
