//! `interlock graph`: a workflow as a picture.

use crate::{
    Stop,
    load::{Source, same_file, shown},
};
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use interlock::workflow::{StateId, Workflow, dot, mermaid, svg, xstate};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Draw the workflow of a file
///
/// The picture is an SVG, or text for Mermaid, which many editors and forges show, for Graphviz,
/// or for the tools around XState.
#[derive(clap::Args)]
#[command(after_help = "\
The name of the output tells the format:
  .svg            a picture
  .mmd, .mermaid  Mermaid
  .dot, .gv       Graphviz
  .json           an XState machine

Exit codes:
  0  it is drawn
  1  the file has errors, no states to draw, or too many for a picture
  2  the file cannot be read, or has no such state

Examples:
  interlock graph flow.yaml
  interlock graph flow.yaml --state paid
  interlock graph flow.yaml -o flow.svg
  interlock graph flow.yaml --format xstate")]
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
    /// A picture
    Svg,
    /// A Mermaid state diagram
    Mermaid,
    /// A Graphviz digraph
    Dot,
    /// An XState machine, as JSON
    Xstate,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let format = match arguments.format {
        Some(format) => format,
        None => by_extension(arguments.output.as_deref())?,
    };
    let source = Source::read(&arguments.file)?;
    let workflow = source.workflow()?;
    let highlight = match &arguments.state {
        Some(name) => Some(find(&workflow, name)?),
        None => None,
    };
    let drawn = draw(&workflow, format, highlight)?;
    match &arguments.output {
        Some(path) => write(&source, path, &drawn),
        None => Ok(io::stdout().lock().write_all(drawn.as_bytes())?),
    }
}

fn draw(workflow: &Workflow, format: Format, highlight: Option<StateId>) -> Result<String, Stop> {
    match format {
        Format::Mermaid => Ok(mermaid(workflow, highlight)),
        Format::Dot => Ok(dot(workflow, highlight)),
        Format::Svg => svg(workflow, highlight)
            .map_err(|large| Stop::Failed(anyhow!("{large}: try --format mermaid or dot"))),
        Format::Xstate if highlight.is_some() => Err(Stop::Misused(anyhow!(
            "an XState machine has no place for --state: leave it out"
        ))),
        Format::Xstate => Ok(format!("{:#}\n", xstate(workflow))),
    }
}

fn write(source: &Source, path: &Path, drawn: &str) -> Result<(), Stop> {
    if same_file(path, &source.path) {
        return Err(Stop::Misused(anyhow!(
            "`{}` is the workflow file itself, and would be lost",
            shown(path)
        )));
    }
    std::fs::write(path, drawn).with_context(|| format!("cannot write `{}`", shown(path)))?;
    Ok(())
}

fn by_extension(output: Option<&Path>) -> Result<Format, Stop> {
    let Some(path) = output else {
        return Ok(Format::Mermaid);
    };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg" | "SVG") => Ok(Format::Svg),
        Some("mmd" | "mermaid") => Ok(Format::Mermaid),
        Some("dot" | "gv") => Ok(Format::Dot),
        Some("json") => Ok(Format::Xstate),
        Some(_) | None => Err(Stop::Misused(anyhow!(
            "the name `{}` does not tell the format: end it in .svg, .mmd, .dot or .json, or give \
             --format",
            shown(path)
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
