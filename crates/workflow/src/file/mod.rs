//! The workflow file, in YAML or JSON.
//!
//! [`read`] takes the whole text and says everything that is wrong with it at once, each finding
//! with its place: first what is wrong with the text (an unknown key, a bad duration), then what
//! is wrong with the workflow that it describes. It reads nothing else: commands are not looked
//! up and `${VAR}` is left as it stands.
//!
//! The text may come from anybody. It is bounded by [`MAX_BYTES`], [`MAX_DEPTH`] and
//! [`MAX_NODES`], and aliases cannot make more of it than that.

mod artifacts;
mod bindings;
mod document;
mod duration;
mod format;
mod narrow;
mod programs;
mod reader;
mod report;
mod schema;
mod servers;
mod settings;
mod states;
mod tree;
mod variables;
mod write;
mod yaml;

use crate::{Draft, Finding, Invalid, Kind, Place, Settings, Span, Workflow};
use serde::Serialize;
use std::{collections::HashMap, time::Duration};

pub use duration::{Fault as DurationFault, parse as parse_duration};
pub use schema::schema;
pub use variables::{Missing, expand};
pub use write::{NotWritable, write, write_json};

pub use crate::template::fill_in;

/// Longer files are refused before they are looked at.
pub const MAX_BYTES: usize = 1_000_000;

/// How many lists and maps may be inside each other.
pub const MAX_DEPTH: usize = 64;

/// How many values, lists and maps a file may hold.
pub const MAX_NODES: usize = 100_000;

/// Reads a workflow file.
///
/// On failure, and in [`File::warnings`], findings are sorted by their place in the text.
///
/// ```
/// use interlock_workflow::file;
///
/// let file = file::read(b"
/// interlock: 1
/// name: refund
/// tools:
///   lookup: { description: Find an order, command: [./lookup.sh] }
///   refund: { description: Pay it back, command: [./refund.sh], timeout: 10s }
/// states:
///   new: { initial: true, tools: { lookup: found } }
///   found: { tools: { refund: { success: paid, error: found } } }
///   paid: { terminal: true }
/// ")?;
/// assert_eq!(file.tools[1].program.command, ["./refund.sh"]);
/// assert!(file.workflow.is_some());
///
/// let invalid = file::read(b"interlock: 1\nname: x\nstats: {}\n").unwrap_err();
/// assert_eq!(
///     invalid.findings[0].to_string(),
///     "3:1: error[unknown-key]: the file has no key `stats`"
/// );
/// # Ok::<(), interlock_workflow::Invalid>(())
/// ```
pub fn read(text: &[u8]) -> Result<File, Invalid> {
    document::read(text)
}

/// Reads a file as far as it can be read, and says everything that is wrong with it: for what else can be
/// said of its parts. Only a file of whose findings none is an error may be served.
///
/// ```
/// use interlock_workflow::file;
///
/// let (file, findings) = file::inspect(b"interlock: 1\nname: x\nstats: {}\n");
/// assert_eq!(findings[0].problem.code(), "unknown-key");
/// assert_eq!(file.unwrap().name, "x");
/// ```
pub fn inspect(text: &[u8]) -> (Option<File>, Vec<Finding>) {
    document::inspect(text)
}

/// Reads the workflow of a file, without judging it and without the rest of the file.
///
/// Nobody knows then what tools, resources and prompts there are, so a name in `always` is taken
/// for a tool, or for a resource if it has a colon in it. This is the way back from [`write()`].
///
/// ```
/// use interlock_workflow::{Targets, file, to};
///
/// let draft = file::read_definition(b"
/// interlock: 1
/// name: refund
/// states:
///   new: { initial: true, tools: { shop_lookup: { success: { to: found, set: { order: args.order } } } } }
///   found: { tools: { shop_refund: { when: args.order == ctx.order, success: paid } } }
///   paid: { terminal: true }
/// ")?;
/// let lookup = &draft.states[0].bindings[0];
/// assert_eq!(lookup.edges[0].target, to("found").set("order", "args.order"));
/// assert_eq!(draft.targets, Targets::Closed);
/// # Ok::<(), interlock_workflow::Invalid>(())
/// ```
pub fn read_definition(text: &[u8]) -> Result<Draft, Invalid> {
    document::read_definition(text)
}

/// What a workflow file says.
#[derive(Clone, Debug)]
pub struct File {
    /// What the server is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The workflow; a file without `states` has none and gates nothing.
    pub workflow: Option<Workflow>,
    /// How it is served.
    pub settings: Settings,
    /// The servers behind this one, in the order in which they were written.
    pub servers: Vec<Upstream>,
    /// The tools that are commands, in the order in which they were written.
    pub tools: Vec<CommandTool>,
    /// The resources, in the order in which they were written.
    pub resources: Vec<Resource>,
    /// The prompts, in the order in which they were written.
    pub prompts: Vec<PromptText>,
    /// What somebody should look at, though the file can be served.
    pub warnings: Vec<Finding>,
    places: HashMap<(Kind, String), Span>,
}

impl File {
    /// Where the name of a tool, resource or prompt stands.
    pub fn place(&self, kind: Kind, name: &str) -> Option<Span> {
        self.places.get(&(kind, name.to_owned())).copied()
    }
}

/// An MCP server that is served through this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// What the file calls it.
    pub name: String,
    /// How to reach it.
    pub transport: Transport,
    /// What the names of its tools and prompts begin with here; nothing at all is a prefix too.
    pub prefix: String,
    /// Where its name stands.
    pub place: Place,
}

/// How to reach a server. In every text but a name, `${VAR}` is left to [`expand`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// It is a program, and speaks over its standard input and output.
    Command(Program),
    /// It listens at an address.
    Http {
        /// The address, which begins with `http://`, `https://` or `${`.
        url: String,
        /// What is sent with every request, in the order in which it was written.
        headers: Vec<(String, String)>,
    },
}

/// A program to run. In every text but a name, `${VAR}` is left to [`expand`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments: never empty.
    pub command: Vec<String>,
    /// What its environment has besides the little that every program gets, in the order in which
    /// it was written.
    pub env: Vec<(String, String)>,
    /// The variables that it gets from our own environment.
    pub env_from: Vec<String>,
    /// The folder in which it is started, if that is not the file's.
    pub cwd: Option<String>,
}

/// A tool that is a command: its arguments come as JSON on standard input.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandTool {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments, which are an object.
    pub input: serde_json::Value,
    /// The JSON schema of its structured result.
    pub output: Option<serde_json::Value>,
    /// What is run.
    pub program: Program,
    /// How long it may run, if that differs from the settings.
    pub timeout: Option<Duration>,
    /// How many calls of it may run at once, if that differs from the default.
    pub concurrency: Option<u32>,
    /// What it says about its behaviour.
    pub annotations: Option<Annotations>,
}

/// What a tool says about its behaviour, in the words of MCP, which is also how it serialises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// What it changes may be lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It deals with the world outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// A resource that a file describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Where clients find it, or a template of that, such as `order://{id}`.
    pub uri: String,
    /// Its name for people.
    pub name: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// The type of what it holds.
    pub mime_type: Option<String>,
    /// What it holds.
    pub content: Content,
}

impl Resource {
    /// Whether its URI is a template, whose variables fill in what it holds.
    pub fn is_template(&self) -> bool {
        self.uri.contains('{')
    }
}

/// What a resource holds. `{{name}}` in a text or a path stands for a variable of its template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text.
    Text(String),
    /// What is in a file, by its path from the workflow file's folder.
    File(String),
    /// What a program prints. It gets the variables of the template as JSON on standard input.
    Command(Program),
}

/// A prompt that is a text in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptText {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// What `{{…}}` in its text can stand for.
    pub arguments: Vec<PromptArgument>,
    /// What it says; every `{{name}}` in it names one of the arguments.
    pub text: String,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// The prompt cannot be had without it.
    pub required: bool,
}
