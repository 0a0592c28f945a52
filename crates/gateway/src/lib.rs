//! A workflow file as a server.
//!
//! What the file says in words becomes what the server library serves: its tools are commands that
//! are run, its resources and prompts are texts, its workflow is the gate before them all.
//!
//! ```
//! use interlock::workflow::file;
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
//! let server = interlock_gateway::builder(&file, Path::new("."))?.build()?;
//! # let _ = server;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | `child` | a process and whatever it starts, with bounded output |
//! | `command_tool` | what a command is told, and what its end means |

mod child;
mod command_tool;

use interlock::{
    Builder, Prompt, Resource, Server, Tool,
    model::PromptArgument,
    workflow::{
        Visibility,
        file::{CommandTool, File, PromptText, StaticResource},
    },
};
use std::{io, path::Path, time::Duration};

pub use command_tool::{OUTPUT_LIMIT, command_tool, described};

/// Begins a server of what a file says, whose commands are run in `folder`.
///
/// # Errors
///
/// If the file names upstream servers, which this version does not connect, or if `folder` is
/// relative and there is no current directory.
pub fn builder(file: &File, folder: &Path) -> io::Result<Builder> {
    if !file.servers.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "upstream servers (`servers`) are not connected by this version",
        ));
    }
    let here = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let folder = std::path::absolute(here)?;
    Ok(builder_with(file, |tool| command_tool(tool, &folder)))
}

/// Begins a server of what a file says, with tools that are made some other way.
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
    let mut builder = Server::builder(&*file.name, env!("CARGO_PKG_VERSION"))
        .tool_timeout(file.settings.tool_timeout)
        // A command cannot be asked to stop, only ended, so there is nothing to wait for.
        .cancel_grace(Duration::ZERO);
    if let Some(text) = instructions(file) {
        builder = builder.instructions(text);
    }
    for tool in file.tools.iter().map(tool) {
        builder = builder.tool(tool);
    }
    for text in &file.resources {
        builder = builder.resource(resource(text));
    }
    for text in &file.prompts {
        builder = builder.prompt(prompt(text));
    }
    match &file.workflow {
        Some(workflow) => builder.workflow(workflow.clone()),
        None => builder,
    }
}

/// What the file is for, and that its tools come and go, where they do.
fn instructions(file: &File) -> Option<String> {
    let how = file.workflow.as_ref().map(|_| match file.settings.visibility {
        Visibility::Dynamic => {
            "Tools appear and disappear as the workflow advances: list them again after a change."
        }
        Visibility::Static => {
            "A workflow decides when each tool may be called: a refusal says what to call first."
        }
    });
    let lines: Vec<_> = file.description.as_deref().into_iter().chain(how).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn resource(text: &StaticResource) -> Resource {
    let mut resource = Resource::text(&*text.uri, &*text.text);
    if let Some(name) = &text.name {
        resource = resource.name(name);
    }
    if let Some(description) = &text.description {
        resource = resource.description(description);
    }
    if let Some(mime_type) = &text.mime_type {
        resource = resource.mime_type(mime_type);
    }
    resource
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
