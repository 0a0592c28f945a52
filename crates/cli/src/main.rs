//! The command line: `interlock check`, `graph`, `paths`, `play`, `serve`, `test`, what operators
//! decide, and what belongs to them.
//!
//! One module per command. Standard output holds what was asked for, standard error what went
//! wrong, and the exit code says whose turn it is: see [`Stop`].

mod check;
mod completions;
#[cfg(unix)]
mod control;
#[cfg(unix)]
mod decide;
mod graph;
mod load;
mod paths;
#[cfg(unix)]
mod pending;
mod play;
mod report;
mod schema;
mod serve;
mod simulate;
mod terminal;
mod test;

use clap::{CommandFactory, Parser, Subcommand};
use std::{io, process::ExitCode};

/// MCP servers that cannot be used out of order.
#[derive(Parser)]
#[command(name = "interlock", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
Exit codes:
  0  it did what it was asked
  1  it found something, was refused, or failed
  2  it was called wrongly, or a file cannot be read

Examples:
  interlock check flow.yaml        say everything that is wrong with a workflow file
  interlock graph flow.yaml        draw it
  interlock paths flow.yaml        list ways that take every transition
  interlock play flow.yaml         try it by hand
  interlock test flow.yaml         play scenarios against it
  interlock serve flow.yaml        serve it to an MCP client
  interlock pending                show what waits for an operator of that server
  interlock schema                 print the JSON Schema of workflow files, for editors
  interlock completions bash       print a script that completes commands in a shell";

#[derive(Subcommand)]
enum Command {
    Check(check::Arguments),
    Graph(graph::Arguments),
    Paths(paths::Arguments),
    Play(play::Arguments),
    Serve(serve::Arguments),
    #[cfg(unix)]
    Pending(pending::Arguments),
    /// Let a call run that needs a person's yes
    ///
    /// Whoever made the call repeats it, and then it runs once. The yes is void as soon as the
    /// instance has moved.
    #[cfg(unix)]
    Approve(decide::Answering),
    /// Refuse a call that needs a person's yes
    #[cfg(unix)]
    Deny(decide::Answering),
    #[cfg(unix)]
    Settle(decide::Settling),
    #[cfg(unix)]
    Reset(decide::Resetting),
    Test(test::Arguments),
    Schema(schema::Arguments),
    Completions(completions::Arguments),
}

/// Why a command did not do what it was asked.
enum Stop {
    /// Exit code 1, and everything has been said.
    Told,
    /// Exit code 1, for this reason.
    Failed(anyhow::Error),
    /// Exit code 2, for this reason.
    Misused(anyhow::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Told) => ExitCode::FAILURE,
        // Whoever read our output has seen enough.
        Err(Stop::Failed(error)) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(Stop::Failed(error)) => {
            complain(&error);
            ExitCode::FAILURE
        }
        Err(Stop::Misused(error)) => {
            complain(&error);
            ExitCode::from(2)
        }
    }
}

/// Says what went wrong. Names in it are those of others, so no terminal may obey them.
fn complain(error: &anyhow::Error) {
    terminal::say(&format!("error: {error:#}"));
}

fn run(cli: Cli) -> Result<(), Stop> {
    match cli.command {
        Some(Command::Check(arguments)) => check::run(&arguments),
        Some(Command::Graph(arguments)) => graph::run(&arguments),
        Some(Command::Paths(arguments)) => paths::run(&arguments),
        Some(Command::Play(arguments)) => play::run(&arguments),
        Some(Command::Serve(arguments)) => serve::run(&arguments),
        #[cfg(unix)]
        Some(Command::Pending(arguments)) => pending::run(&arguments),
        #[cfg(unix)]
        Some(Command::Approve(arguments)) => decide::approve(&arguments),
        #[cfg(unix)]
        Some(Command::Deny(arguments)) => decide::deny(&arguments),
        #[cfg(unix)]
        Some(Command::Settle(arguments)) => decide::settle(&arguments),
        #[cfg(unix)]
        Some(Command::Reset(arguments)) => decide::reset(&arguments),
        Some(Command::Test(arguments)) => test::run(&arguments),
        Some(Command::Schema(arguments)) => schema::run(&arguments),
        Some(Command::Completions(arguments)) => completions::run(&arguments, Cli::command()),
        None => Ok(Cli::command().print_help()?),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Runs something asynchronous to its end.
///
/// What is still running then is dropped, and commands with it; threads that are blocked, say on
/// reading standard input, are not waited for.
fn block_on<F: Future>(work: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let output = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(output)
}
