//! What a valid workflow is made of: states, bindings, edges, timers, questions.
//!
//! A call touches what is known of one binding and two states, and of ten thousand states little
//! stays in a processor's caches. So what every call looks at has one cache line for each of them, in
//! the order in which they were written, and what a few calls look at is elsewhere.

mod debug;

use crate::{
    Artifact, BindingId, EdgeId, Facts, Outcome, Place, Position, Role, Rule, StateId,
    intern::ListId, template::Text,
};
use std::{ops::Range, sync::Arc, time::Duration};

/// One state of a [`Workflow`](crate::Workflow).
#[derive(Clone)]
#[repr(align(64))]
pub struct State {
    pub(crate) bindings: Range<usize>,
    /// Its part of the workflow's `standings`.
    pub(crate) standing: Range<usize>,
    pub(crate) lists: [ListId; 3],
    /// Whether anything may ask how often an instance has come here.
    pub(crate) counts_visits: bool,
    /// Whether there is a limit to that.
    pub(crate) limits_visits: bool,
    /// Whether it has timers.
    pub(crate) is_timed: bool,
    pub(crate) terminal: bool,
    pub(crate) rest: Box<RestOfState>,
}

/// What few calls look at.
#[derive(Clone)]
pub(crate) struct RestOfState {
    pub(crate) name: Arc<str>,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<Text>,
    pub(crate) max_visits: Option<u32>,
    /// All that lead away, in this order: of its bindings, of its timers, of its sampling.
    pub(crate) edges: Range<usize>,
    /// The shortest first.
    pub(crate) timers: Vec<Timer>,
    /// How many of them can fire: the rest come after one that always leaves the state.
    pub(crate) fire: usize,
    pub(crate) sampling: Option<Sampling>,
}

impl State {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.rest.name
    }

    /// What it means.
    pub fn description(&self) -> Option<&str> {
        self.rest.description.as_deref()
    }

    /// What the model is told when an instance comes here.
    pub fn instructions(&self) -> Option<&Text> {
        self.rest.instructions.as_ref()
    }

    /// Whether every edge into it ends the workflow.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How often an instance may be here before nothing can be called here any more.
    pub fn max_visits(&self) -> Option<u32> {
        self.rest.max_visits
    }

    /// What happens to an instance that stays here, the soonest first.
    pub fn timers(&self) -> &[Timer] {
        &self.rest.timers
    }

    /// What the client's model is asked when a call brings an instance here.
    pub fn sampling(&self) -> Option<&Sampling> {
        self.rest.sampling.as_ref()
    }
}

/// What happens to an instance that stays in a state.
#[derive(Clone)]
pub struct Timer {
    pub(crate) after: Duration,
    pub(crate) edges: Range<usize>,
}

impl Timer {
    /// How long it stays.
    pub fn after(&self) -> Duration {
        self.after
    }
}

/// What the client's model is asked when a call brings an instance into a state.
#[derive(Clone, Debug)]
pub struct Sampling {
    pub(crate) messages: Vec<Message>,
    pub(crate) system: Option<Text>,
    pub(crate) max_tokens: u32,
    pub(crate) success: Range<usize>,
    pub(crate) error: Range<usize>,
}

impl Sampling {
    /// How often the client's model is asked within one call at most. Each answer may cost a
    /// person's consent and minutes of waiting, and states that ask each other in a circle would
    /// never come to an end.
    pub const MOST_IN_ONE_CALL: usize = 8;

    /// The conversation so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// What the model is told about itself.
    pub fn system(&self) -> Option<&Text> {
        self.system.as_ref()
    }

    /// How long the answer may be.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }
}

/// One message to the client's model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub text: Text,
}

/// What a person must agree to before a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The question.
    pub message: Text,
    /// How long an answer is waited for, and how long it holds.
    pub expires: Duration,
}

impl Approval {
    /// The question as a person is shown it. Whatever is filled in is on one line, cut if it is
    /// long and without characters that could disguise it: the model that wants the answer has
    /// chosen it.
    pub fn question(&self, facts: &Facts<'_>) -> String {
        self.message.fill_shown(facts)
    }
}

/// What makes an artifact visible and callable in one state.
#[derive(Clone)]
#[repr(align(64))]
pub struct Binding {
    pub(crate) id: BindingId,
    pub(crate) state: StateId,
    /// The plain edge of each outcome, in the order of [`Outcome::ALL`].
    pub(crate) plain: [Option<EdgeId>; 5],
    pub(crate) deadline: Option<Duration>,
    pub(crate) hold: bool,
    pub(crate) idempotent: bool,
    pub(crate) needs_approval: bool,
    pub(crate) moves: bool,
    pub(crate) conditional: bool,
    pub(crate) reads: Reads,
    pub(crate) rest: Box<RestOfBinding>,
}

/// What few calls look at.
#[derive(Clone)]
pub(crate) struct RestOfBinding {
    pub(crate) artifact: Artifact,
    /// The artifact's name.
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
    pub(crate) when: Option<Rule>,
    pub(crate) otherwise: Option<Text>,
    pub(crate) approval: Option<Approval>,
    /// Where each outcome leads, defaults included, in the order of [`Outcome::ALL`].
    pub(crate) routes: [Route; 5],
}

/// What has to be kept of a call for those who ask about it later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    /// Something asks for the arguments or the caller; effects may.
    pub(crate) call: bool,
    /// Something asks for the result.
    pub(crate) result: bool,
}

/// The edges that one outcome tries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// Nothing where the default is to stay.
    pub(crate) edges: Range<usize>,
    /// The outcome they were written for.
    pub(crate) written: Option<Outcome>,
}

impl Binding {
    /// Which one it is: see [`Workflow::binding`](crate::Workflow::binding).
    pub fn id(&self) -> BindingId {
        self.id
    }

    /// The state it belongs to.
    pub fn state(&self) -> StateId {
        self.state
    }

    /// Whether it is what counts there.
    pub fn is_at(&self, at: Position) -> bool {
        self.state == at.state && !at.finished
    }

    /// What is bound.
    pub fn artifact(&self) -> &Artifact {
        &self.rest.artifact
    }

    /// The name of what is bound, for whoever keeps that.
    pub fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.rest.name)
    }

    /// What must be true of a call before it runs.
    pub fn when(&self) -> Option<&Rule> {
        self.rest.when.as_ref()
    }

    /// What a caller is told for whose call that is not true.
    pub fn otherwise(&self) -> Option<&Text> {
        self.rest.otherwise.as_ref()
    }

    /// What a person must agree to before it runs.
    pub fn approval(&self) -> Option<&Approval> {
        self.rest.approval.as_ref()
    }

    /// Whether a person must agree before it runs.
    pub fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    /// Whether the instance waits for an operator when nobody knows what a call did.
    pub fn holds(&self) -> bool {
        self.hold
    }

    /// Whether a call of which nobody knows what it did can be run again.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// How long it may run, if that differs from the tool's own time.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The outcome whose edges this one takes: another one where a default says "as error", and
    /// none where the default is to stay.
    pub fn written_for(&self, outcome: Outcome) -> Option<Outcome> {
        self.rest.routes[outcome.index()].written
    }

    /// The edge that every call takes which ends so, if nothing has to be worked out for that: it is
    /// the first one and has no guard, sets and ends nothing, sets nothing off, and nobody is told or
    /// asked anything where it leads. [`Instance::go_along`](crate::Instance::go_along) takes it.
    pub fn plain(&self, outcome: Outcome) -> Option<EdgeId> {
        self.plain[outcome.index()]
    }

    /// Whether a call can leave a mark on the instance: move it, end it, stop it, be remembered,
    /// use up an approval, or have an effect.
    ///
    /// Calls that cannot may run side by side.
    pub fn moves(&self) -> bool {
        self.moves
    }

    /// Whether [`judge`](crate::Workflow::judge) may refuse what the state binds: there is a guard,
    /// a limit of visits, or a call that may have to be decided about.
    ///
    /// Of any other binding, [`admit`](crate::Workflow::admit) has said all there is to say.
    pub fn is_conditional(&self) -> bool {
        self.conditional
    }

    /// Whether a guard, a value to remember, an approval, an effect or a hold wants to know with which arguments
    /// this artifact was called, or by whom. It tells for all states: a call that waits for its turn may
    /// find another one.
    pub fn reads_call(&self) -> bool {
        self.reads.call
    }

    /// Whether a guard or a value to remember wants to know what a call came to.
    pub fn reads_result(&self) -> bool {
        self.reads.result
    }
}

/// A way from one state to another, or back to the same.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Edge {
    /// The state it leads away from.
    pub from: StateId,
    /// What takes it.
    pub cause: Cause,
    /// The state it leads to.
    pub to: StateId,
    /// Taking it ends the workflow.
    pub terminal: bool,
    /// What must be true for it to be taken; if it is not, the next one is tried.
    pub when: Option<Rule>,
    /// What the instance remembers from then on, by key.
    pub set: Vec<(Arc<str>, Rule)>,
    /// What the server does after the step, by name and in this order.
    pub effects: Vec<String>,
}

impl Edge {
    /// Whether taking it leaves the instance in its state.
    pub fn stays(&self) -> bool {
        self.to == self.from && !self.terminal
    }

    /// Whether nothing has to be worked out for taking it, unless the state that it leads to says so.
    pub(crate) fn is_plain(&self) -> bool {
        let is_call = matches!(self.cause, Cause::Call { .. });
        let is_certain = self.when.is_none() && self.effects.is_empty();
        is_call && is_certain && self.sets_and_ends_nothing()
    }

    /// Whether taking it from its own state does the same to every instance.
    pub(crate) fn sets_and_ends_nothing(&self) -> bool {
        self.set.is_empty() && !self.terminal
    }

    /// Whether taking it leaves no mark on the instance at all.
    pub(crate) fn is_idle(&self) -> bool {
        self.stays() && self.set.is_empty() && self.effects.is_empty()
    }
}

/// What takes an edge.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A call that ends so.
    Call {
        /// What is called.
        artifact: Artifact,
        /// How it ends.
        outcome: Outcome,
    },
    /// The time that the instance has been in the state.
    Time {
        /// How long.
        after: Duration,
    },
    /// The client's model answered, or did not.
    Sampling {
        /// Success or error.
        outcome: Outcome,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_call_looks_at_has_one_cache_line() {
        assert_eq!(size_of::<State>(), 64);
        assert_eq!(size_of::<Binding>(), 64);
    }
}
