//! A workflow file as a server.
//!
//! What the file says in words becomes what the server library serves: its tools are commands that
//! are run, its resources and prompts are texts, its workflow is the gate before them all.
//!
//! ```
//! use interlock::workflow::file;
//! use interlock_gateway::Options;
//! use std::path::Path;
//!
//! let file = file::read(b"
//! interlock: 1
//! name: hello
//! tools:
//!   greet: { description: Say hello, command: [echo, hello] }
//! states:
//!   new: { initial: true, tools: { greet: { success: done } } }
//!   done: { terminal: true }
//! ")?;
//! let server = interlock_gateway::builder(&file, Path::new("."), &Options::default())?.build()?;
//! # let _ = server;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | `program` | a program as the file describes it: where it is found, and its environment |
//! | `child` | a running program and whatever it starts, with bounded output |
//! | `sweeper` | ends what programs leave behind |
//! | `command_tool` | what a command is told, and what its end means |
//! | `resource` | texts, files inside the folder, and what programs print |

mod child;
mod command_tool;
mod program;
mod resource;
mod sweeper;

use crate::{command_tool::Runner, program::Program, resource::Content, sweeper::Sweeper};
use interlock::{
    Builder, Places, Prompt, Server, Tool,
    model::PromptArgument,
    workflow::{
        Visibility,
        file::{self, CommandTool, File, PromptText},
    },
};
use std::{io, num::NonZeroUsize, path::Path, sync::Arc, time::Duration};

pub use command_tool::{OUTPUT_LIMIT, described};
pub use resource::FILE_LIMIT;

/// How long a program that was asked to stop may take to do so.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Why a file cannot be served here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It names upstream servers.
    #[error("upstream servers (`servers`) are not connected by this version")]
    Servers,
    /// A variable that it needs is not set.
    #[error("`{key}` of {owner} needs the variable `{name}`, which the environment does not have")]
    MissingVariable {
        /// What needs it.
        owner: String,
        /// Where it is named.
        key: String,
        /// Its name.
        name: String,
    },
    /// The folder is relative, and there is no current directory.
    #[error("the folder of the file cannot be found: {0}")]
    Folder(#[source] io::Error),
}

impl ConfigError {
    fn missing(owner: &str, key: &str, name: String) -> Self {
        Self::MissingVariable {
            owner: owner.to_owned(),
            key: key.to_owned(),
            name,
        }
    }
}

/// How a file is served, apart from what it says itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How many programs may run at once, of all tools and resources together; 64 unless said
    /// otherwise. Calls that need another one wait in line, and are refused (1069) if they wait too
    /// long.
    pub programs: NonZeroUsize,
    /// How many programs may run at once for one tool that does not say so itself; 16 unless said
    /// otherwise.
    pub programs_of_a_tool: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        let most = |number| NonZeroUsize::new(number).expect("it is not zero");
        Self {
            programs: most(64),
            programs_of_a_tool: most(16),
        }
    }
}

/// Begins a server of what a file says. Its commands are run in `folder`, where its files are.
///
/// # Errors
///
/// If the file cannot be served here.
pub fn builder(file: &File, folder: &Path, options: &Options) -> Result<Builder, ConfigError> {
    if !file.servers.is_empty() {
        return Err(ConfigError::Servers);
    }
    let here = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let folder = std::path::absolute(here).map_err(ConfigError::Folder)?;
    let sweeper = Arc::new(Sweeper::default());
    let places = Places::new(options.programs);
    let runner = |program: &file::Program, owner: &str| {
        let program = Arc::new(Program::new(program, &folder, owner)?);
        let sweeper = Arc::clone(&sweeper);
        Ok(Runner { program, sweeper })
    };
    let mut builder = base(file);
    for tool in &file.tools {
        let runner = runner(&tool.program, &format!("tool `{}`", tool.name))?;
        let most = tool
            .concurrency
            .and_then(|most| NonZeroUsize::new(most.try_into().ok()?));
        let most = most.unwrap_or(options.programs_of_a_tool);
        let places = Places::new(most).within(&places);
        builder = builder.tool(command_tool::command_tool(tool, runner).places(&places));
    }
    for described in &file.resources {
        let content = match &described.content {
            file::Content::Text(text) => Content::Text(text.clone()),
            file::Content::File(path) => Content::File {
                root: folder.clone(),
                path: path.clone(),
            },
            file::Content::Command(program) => {
                let runner = runner(program, &format!("resource `{}`", described.uri))?;
                Content::Command(runner, places.clone())
            }
        };
        builder = with_resource(builder, described, content);
    }
    Ok(builder)
}

/// Begins a server of what a file says, with tools that are made some other way. Nothing is run and
/// no file is read: resources that would need that say what they would be.
///
/// ```
/// use interlock::workflow::file;
/// use interlock_gateway::{builder_with, described};
///
/// let file = file::read(b"
/// interlock: 1
/// name: hello
/// tools: { greet: { description: Say hello, command: [./not-written-yet] } }
/// ")?;
/// let server = builder_with(&file, |tool| described(tool, |_, _| async { "hello" })).build()?;
/// # let _ = server;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn builder_with(file: &File, tool: impl FnMut(&CommandTool) -> Tool) -> Builder {
    let builder = file.tools.iter().map(tool).fold(base(file), Builder::tool);
    file.resources.iter().fold(builder, |builder, described| {
        let text = match &described.content {
            file::Content::Text(text) => text.clone(),
            file::Content::File(path) => format!("the file {path}"),
            file::Content::Command(program) => format!("what {} prints", program.command.join(" ")),
        };
        with_resource(builder, described, Content::Text(text))
    })
}

/// Everything of a file but its tools and resources.
fn base(file: &File) -> Builder {
    let mut builder = Server::builder(&*file.name, env!("CARGO_PKG_VERSION"))
        .tool_timeout(file.settings.tool_timeout)
        .cancel_grace(STOP_GRACE);
    if let Some(text) = instructions(file) {
        builder = builder.instructions(text);
    }
    builder = file
        .prompts
        .iter()
        .map(prompt)
        .fold(builder, Builder::prompt);
    match &file.workflow {
        Some(workflow) => builder.workflow(workflow.clone()),
        None => builder,
    }
}

fn with_resource(builder: Builder, described: &file::Resource, content: Content) -> Builder {
    match described.is_template() {
        true => builder.template(resource::template(described, content)),
        false => builder.resource(resource::resource(described, content)),
    }
}

/// What the file is for, and what a client does about the order of its tools. Clients of every
/// version read it, also those to whom lists never change.
fn instructions(file: &File) -> Option<String> {
    let how = file.workflow.as_ref().map(|_| match file.settings.visibility {
        Visibility::Dynamic => {
            "A workflow decides when each tool may be called: a refusal says what to call first. \
             List the tools again whenever you are told that they have changed."
        }
        Visibility::Static => {
            "A workflow decides when each tool may be called: a refusal says what to call first."
        }
    });
    let lines: Vec<_> = file.description.as_deref().into_iter().chain(how).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn prompt(text: &PromptText) -> Prompt {
    let mut prompt = Prompt::text(&*text.name, &*text.text);
    if let Some(description) = &text.description {
        prompt = prompt.description(description);
    }
    for argument in &text.arguments {
        let mut model = PromptArgument::new(&*argument.name).with_required(argument.required);
        model.description.clone_from(&argument.description);
        prompt = prompt.argument(model);
    }
    prompt
}
