//! `interlock play`: a client at the prompt, or one that follows a script.
//!
//! The client talks to the real server in the same process, so what it sees is what any client
//! would see.

mod client;
mod dry;
mod prompt;
mod script;
mod session;
mod show;

use crate::{Stop, block_on, load, load::Source};
use anyhow::{Context, anyhow};
use dry::Dry;
use interlock::{Server, workflow::file::File};
use prompt::Keyboard;
use script::Script;
use session::Session;
use std::path::{Path, PathBuf};

/// Try a workflow file by hand, or by a script
///
/// Shows the state and what is callable, asks what to call and with which arguments, and shows
/// what comes of it. What is not callable now can be called as well, to see it refused.
#[derive(clap::Args)]
#[command(after_help = SCRIPTS)]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
    /// Play the steps in this file instead of asking for them
    #[arg(long, value_name = "SCRIPT")]
    script: Option<PathBuf>,
    /// Run no tools: ask how each call ends (in a script: `outcome`)
    #[arg(long)]
    dry: bool,
}

const SCRIPTS: &str = "\
Scripts hold one step per line:
  call TOOL {json}          call a tool
  read URI                  read a resource
  get PROMPT {json}         get a prompt
  list                      show what is listed
  state                     show the state
  outcome success           how the next call ends (success, error, timeout); needs --dry
  expect state NAME         the workflow is in this state
  expect tools A B C        exactly these tools are listed
  expect ok                 the last step succeeded
  expect error              the last step ran and failed
  expect refused 1081       the last step was refused with this code
  expect text WORDS         the last step's text holds these words
  # comment

Exit codes:
  0  it was played, and everything was as expected
  1  something was not as expected, or the file has errors
  2  the file or the script cannot be read

Examples:
  interlock play flow.yaml
  interlock play flow.yaml --dry
  interlock play flow.yaml --script steps.txt";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let source = Source::read(&arguments.file)?;
    let script = match &arguments.script {
        Some(path) => Some(Script::read(path)?),
        None => None,
    };
    if !arguments.dry && script.as_ref().is_some_and(Script::has_outcomes) {
        return Err(Stop::Misused(anyhow!(
            "a script with `outcome` needs --dry"
        )));
    }
    let file = source.file()?;
    block_on(async {
        tokio::select! {
            played = play(arguments, &file, source.folder(), script) => played,
            () = interrupted() => Err(Stop::Failed(anyhow!("interrupted"))),
        }
    })?
}

async fn play(
    arguments: &Arguments,
    file: &File,
    folder: &Path,
    script: Option<Script>,
) -> Result<(), Stop> {
    let keyboard = Keyboard::default();
    let dry = arguments.dry.then(|| match script {
        Some(_) => Dry::scripted(),
        None => Dry::asking(keyboard.clone()),
    });
    let server = server(file, folder, dry.as_ref())?;
    let session = Session::start(&server, file)
        .await
        .context("the server could not be reached")?;
    match (script, dry) {
        (Some(script), dry) => script::play(script, session, dry.as_ref()).await,
        (None, _) => prompt::play(file, session, &keyboard).await,
    }
}

fn server(file: &File, folder: &Path, dry: Option<&Dry>) -> Result<Server, Stop> {
    load::build(match dry {
        Some(dry) => {
            interlock_gateway::builder_with(file, |tool| dry.tool(tool)).clock(dry.clock())
        }
        None => interlock_gateway::builder(file, folder)?,
    })
}

/// Completes when somebody wants it to end. Commands that run are in groups of their own, so they
/// would not hear of it.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let of = |kind| signal(kind).ok();
        if let (Some(mut terminate), Some(mut hangup), Some(mut quit)) = (
            of(SignalKind::terminate()),
            of(SignalKind::hangup()),
            of(SignalKind::quit()),
        ) {
            tokio::select! {
                _ = terminate.recv() => return,
                _ = hangup.recv() => return,
                _ = quit.recv() => return,
                Ok(()) = tokio::signal::ctrl_c() => return,
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
