//! `interlock serve`: a workflow file as an MCP server.

#[cfg(unix)]
use crate::control;
use crate::{Stop, block_on, load, load::Source, terminal::Look};
use anyhow::anyhow;
use interlock::{
    AllowedHosts, HttpOptions, Rates, Rules, Server, until_signalled,
    workflow::file::{File, parse_duration},
};
use interlock_gateway::Options;
use std::{
    io::{self, Write},
    net::IpAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;

/// Serve a workflow file to an MCP client
///
/// One client speaks over standard input and output, or any number over HTTP; the log goes to
/// standard error. When the input ends, or SIGTERM or SIGINT comes, running calls may end, and then
/// the server does. Meanwhile an operator can use `interlock pending`, `approve`, `deny`, `settle`
/// and `reset`.
#[derive(clap::Args)]
#[command(after_help = "\
Environment:
  INTERLOCK_LOG  what --log is unless it is given

Exit codes:
  0  the client has gone, or a signal came and running calls have ended
  1  the file has errors, or serving failed
  2  it was called wrongly, or the file cannot be read

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
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<String>,
    /// A name by which clients may address the server, besides those of this machine
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// A web origin whose pages may use the server, besides those of this machine
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    allow_origin: Vec<String>,
    /// Where the socket for operators is made [default: in a folder of this user]
    #[cfg(unix)]
    #[arg(long, value_name = "PATH", conflicts_with = "no_control")]
    control: Option<PathBuf>,
    /// Make no socket for operators
    #[cfg(unix)]
    #[arg(long)]
    no_control: bool,
    /// How much to log: off, error, warn, info, debug or trace [default: warn]
    #[arg(long, value_name = "LEVEL")]
    log: Option<LevelFilter>,
    /// How many programs may run at once; calls that need another one wait [default: 64]
    #[arg(long, value_name = "COUNT")]
    commands: Option<NonZeroUsize>,
    /// How long a call may run unless its tool says otherwise [default: as the file says, or 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    tool_timeout: Option<Duration>,
    /// How long running calls may take once the server is ending [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drain_timeout: Option<Duration>,
    /// How many calls a client may make in a second [default: 10000]
    #[arg(long, value_name = "CALLS")]
    calls_per_second: Option<NonZeroU32>,
    /// How many calls a client may make in a minute [default: any number]
    #[arg(long, value_name = "CALLS")]
    calls_per_minute: Option<NonZeroU32>,
    /// How long to wait for the first request on standard input [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "http")]
    initialize_timeout: Option<Duration>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Stop> {
    let level = level(arguments.log)?;
    let source = Source::read(&arguments.file)?;
    let file = source.served_file()?;
    let mut rules = Rules::default();
    rules.drain = arguments.drain_timeout.unwrap_or(rules.drain);
    rules.initialize = arguments.initialize_timeout.or(rules.initialize);
    let mut options = Options::default();
    options.programs = arguments.commands.unwrap_or(options.programs);
    let mut builder = interlock_gateway::builder(&file, source.folder(), &options)
        .map_err(anyhow::Error::new)?
        .connections(rules);
    let per_second = arguments.calls_per_second.or(Rates::CALLS.per_second);
    let per_minute = arguments.calls_per_minute;
    builder = builder.call_rates(Rates {
        per_second,
        per_minute,
    });
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
    let served = block_on(async {
        #[cfg(unix)]
        let _listening = listen(&server, &file, arguments)?;
        match &arguments.http {
            None => server.serve_stdio().await,
            Some(address) => serve_http(&server, address, arguments).await,
        }
    });
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
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "anybody who reaches this address can use the server");
    }
    let hosts = arguments.allow_host.iter().cloned();
    let hosts = hosts.fold(AllowedHosts::new(), AllowedHosts::allow_host);
    let origins = arguments.allow_origin.iter().cloned();
    let hosts = origins.fold(hosts, AllowedHosts::allow_origin);
    let options = HttpOptions::default().hosts(hosts);
    let serving = |stop| {
        // A server waits for its end once all else is checked and done.
        let stop = async move {
            // Whoever starts it with port 0 wants to know; nobody else has to listen.
            let _ = writeln!(io::stderr(), "listening on http://{address}/mcp");
            stop.await;
        };
        server.serve_http_until(listener, options, stop)
    };
    until_signalled(serving).await
}

/// Opens the door for operators. If nobody asked for it, serving does not depend on it.
#[cfg(unix)]
fn listen(
    server: &Server,
    file: &File,
    arguments: &Arguments,
) -> io::Result<Option<control::Listening>> {
    if arguments.no_control || file.workflow.is_none() {
        return Ok(None);
    }
    let at = |path: PathBuf| {
        let listening = control::listen(&path, server.operator());
        let listening = listening.map_err(|error| {
            let path = load::shown(&path);
            io::Error::new(error.kind(), format!("cannot listen on {path}: {error}"))
        })?;
        tracing::info!(path = load::shown(&path), "operators can connect");
        Ok(listening)
    };
    match &arguments.control {
        Some(path) => at(path.clone()).map(Some),
        None => match control::default_path(&file.name).and_then(at) {
            Ok(listening) => Ok(Some(listening)),
            Err(error) => {
                tracing::warn!(%error, "no operator can connect");
                Ok(None)
            }
        },
    }
}

/// An address to listen on: a host and a port. Whether there is such a host is seen later.
fn address(text: &str) -> Result<String, String> {
    let with_port = |host: &str| {
        Err(format!(
            "it has no port: write `{host}:8080`, or `{host}:0` for any that is free"
        ))
    };
    if text.contains('/') {
        return Err("write a host and a port alone, such as `127.0.0.1:8080`".to_owned());
    }
    if let Ok(IpAddr::V6(host)) = text.parse() {
        return with_port(&format!("[{host}]"));
    }
    match text.rsplit_once(':') {
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("it has no host: write `127.0.0.1:{text}`"))
        }
        Some(("", port)) => Err(format!("it has no host: write `127.0.0.1:{port}`")),
        None => with_port(text),
        Some(_) if text.ends_with(']') => with_port(text),
        Some((_, port)) if port.parse::<u16>().is_err() => {
            Err(format!("`{port}` is no port: write a number up to 65535"))
        }
        Some(_) => Ok(text.to_owned()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_host_or_a_port_says_what_to_write() {
        for (text, why) in [
            ("localhost", "no port: write `localhost:8080`"),
            ("", "no port"),
            ("127.0.0.1", "no port: write `127.0.0.1:8080`"),
            ("::1", "no port: write `[::1]:8080`"),
            ("[::1]", "no port: write `[::1]:8080`"),
            ("8080", "no host: write `127.0.0.1:8080`"),
            (":8080", "no host: write `127.0.0.1:8080`"),
            ("localhost:http", "`http` is no port"),
            ("localhost:99999", "`99999` is no port"),
            ("http://localhost:8080", "a host and a port alone"),
        ] {
            let told = address(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
        for text in ["localhost:8080", "127.0.0.1:0", "[::1]:8080"] {
            assert_eq!(address(text).as_deref(), Ok(text));
        }
    }
}
