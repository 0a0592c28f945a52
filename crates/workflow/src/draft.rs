//! What somebody wrote, before it is judged.
//!
//! The builder and the file reader both fill in a [`Draft`]; `Draft::build` judges it and reports
//! every problem at once.

use crate::{Artifact, Expression, Outcome, Settings, Target};
use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

/// A piece of the file something was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: u32,
    /// Column of the first character in its line, from 1.
    pub column: u32,
}

/// Where something stands in a file, if it came from one.
///
/// Things that differ only in their place are equal, so every place is equal to every other.
///
/// ```
/// use interlock_workflow::{Place, Span};
///
/// let here = Place::from(Span { start: 0, end: 1, line: 1, column: 1 });
/// assert_eq!(here, Place::default());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(pub Option<Span>);

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl From<Span> for Place {
    fn from(span: Span) -> Self {
        Self(Some(span))
    }
}

/// A workflow that has not been judged yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its states, in the order in which they were written.
    pub states: Vec<DraftState>,
    /// What is callable in every state and never moves one.
    pub always: Vec<DraftAlways>,
    /// Everything that is bound nowhere is callable in every state: `always: ["*"]`.
    pub always_everything: bool,
    /// How it is served.
    pub settings: Settings,
    /// What an edge to a state that nobody defined means.
    pub targets: Targets,
}

/// What an edge to a state that nobody defined means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Targets {
    /// The target becomes a state of its own, as in the builder, unless its name is nearly that of a
    /// state that is defined.
    #[default]
    Open,
    /// It is an error, as in a file.
    Closed,
}

/// One state as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftState {
    /// Its name.
    pub name: String,
    /// Where its name stands.
    pub place: Place,
    /// Instances start here.
    pub initial: bool,
    /// Every edge into it is terminal.
    pub terminal: bool,
    /// What it means.
    pub description: Option<String>,
    /// What the model is told when an instance comes here; `{{…}}` in it is filled in.
    pub instructions: Option<DraftText>,
    /// How often an instance may be here before nothing can be called here any more.
    pub max_visits: Option<DraftVisits>,
    /// What is callable here.
    pub bindings: Vec<DraftBinding>,
    /// What happens to an instance that stays here.
    pub timers: Vec<DraftTimer>,
    /// What the client's model is asked when a call brings an instance here.
    pub sampling: Option<DraftSampling>,
}

/// A text as written; `{{args.amount}}` in it is filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftText {
    /// The text.
    pub text: String,
    /// Where it stands.
    pub place: Place,
}

/// A limit of visits as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraftVisits {
    /// How many.
    pub most: u32,
    /// Where it stands.
    pub place: Place,
}

/// One binding as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftBinding {
    /// What is bound.
    pub artifact: Artifact,
    /// Where its name stands.
    pub place: Place,
    /// What must be true of a call before it runs.
    pub when: Option<Expression>,
    /// What a caller is told for whose call that is not true; `{{…}}` in it is filled in. Left out:
    /// the guard as it is written.
    pub otherwise: Option<DraftText>,
    /// What a person must agree to before it runs.
    pub approval: Option<DraftApproval>,
    /// Where its outcomes lead; an outcome that is missing takes its default, and the edges of
    /// one outcome are tried in this order.
    pub edges: Vec<DraftEdge>,
    /// After an unknown outcome the instance waits for an operator; edges for it are void then.
    pub hold: bool,
    /// A call whose outcome is not known can be run again.
    pub idempotent: bool,
    /// How long it may run, if that differs from the tool's own time.
    pub deadline: Option<Duration>,
}

impl DraftBinding {
    /// A binding that says nothing but what is bound.
    pub fn new(artifact: Artifact) -> Self {
        Self {
            artifact,
            place: Place::default(),
            when: None,
            otherwise: None,
            approval: None,
            edges: Vec::new(),
            hold: false,
            idempotent: false,
            deadline: None,
        }
    }
}

/// What a person must agree to, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftApproval {
    /// The question; `{{args.amount}}` in it is filled in.
    pub message: DraftText,
    /// How long an answer is waited for, and how long it holds.
    pub expires: Duration,
}

/// One edge as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftEdge {
    /// The outcome that takes it.
    pub outcome: Outcome,
    /// Where it leads, and what happens on the way.
    pub target: Target,
}

/// What happens to an instance that stays in a state, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftTimer {
    /// How long it stays.
    pub after: Duration,
    /// Where it goes then; tried in this order.
    pub targets: Vec<Target>,
    /// Where it stands.
    pub place: Place,
}

/// What the client's model is asked, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftSampling {
    /// The conversation so far.
    pub messages: Vec<DraftMessage>,
    /// What the model is told about itself.
    pub system: Option<DraftText>,
    /// How long the answer may be.
    pub max_tokens: u32,
    /// Where its outcomes lead: success and error; one that is missing stays.
    pub edges: Vec<DraftEdge>,
    /// Where it stands.
    pub place: Place,
}

/// One message to the client's model, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftMessage {
    /// Who says it.
    pub role: Role,
    /// What is said; `{{ctx.order}}` in it is filled in.
    pub text: DraftText,
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// One artifact that is callable in every state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftAlways {
    /// What it is.
    pub artifact: Artifact,
    /// Where it stands.
    pub place: Place,
}
