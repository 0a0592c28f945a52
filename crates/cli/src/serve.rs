//! `interlock serve`: a workflow file as an MCP server.

use crate::{Stop, block_on, load, load::Source, terminal::Look};
use anyhow::anyhow;
use interlock::{Rules, workflow::file::parse_duration};
use std::{io, path::PathBuf, time::Duration};
use tracing_subscriber::filter::LevelFilter;

/// Serve a workflow file to an MCP client
///
/// The client speaks over standard input and output; the log goes to standard error. When the
/// input ends, or SIGTERM or SIGINT comes, running calls may end, and then the server does.
#[derive(clap::Args)]
#[command(after_help = "\
Environment:
  INTERLOCK_LOG  what --log is unless it is given

Exit codes:
  0  the client has gone, or a signal came and running calls have ended
  1  the file has errors, or serving failed
  2  the file cannot be read

Examples:
  interlock serve flow.yaml
  interlock serve flow.yaml --log debug 2>flow.log
  interlock serve flow.yaml --tool-timeout 5m --drain-timeout 10s")]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
    /// Serve over standard input and output, which is the default
    #[arg(long)]
    stdio: bool,
    /// How much to log: off, error, warn, info, debug or trace [default: warn]
    #[arg(long, value_name = "LEVEL")]
    log: Option<LevelFilter>,
    /// How long a call may run unless its tool says otherwise [default: as the file says, or 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    tool_timeout: Option<Duration>,
    /// How long running calls may take once the server is ending [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drain_timeout: Option<Duration>,
    /// How long to wait for the client's first request [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    initialize_timeout: Option<Duration>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let level = level(arguments.log)?;
    let source = Source::read(&arguments.file)?;
    let file = source.file()?;
    let mut rules = Rules::default();
    rules.drain = arguments.drain_timeout.unwrap_or(rules.drain);
    rules.initialize = arguments.initialize_timeout.or(rules.initialize);
    let mut builder = interlock_gateway::builder(&file, source.folder())?.connections(rules);
    if let Some(timeout) = arguments.tool_timeout {
        builder = builder.tool_timeout(timeout);
    }
    let server = load::build(builder)?;

    // Not before the server is built, which would warn of what the file warns of, without places.
    let stderr = io::stderr();
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(Look::of(&stderr) == Look::Coloured)
        // Whoever closes standard error wants no log, and loses no server for it.
        .log_internal_errors(false)
        .with_writer(io::stderr)
        .init();
    for warning in &file.warnings {
        tracing::warn!("{}:{warning}", source.name());
    }
    block_on(server.serve_stdio())?.map_err(|error| {
        Stop::Failed(if error.kind() == io::ErrorKind::Interrupted {
            anyhow!("a second signal came while calls were running, so they were torn down")
        } else {
            anyhow::Error::new(error).context("serving failed")
        })
    })
}

/// How much to log, by the flag, else the environment, else warnings.
fn level(flag: Option<LevelFilter>) -> Result<LevelFilter, Stop> {
    match (flag, std::env::var("INTERLOCK_LOG")) {
        (Some(level), _) => Ok(level),
        (None, Ok(written)) if !written.is_empty() => written
            .parse()
            .map_err(|_| Stop::Misused(anyhow!("INTERLOCK_LOG is `{written}`, which is no level"))),
        (None, Ok(_) | Err(_)) => Ok(LevelFilter::WARN),
    }
}
