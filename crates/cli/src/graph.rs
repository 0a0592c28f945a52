//! `interlock graph`: a workflow as a picture.

use crate::{Stop, load::Source};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use interlock::workflow::{StateId, Workflow, dot, mermaid};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Draw the workflow of a file
///
/// The picture is text for Mermaid, which many editors and forges show, or for Graphviz.
#[derive(clap::Args)]
#[command(after_help = "\
Exit codes:
  0  it is drawn
  1  the file has errors, or no states to draw
  2  the file cannot be read, or has no such state

Examples:
  interlock graph flow.yaml
  interlock graph flow.yaml --state paid
  interlock graph flow.yaml -o flow.dot && dot -Tsvg flow.dot -o flow.svg")]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
    /// Which notation to write [default: by the extension of --output, or mermaid]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Highlight this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A Mermaid state diagram
    Mermaid,
    /// A Graphviz digraph
    Dot,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let format = match arguments.format {
        Some(format) => format,
        None => by_extension(arguments.output.as_deref())?,
    };
    let source = Source::read(&arguments.file)?;
    let file = source.file()?;
    let Some(workflow) = &file.workflow else {
        let path = source.path.display();
        return Err(Stop::Failed(anyhow!("`{path}` has no states to draw")));
    };
    let highlight = match &arguments.state {
        Some(name) => Some(find(workflow, name)?),
        None => None,
    };
    let drawn = match format {
        Format::Mermaid => mermaid(workflow, highlight),
        Format::Dot => dot(workflow, highlight),
    };
    match &arguments.output {
        Some(path) => std::fs::write(path, drawn)
            .with_context(|| format!("cannot write `{}`", path.display()))?,
        None => io::stdout().lock().write_all(drawn.as_bytes())?,
    }
    Ok(())
}

fn by_extension(output: Option<&Path>) -> Result<Format, Stop> {
    let Some(path) = output else {
        return Ok(Format::Mermaid);
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("mmd" | "mermaid") => Ok(Format::Mermaid),
        Some("dot" | "gv") => Ok(Format::Dot),
        Some(_) | None => Err(Stop::Misused(anyhow!(
            "the name `{}` does not tell the format: end it in .mmd or .dot, or give --format",
            path.display()
        ))),
    }
}

fn find(workflow: &Workflow, name: &str) -> Result<StateId, Stop> {
    workflow.state_id(name).ok_or_else(|| {
        let names: Vec<_> = workflow
            .states()
            .map(|state| workflow.state_name(state))
            .collect();
        Stop::Misused(anyhow!(
            "there is no state `{name}`; there are: {}",
            names.join(", ")
        ))
    })
}
