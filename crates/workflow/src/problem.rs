//! What can be wrong with a workflow, said to the person who wrote it.

use crate::{Artifact, Part, Span, Spot, Target, validate::MOST};
use std::{fmt, ops::Range, sync::Arc};

/// Whether a finding stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The workflow can be served; somebody should look.
    Warning,
    /// The workflow cannot be served.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A [`Problem`] and the place it was found at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub problem: Problem,
    /// Where it stands in the file, if it came from one.
    pub span: Option<Span>,
}

impl Finding {
    /// Whether it stands in the way.
    pub fn severity(&self) -> Severity {
        self.problem.severity()
    }

    /// The finding and, on a line of its own, what to do about it.
    pub fn with_help(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| match self.problem.help() {
            Some(help) => write!(f, "{self}\n  help: {help}"),
            None => write!(f, "{self}"),
        })
    }
}

/// `line:column: severity[code]: message`, without the place where there is none.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = self.span {
            write!(f, "{}:{}: ", span.line, span.column)?;
        }
        let (severity, code) = (self.severity(), self.problem.code());
        write!(f, "{severity}[{code}]: {}", self.problem)
    }
}

/// Why a draft is not a workflow: all its findings, warnings included.
///
/// `Debug` writes what `Display` does, which is what a `main` that returns it prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Invalid {
    /// At least one of them is an error.
    pub findings: Vec<Finding>,
}

impl Invalid {
    /// The findings that stand in the way.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|finding| finding.severity() == Severity::Error)
    }
}

/// One line for each finding, and one for its help.
impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the workflow is not valid")?;
        let mut findings = self.findings.iter();
        findings.try_for_each(|finding| write!(f, "\n{}", finding.with_help()))
    }
}

impl fmt::Debug for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Invalid {}

/// What is wrong with a workflow.
///
/// Names of states are shared: one state may be named by as many findings as it has edges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be understood far enough to see a workflow in it.
    #[error("{message}")]
    File {
        /// Kebab-case, chosen by the reader.
        code: &'static str,
        /// What is wrong.
        message: String,
        /// What to do about it.
        help: Option<String>,
    },
    /// There is nothing to be in.
    #[error("the workflow has no states")]
    NoStates,
    /// Nothing says where instances start.
    #[error("no state is marked initial")]
    NoInitialState,
    /// Several states claim to be the start.
    #[error("several states are marked initial: {}", quoted(states))]
    SeveralInitialStates {
        /// All of them, as written.
        states: Vec<Arc<str>>,
    },
    /// An edge leads to a state that is not defined: in a file, or with a name that is nearly that
    /// of another one.
    #[error("{spot} leads to {target:?}, which is not defined")]
    UnknownTarget {
        /// Where the edge begins.
        spot: Spot,
        /// The name nobody defined.
        target: String,
        /// A state with a similar name.
        nearest: Option<String>,
    },
    /// One symbol has two edges that differ, and nothing says when to take which.
    #[error("{spot} leads to both {first} and {second}")]
    TwoEdges {
        /// Where the edges begin.
        spot: Spot,
        /// The target that was written first.
        first: Target,
        /// The one that differs from it.
        second: Target,
    },
    /// A guard stands behind an edge that is always taken.
    #[error("{spot} never leads to {target}: an edge before it has no guard")]
    NeverTaken {
        /// Where the edges begin.
        spot: Spot,
        /// The edge that is never taken.
        target: Target,
    },
    /// Every edge has a guard, so that none may be left to take.
    #[error("{spot} leads nowhere if no guard is true")]
    NoLastResort {
        /// Where the edges begin.
        spot: Spot,
    },
    /// A guard, a value or a text is not sound.
    #[error("{}", expression_message(spot, part, message))]
    Expression {
        /// What it belongs to.
        spot: Spot,
        /// What it is.
        part: Part,
        /// What is wrong with it.
        message: String,
        /// What to do about it.
        help: Option<String>,
        /// Which bytes of it are meant, if that is known.
        at: Option<Range<usize>>,
        /// Whether it stands in the way.
        severity: Severity,
    },
    /// Something looks at what no edge ever remembers.
    #[error("{}", expression_message(spot, part, &format!("no edge sets `ctx.{key}`")))]
    UnknownMemory {
        /// What looks at it.
        spot: Spot,
        /// Which part of that.
        part: Part,
        /// The key.
        key: Arc<str>,
        /// A key that is set and has a similar name.
        nearest: Option<String>,
        /// Which bytes of the part are meant, if that is known.
        at: Option<Range<usize>>,
    },
    /// More than a step can work out.
    #[error("{spot} has more {what} than the {MOST} that a step works out")]
    TooMany {
        /// What has them.
        spot: Spot,
        /// Of what.
        what: &'static str,
    },
    /// A state or binding that is written in several places has two attributes that differ.
    #[error("{spot} has more than one {what}")]
    SaidTwice {
        /// What has them.
        spot: Spot,
        /// Of what.
        what: &'static str,
    },
    /// Nothing can run in no time.
    #[error("the time for tools must be between 1ms and 365d")]
    BadTimeout,
    /// A duration of nothing, or of more than a year.
    #[error("{what} of {spot} must be between 1ms and 365d")]
    BadDuration {
        /// What has it.
        spot: Spot,
        /// What it is for.
        what: &'static str,
    },
    /// A state that nobody may ever be in.
    #[error("state {state:?} allows no visit at all")]
    NoVisits {
        /// Its name.
        state: Arc<str>,
    },
    /// A question without a word.
    #[error("sampling in state {state:?} asks nothing")]
    NoMessages {
        /// The state.
        state: Arc<str>,
    },
    /// Handles travel in a tool's arguments, and only there.
    #[error("{artifact} is bound, but instances are found by a handle, which only tools can carry")]
    NoPlaceForHandle {
        /// What is bound.
        artifact: Artifact,
    },
    /// A tool has an argument of its own where the handle should go.
    #[error("{artifact} already has an argument `workflow`, where the handle should go")]
    HandleArgumentTaken {
        /// What is bound.
        artifact: Artifact,
    },
    /// One artifact is callable in every state without moving it, and bound in a state besides.
    #[error("{artifact} is always callable, yet a state binds it too")]
    BoundAndAlways {
        /// The artifact.
        artifact: Artifact,
    },
    /// The workflow names something that cannot exist.
    #[error("there is no {artifact}")]
    UnknownArtifact {
        /// What is named.
        artifact: Artifact,
        /// One of the same kind with a similar name.
        nearest: Option<String>,
    },
    /// No run of the workflow can ever end.
    #[error("no end can be reached from the initial state {initial:?}")]
    NoReachableEnd {
        /// Where instances start.
        initial: Arc<str>,
    },
    /// No run of the workflow ever comes here.
    #[error("state {state:?} cannot be reached")]
    UnreachableState {
        /// Its name.
        state: Arc<str>,
    },
    /// A run that comes here never ends: it is stuck, or goes round for ever.
    #[error("no end can be reached from state {state:?}")]
    Trap {
        /// Its name.
        state: Arc<str>,
    },
    /// The run is over when it comes here, so nothing bound here can be called.
    #[error("state {state:?} is entered only by edges that end the workflow, yet has bindings")]
    BindingsAfterEnd {
        /// Its name.
        state: Arc<str>,
    },
    /// A binding does not say where any outcome leads.
    #[error("{artifact} in state {state:?} gives no outcome")]
    NoOutcome {
        /// Where it is bound.
        state: Arc<str>,
        /// What is bound.
        artifact: Artifact,
    },
    /// A timer that changes nothing: it leads where the instance is, or another is sooner.
    #[error("{spot} never does anything")]
    IdleTimer {
        /// The timer.
        spot: Spot,
    },
    /// States that ask the client's model one after the other, round and round.
    #[error("sampling goes round in a circle from state {state:?}")]
    EndlessSampling {
        /// One of them.
        state: Arc<str>,
    },
    /// Something is to survive a restart that nothing ever remembers.
    #[error("`{key}` is to be kept, but no edge sets it")]
    NeverSet {
        /// The key.
        key: String,
        /// A key that is set and has a similar name.
        nearest: Option<String>,
    },
    /// What may do harm is called without anybody being asked.
    #[error("{spot} may destroy something, and nobody is asked")]
    Unapproved {
        /// What is bound.
        spot: Spot,
    },
    /// A call that matters says nothing of what happens if nobody knows what it did.
    #[error("{spot} does not say what happens when its outcome is unknown")]
    UnknownUnsaid {
        /// What is bound.
        spot: Spot,
    },
    /// The server has something that the workflow never lets anybody use.
    #[error("{artifact} is bound nowhere, so nobody can use it")]
    BoundNowhere {
        /// What is registered.
        artifact: Artifact,
    },
    /// The workflow names something that is not there, but may still come.
    #[error("there is no {artifact} yet")]
    NotThereYet {
        /// What is named.
        artifact: Artifact,
        /// One of the same kind with a similar name.
        nearest: Option<String>,
    },
}

impl Problem {
    /// A short name that does not change with the wording.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File { code, .. } => code,
            Self::NoStates => "no-states",
            Self::NoInitialState => "no-initial-state",
            Self::SeveralInitialStates { .. } => "several-initial-states",
            Self::UnknownTarget { .. } => "unknown-target",
            Self::TwoEdges { .. } => "two-edges",
            Self::NeverTaken { .. } => "never-taken",
            Self::NoLastResort { .. } => "no-last-resort",
            Self::Expression { part, .. } => match part {
                Part::When => "bad-guard",
                Part::Set { .. } => "bad-set",
                Part::Text => "bad-text",
            },
            Self::UnknownMemory { .. } => "unknown-memory",
            Self::TooMany { .. } => "too-many",
            Self::SaidTwice { .. } => "said-twice",
            Self::BadTimeout => "bad-timeout",
            Self::BadDuration { .. } => "bad-duration",
            Self::NoVisits { .. } => "no-visits",
            Self::NoMessages { .. } => "no-messages",
            Self::NoPlaceForHandle { .. } => "no-place-for-handle",
            Self::HandleArgumentTaken { .. } => "handle-argument-taken",
            Self::IdleTimer { .. } => "idle-timer",
            Self::EndlessSampling { .. } => "endless-sampling",
            Self::NeverSet { .. } => "never-set",
            Self::Unapproved { .. } => "unapproved",
            Self::UnknownUnsaid { .. } => "unknown-unsaid",
            Self::BoundAndAlways { .. } => "bound-and-always",
            Self::UnknownArtifact { .. } => "unknown-artifact",
            Self::NoReachableEnd { .. } => "no-reachable-end",
            Self::UnreachableState { .. } => "unreachable-state",
            Self::Trap { .. } => "trap",
            Self::BindingsAfterEnd { .. } => "bindings-after-end",
            Self::NoOutcome { .. } => "no-outcome",
            Self::BoundNowhere { .. } => "bound-nowhere",
            Self::NotThereYet { .. } => "not-there-yet",
        }
    }

    /// Whether it stands in the way.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Expression { severity, .. } => *severity,
            Self::File { .. }
            | Self::NoStates
            | Self::NoInitialState
            | Self::SeveralInitialStates { .. }
            | Self::UnknownTarget { .. }
            | Self::TwoEdges { .. }
            | Self::NeverTaken { .. }
            | Self::NoLastResort { .. }
            | Self::UnknownMemory { .. }
            | Self::TooMany { .. }
            | Self::SaidTwice { .. }
            | Self::BadTimeout
            | Self::BadDuration { .. }
            | Self::NoVisits { .. }
            | Self::NoMessages { .. }
            | Self::NoPlaceForHandle { .. }
            | Self::HandleArgumentTaken { .. }
            | Self::BoundAndAlways { .. }
            | Self::UnknownArtifact { .. }
            | Self::NoReachableEnd { .. } => Severity::Error,
            Self::UnreachableState { .. }
            | Self::Trap { .. }
            | Self::BindingsAfterEnd { .. }
            | Self::NoOutcome { .. }
            | Self::IdleTimer { .. }
            | Self::EndlessSampling { .. }
            | Self::NeverSet { .. }
            | Self::Unapproved { .. }
            | Self::UnknownUnsaid { .. }
            | Self::BoundNowhere { .. }
            | Self::NotThereYet { .. } => Severity::Warning,
        }
    }

    /// Which bytes of a guard, value or text it is about, if that is known.
    pub(crate) fn at(&self) -> Option<&Range<usize>> {
        let (Self::Expression { at, .. } | Self::UnknownMemory { at, .. }) = self else {
            return None;
        };
        at.as_ref()
    }

    /// What to do about it, where that is not plain from the message.
    pub fn help(&self) -> Option<String> {
        let text = match self {
            Self::File { help, .. } | Self::Expression { help, .. } => return help.clone(),
            Self::UnknownMemory { nearest, key, .. } => {
                return Some(match nearest {
                    Some(key) => format!("did you mean `ctx.{key}`?"),
                    None => format!("remember it first: `set: {{ {key}: … }}` on an edge before"),
                });
            }
            Self::UnknownTarget { target, .. } if target.eq_ignore_ascii_case("hold") => {
                "only `unknown: hold` holds; anything else is the name of a state"
            }
            Self::UnknownArtifact { nearest: None, .. } => {
                "declare it, or take it out of the workflow"
            }
            Self::NeverSet { nearest, .. }
            | Self::UnknownTarget { nearest, .. }
            | Self::UnknownArtifact { nearest, .. }
            | Self::NotThereYet { nearest, .. } => {
                return nearest
                    .as_ref()
                    .map(|name| format!("did you mean {name:?}?"));
            }
            Self::NoStates => "define a state, or make everything callable always",
            Self::NoInitialState => "mark the state in which instances start as initial",
            Self::SeveralInitialStates { .. } => "leave the mark on one of them",
            Self::TwoEdges { .. } => {
                "remove one of the two, or say with `when` when the first is taken"
            }
            Self::NeverTaken { .. } => "put the edge without `when` last",
            Self::NoLastResort { .. } => "add an edge without `when` at the end",
            Self::TooMany { .. } => "decide by fewer, or in the tool itself",
            Self::SaidTwice { .. } => "leave one of them",
            Self::BadTimeout | Self::BadDuration { .. } => {
                "write a duration such as 250ms, 10s, 5m, 2h or 1d"
            }
            Self::NoVisits { .. } => "allow at least one, or remove the state",
            Self::NoMessages { .. } => "give it a message",
            Self::NoPlaceForHandle { .. } => {
                "bind tools only, or choose the scope `principal` or `global`"
            }
            Self::HandleArgumentTaken { .. } => {
                "rename the argument, or choose another scope than `handle`"
            }
            Self::IdleTimer { .. } => "lead it to another state, or remove it",
            Self::EndlessSampling { .. } => "let one of them lead to a state without sampling",
            Self::Unapproved { .. } => "give it `approve` with a question for a person",
            Self::UnknownUnsaid { .. } => {
                "say `unknown: hold`, lead `unknown` somewhere, or mark it `idempotent: true`"
            }
            Self::BoundAndAlways { .. } => {
                "what is always callable never moves the workflow: remove one of the two"
            }
            Self::NoReachableEnd { .. } => "mark a state or an edge on the way as terminal",
            Self::UnreachableState { .. } => "lead an edge to it, or remove it",
            Self::Trap { .. } => "lead an edge from it towards an end",
            Self::BindingsAfterEnd { .. } => {
                "lead an edge to it that is not terminal, or remove what is bound there"
            }
            Self::NoOutcome { .. } => "say where success leads, even if that is the same state",
            Self::BoundNowhere { .. } => "bind it in a state, or make it callable always",
        };
        Some(text.to_owned())
    }
}

/// The message, and whose guard, value or text it is about.
fn expression_message(spot: &Spot, part: &Part, message: &str) -> String {
    match part {
        Part::When => format!("the guard of {spot} is wrong: {message}"),
        Part::Set { key } => format!("the value of `{key}` for {spot} is wrong: {message}"),
        Part::Text => format!("the text of {spot} is wrong: {message}"),
    }
}

fn quoted(names: &[Arc<str>]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Outcome, end, to};
    use std::time::Duration;

    fn all() -> Vec<Problem> {
        let state: Arc<str> = "s".into();
        let artifact = Artifact::new(Kind::Tool, "t");
        let spot = Spot::Call {
            state: state.clone(),
            artifact: artifact.clone(),
            outcome: Outcome::Timeout,
        };
        let expression = |part| Problem::Expression {
            spot: Spot::Timer {
                state: "s".into(),
                after: Duration::from_secs(90),
            },
            part,
            message: "there is no `arg`".to_owned(),
            help: Some("did you mean `args`?".to_owned()),
            at: Some(0..3),
            severity: Severity::Error,
        };
        let nearest = Some("near".to_owned());
        vec![
            Problem::File {
                code: "syntax",
                message: "bad".to_owned(),
                help: None,
            },
            Problem::NoStates,
            Problem::NoInitialState,
            Problem::SeveralInitialStates {
                states: vec![state.clone(), "u".into()],
            },
            Problem::UnknownTarget {
                spot: spot.clone(),
                target: "x".to_owned(),
                nearest: nearest.clone(),
            },
            Problem::TwoEdges {
                spot: spot.clone(),
                first: to("x"),
                second: end("y"),
            },
            Problem::NeverTaken {
                spot: spot.clone(),
                target: to("x"),
            },
            Problem::NoLastResort { spot: spot.clone() },
            expression(Part::When),
            expression(Part::Set {
                key: "k".to_owned(),
            }),
            expression(Part::Text),
            Problem::UnknownMemory {
                spot: spot.clone(),
                part: Part::When,
                key: "k".into(),
                nearest: None,
                at: None,
            },
            Problem::BadDuration {
                spot: spot.clone(),
                what: "the deadline",
            },
            Problem::TooMany {
                spot: spot.clone(),
                what: "edges",
            },
            Problem::SaidTwice {
                spot: spot.clone(),
                what: "guard",
            },
            Problem::BadTimeout,
            Problem::NoVisits {
                state: state.clone(),
            },
            Problem::NoMessages {
                state: state.clone(),
            },
            Problem::NoPlaceForHandle {
                artifact: artifact.clone(),
            },
            Problem::HandleArgumentTaken {
                artifact: artifact.clone(),
            },
            Problem::IdleTimer { spot: spot.clone() },
            Problem::EndlessSampling {
                state: state.clone(),
            },
            Problem::NeverSet {
                key: "k".to_owned(),
                nearest: nearest.clone(),
            },
            Problem::Unapproved { spot: spot.clone() },
            Problem::UnknownUnsaid { spot },
            Problem::BoundAndAlways {
                artifact: artifact.clone(),
            },
            Problem::UnknownArtifact {
                artifact: artifact.clone(),
                nearest: nearest.clone(),
            },
            Problem::NoReachableEnd {
                initial: state.clone(),
            },
            Problem::UnreachableState {
                state: state.clone(),
            },
            Problem::Trap {
                state: state.clone(),
            },
            Problem::BindingsAfterEnd {
                state: state.clone(),
            },
            Problem::NoOutcome {
                state,
                artifact: artifact.clone(),
            },
            Problem::BoundNowhere {
                artifact: artifact.clone(),
            },
            Problem::NotThereYet { artifact, nearest },
        ]
    }

    #[test]
    fn codes_are_kebab_case_and_tell_problems_apart() {
        let codes: Vec<_> = all().iter().map(Problem::code).collect();
        for (n, code) in codes.iter().enumerate() {
            assert!(code.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
            assert!(!codes[..n].contains(code), "{code}");
        }
    }

    #[test]
    fn messages_are_lower_case_without_a_full_stop() {
        for problem in all() {
            for text in [Some(problem.to_string()), problem.help()] {
                let Some(text) = text else { continue };
                assert!(
                    text.starts_with(|c: char| c.is_lowercase() || c == '`'),
                    "{text}"
                );
                assert!(!text.ends_with('.'), "{text}");
            }
        }
    }

    #[test]
    fn hostile_names_are_escaped() {
        let state = "a\u{1b}[2J\n".into();
        let told = Problem::Trap { state }.to_string();
        assert_eq!(told, r#"no end can be reached from state "a\u{1b}[2J\n""#);
    }

    #[test]
    fn an_invalid_workflow_tells_everything_and_what_helps() {
        let finding = |problem| Finding {
            problem,
            span: None,
        };
        let invalid = Invalid {
            findings: vec![
                finding(Problem::NoInitialState),
                finding(Problem::Trap {
                    state: "pit".into(),
                }),
            ],
        };
        assert_eq!(
            invalid.to_string(),
            "the workflow is not valid\n\
             error[no-initial-state]: no state is marked initial\n  \
             help: mark the state in which instances start as initial\n\
             warning[trap]: no end can be reached from state \"pit\"\n  \
             help: lead an edge from it towards an end"
        );
        assert_eq!(invalid.errors().count(), 1);
    }
}
