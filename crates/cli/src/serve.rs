//! `interlock serve`: a workflow file as an MCP server.

use crate::{Stop, block_on, load, load::Source, terminal::Look};
use anyhow::anyhow;
use interlock::{AllowedHosts, HttpOptions, Rules, Server, workflow::file::parse_duration};
use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;

/// Serve a workflow file to an MCP client
///
/// One client speaks over standard input and output, or any number over HTTP; the log goes to
/// standard error. When the input ends, or SIGTERM or SIGINT comes, running calls may end, and then
/// the server does.
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
  interlock serve flow.yaml --http 127.0.0.1:8080
  interlock serve flow.yaml --log debug 2>flow.log
  interlock serve flow.yaml --tool-timeout 5m --drain-timeout 10s")]
pub(crate) struct Arguments {
    /// The workflow file, YAML or JSON
    file: PathBuf,
    /// Serve over standard input and output, which is the default
    #[arg(long, conflicts_with = "http")]
    stdio: bool,
    /// Serve over HTTP at this address, at the path /mcp
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// A name by which clients may address the server, besides those of this machine
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// A web origin whose pages may use the server, besides those of this machine
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
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
    let mut builder = interlock_gateway::builder(&file, source.folder())
        .map_err(anyhow::Error::new)?
        .connections(rules);
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
    let served = match &arguments.http {
        None => block_on(server.serve_stdio()),
        Some(address) => block_on(serve_http(&server, address, arguments)),
    };
    served?.map_err(|error| {
        Stop::Failed(if error.kind() == io::ErrorKind::Interrupted {
            anyhow!("a second signal came while calls were running, so they were torn down")
        } else {
            anyhow::Error::new(error).context("serving failed")
        })
    })
}

async fn serve_http(server: &Server, address: &str, arguments: &Arguments) -> io::Result<()> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })?;
    let address = listener.local_addr()?;
    // Whoever starts it with port 0 wants to know; nobody else has to listen.
    let _ = writeln!(io::stderr(), "listening on http://{address}/mcp");
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "anybody who reaches this address can use the server");
    }
    let hosts = arguments.allow_host.iter().cloned();
    let hosts = hosts.fold(AllowedHosts::new(), AllowedHosts::allow_host);
    let origins = arguments.allow_origin.iter().cloned();
    let hosts = origins.fold(hosts, AllowedHosts::allow_origin);
    let options = HttpOptions::default().hosts(hosts);
    server.serve_http_with(listener, options).await
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
