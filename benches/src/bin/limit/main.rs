//! The limit: a server that does the work of the wire by hand, and nothing on top of it.
//!
//! It has one tool that works, `echo`, and a list of tools that it keeps as bytes. No schema is
//! checked, no call can be cancelled, nothing has a deadline and no limit is kept: what a server
//! costs beyond this one is the price of what it does more.

mod answer;
mod http;
#[cfg(unix)]
mod stdio;

use std::{io, process::ExitCode, sync::Arc};

use answer::Server;

const USAGE: &str = "usage: limit (--stdio | --http ADDRESS) [--tools NUMBER]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((http, tools)) = wanted(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match serve(http, tools) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("limit: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(http: Option<&str>, tools: usize) -> io::Result<()> {
    let server = Arc::new(Server::with_tools(tools)?);
    let runtime = tokio::runtime::Runtime::new()?;
    match http {
        Some(address) => runtime.block_on(http::serve(server, address)),
        #[cfg(unix)]
        None => runtime.block_on(stdio::serve(server)),
        #[cfg(not(unix))]
        None => Err(io::Error::other("stdio needs the pipes of Unix")),
    }
}

/// The address, if it is HTTP, and the number of tools. It has no workflow, whoever wants one.
fn wanted(arguments: &[String]) -> Option<(Option<&str>, usize)> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ungated = match *arguments {
        [ref ungated @ .., "--gate", _, "--states", _] => ungated,
        ref ungated => ungated,
    };
    let (way, tools) = match *ungated {
        [ref way @ .., "--tools", number] => (way, number.parse().ok()?),
        ref way => (way, interlock_benches::tools::USUAL),
    };
    match *way {
        ["--stdio"] => Some((None, tools)),
        ["--http", address] => Some((Some(address), tools)),
        _ => None,
    }
}
