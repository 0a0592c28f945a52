//! `interlock play`: a client at the prompt, or one that follows a script.
//!
//! The client talks to the real server in the same process, so what it sees is what any client
//! would see. A dry run asks the gate alone, and runs nothing.

mod client;
mod dry;
mod line;
mod person;
mod prompt;
mod script;
mod served;
mod session;
mod show;

use crate::{Stop, block_on, load::Source, simulate::Inventory};
use anyhow::{Context, anyhow};
use dry::{Dry, Gated};
use interlock::{Server, Workflow, workflow::file::File};
use interlock_gateway::Options;
use person::Person;
use prompt::Keyboard;
use script::Script;
use served::Served;
use session::Session;
use std::path::{Path, PathBuf};

/// Try a workflow file by hand, or by a script
///
/// Shows the state and what is callable, asks what to call and with which arguments, and shows
/// what comes of it. What is not callable now can be called as well, to see it refused. Where the
/// workflow wants a person's yes, you are the one who is asked.
#[derive(clap::Args)]
#[command(after_help = SCRIPTS)]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
    /// Play the steps in this file instead of asking for them
    #[arg(long, value_name = "SCRIPT")]
    script: Option<PathBuf>,
    /// Run no tools and wait for nothing: ask how each call ends, and when time passes
    #[arg(long)]
    dry: bool,
}

const SCRIPTS: &str = "\
Scripts hold one step per line:
  call TOOL {json}          call a tool
  read URI                  read a resource
  get PROMPT {json}         get a prompt
  approve yes               what a person says who is asked: yes, no, later
  list                      show what is listed
  state                     show the state
  expect state NAME         the workflow is in this state
  expect tools A B C        exactly these tools are listed
  expect ok                 the last step succeeded
  expect error              the last step ran and failed
  expect refused 1081       the last step was refused with this code
  expect text WORDS         the last step's text holds these words
  # comment

With --dry they can also hold what is said about the next call that needs it, and time:
  outcome success           how it ends: success, error, timeout, cancelled, unknown
  result {json}             what it comes to
  sampling success {json}   what the client's model answers; or: sampling error
  wait 30m                  time passes, and timers fire
  settle success            how the call ended that nobody knew the end of
  ctx                       show what is remembered
  expect ctx KEY {json}     this is remembered; null is nothing
In a dry script all goes well unless it says otherwise; at the prompt you are asked. Arguments are
checked against the schemas in the file; those of tools of other servers are not known.
Where tools run, a script that does not say `approve yes` has said no.

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
    if let Some(line) = script.as_ref().and_then(Script::dry_line)
        && !arguments.dry
    {
        return Err(Stop::Misused(anyhow!("a script with `{line}` needs --dry")));
    }
    let file = source.file()?;
    block_on(async {
        tokio::select! {
            // A script always has something to do, so it comes second.
            biased;
            () = interrupted() => Err(Stop::Failed(anyhow!("interrupted"))),
            played = play(arguments, &file, source.folder(), script) => played,
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
    if !arguments.dry {
        let server = served(file, folder)
            .context("the file cannot be served; --dry plays it without a server")?;
        let person = Person::new(script.is_none().then(|| keyboard.clone()));
        let served = Served::start(&server, file, person)
            .await
            .context("the server could not be reached")?;
        return go_on(file, Session::Served(Box::new(served)), script, &keyboard).await;
    }
    let inventory = Inventory::new(file);
    let open;
    let (workflow, gated) = match &file.workflow {
        Some(workflow) => (workflow, Gated::Yes),
        None => {
            let everything = Workflow::builder(&file.name).always_everything().build();
            open = everything.map_err(anyhow::Error::new)?;
            (&open, Gated::No)
        }
    };
    let asked = script.is_none().then(|| keyboard.clone());
    let dry = Dry::new(workflow, &inventory, gated, asked);
    go_on(file, Session::Dry(Box::new(dry)), script, &keyboard).await
}

fn served(file: &File, folder: &Path) -> anyhow::Result<Server> {
    Ok(interlock_gateway::builder(file, folder, &Options::default())?.build()?)
}

async fn go_on(
    file: &File,
    session: Session<'_>,
    script: Option<Script>,
    keyboard: &Keyboard,
) -> Result<(), Stop> {
    match script {
        Some(script) => script::play(script, session).await,
        None => prompt::play(file, session, keyboard).await,
    }
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
