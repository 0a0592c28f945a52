//! The words a workflow is made of.

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// What kind of thing a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `tools/call`.
    Tool,
    /// `resources/read`; the name is the URI.
    Resource,
    /// `prompts/get`.
    Prompt,
}

impl Kind {
    /// All three, in the order in which lists are kept.
    pub const ALL: [Self; 3] = [Self::Tool, Self::Resource, Self::Prompt];

    /// Its place in [`ALL`](Self::ALL).
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::Prompt => "prompt",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did what it was asked.
    Success,
    /// It said that it failed; a tool result with `isError` counts.
    Error,
    /// Its deadline passed while it ran.
    Timeout,
    /// The client took the call back, and the handler stopped and said so. A call that is taken
    /// back while it waits for its turn has no outcome: it never held the instance.
    Cancelled,
    /// It was torn down, or the process died while it ran, so what it did is not known.
    Unknown,
}

impl Outcome {
    /// All five.
    pub const ALL: [Self; 5] = [
        Self::Success,
        Self::Error,
        Self::Timeout,
        Self::Cancelled,
        Self::Unknown,
    ];

    /// Its place in [`ALL`](Self::ALL).
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tool, resource or prompt by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Artifact {
    /// Which kind of thing it is.
    pub kind: Kind,
    /// Its name; for a resource, its URI.
    pub name: String,
}

impl Artifact {
    /// The artifact of this kind and name.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }
}

/// Its kind and its name in quotation marks, with what could garble a terminal escaped.
impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}

/// A state of one particular [`Workflow`](crate::Workflow).
///
/// It is an index: with another workflow it means another state, or none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub(crate) u32);

/// Where an instance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The state it is in.
    pub state: StateId,
    /// It took a terminal edge and, by `finish: stay`, goes nowhere from here.
    pub finished: bool,
    /// Nothing that the state binds can be called: an operator must decide about a call, or the
    /// visits of the state are used up.
    pub blocked: bool,
}

/// In this state, neither finished nor blocked.
impl From<StateId> for Position {
    fn from(state: StateId) -> Self {
        Self {
            state,
            finished: false,
            blocked: false,
        }
    }
}

impl Position {
    /// Whether what the state binds can be called, guards aside.
    pub fn is_open(self) -> bool {
        !self.finished && !self.blocked
    }

    /// Whether both are in the same state of the same run.
    pub(crate) fn is_same_place(self, other: Self) -> bool {
        (self.state, self.finished) == (other.state, other.finished)
    }

    /// As one number, for whoever has room for no more.
    ///
    /// ```
    /// use interlock_workflow::{Position, Workflow, end};
    ///
    /// let flow = Workflow::builder("w")
    ///     .state("a", |s| s.initial().tool("go", |t| t.success("b")))
    ///     .state("b", |s| s.tool("end", |t| t.success(end("a"))))
    ///     .build()?;
    /// for (state, finished) in flow.states().zip([true, false]) {
    ///     let at = Position { finished, ..state.into() };
    ///     assert_eq!(Position::from_bits(at.to_bits()), at);
    /// }
    /// # Ok::<(), interlock_workflow::Invalid>(())
    /// ```
    pub fn to_bits(self) -> u64 {
        u64::from(self.state.0) << 2 | u64::from(self.blocked) << 1 | u64::from(self.finished)
    }

    /// What [`to_bits`](Self::to_bits) was made of. Of any other number it makes a place that no
    /// workflow has.
    pub fn from_bits(bits: u64) -> Self {
        Self {
            state: StateId(u32::try_from(bits >> 2).unwrap_or(u32::MAX)),
            finished: bits & 1 == 1,
            blocked: bits & 2 == 2,
        }
    }
}

/// How the workflow is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who shares an instance.
    pub scope: Scope,
    /// What happens to a call that comes while another one holds the instance.
    pub busy: Busy,
    /// Whether lists follow the state.
    pub visibility: Visibility,
    /// What happens after a terminal edge.
    pub finish: Finish,
    /// How long a tool may run unless it or its binding says otherwise.
    pub tool_timeout: Duration,
    /// What of an instance's memory survives a restart, by key.
    pub keep: Vec<String>,
}

impl Settings {
    /// What really happens after a terminal edge: an instance behind a handle never begins again,
    /// for its handle would then mean another run.
    pub(crate) fn after_end(&self) -> Finish {
        match self.scope {
            Scope::Handle => Finish::Stay,
            Scope::Session | Scope::Principal | Scope::Global => self.finish,
        }
    }

    /// Where an instance begins again after an end, if it does.
    pub(crate) fn restart(&self, initial: StateId) -> Option<StateId> {
        match self.after_end() {
            Finish::Restart => Some(initial),
            Finish::Stay => None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scope: Scope::Session,
            busy: Busy::Wait,
            visibility: Visibility::Dynamic,
            finish: Finish::Restart,
            tool_timeout: Duration::from_secs(30),
            keep: Vec::new(),
        }
    }
}

/// Who shares an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each session, or the stdio process, has its own.
    Session,
    /// Each opaque id that the server hands out has its own.
    Handle,
    /// Each authenticated subject has its own.
    Principal,
    /// Everybody shares one.
    Global,
}

/// What happens to a call that comes while another one holds the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// It waits its turn.
    Wait,
    /// It is refused.
    Refuse,
}

/// Whether lists follow the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Lists hold what is callable now.
    Dynamic,
    /// Lists hold everything; the gate still refuses.
    Static,
}

/// What happens after a terminal edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The instance begins again at the initial state.
    Restart,
    /// The instance stays finished.
    Stay,
}

/// Characters that move others about, or cannot be seen.
pub(crate) fn is_disguise(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}');
    let format =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    c.is_control() || invisible || format
}

/// A duration as a file has it: in the largest unit in which it is a whole number.
pub(crate) fn spelt(duration: Duration) -> String {
    let whole = duration.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let fits = units
        .into_iter()
        .find(|(unit, _)| whole >= *unit && whole.is_multiple_of(*unit));
    let (unit, name) = fits.unwrap_or((1, "ms"));
    format!("{}{name}", whole / unit)
}
