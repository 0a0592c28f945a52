//! What somebody wrote, before it is judged.
//!
//! The builder and the file reader both fill in a [`Draft`]; `Draft::build` judges it and reports
//! every problem at once.

use crate::{Artifact, Outcome, Settings};
use std::time::Duration;

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
    /// The target becomes a state of its own, as in the builder.
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
    pub span: Option<Span>,
    /// Instances start here.
    pub initial: bool,
    /// Every edge into it is terminal.
    pub terminal: bool,
    /// What it means.
    pub description: Option<String>,
    /// What is callable here.
    pub bindings: Vec<DraftBinding>,
}

/// One binding as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftBinding {
    /// What is bound.
    pub artifact: Artifact,
    /// Where its name stands.
    pub span: Option<Span>,
    /// Where its outcomes lead; an outcome that is missing takes its default.
    pub edges: Vec<DraftEdge>,
    /// How long it may run, if that differs from the tool's own time.
    pub deadline: Option<Duration>,
}

/// One edge as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftEdge {
    /// The outcome that takes it.
    pub outcome: Outcome,
    /// The name of its target.
    pub to: String,
    /// Taking it ends the workflow.
    pub terminal: bool,
    /// What the server does after the step, by name and in this order.
    pub effects: Vec<String>,
    /// Where its target stands.
    pub span: Option<Span>,
}

/// One artifact that is callable in every state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftAlways {
    /// What it is.
    pub artifact: Artifact,
    /// Where it stands.
    pub span: Option<Span>,
}
