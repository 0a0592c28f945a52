//! The same server on rmcp: its tools by hand, or by its macros.
//!
//! Where rmcp offers a choice, the faster one is taken: over stdio its own non-blocking pipes
//! (`--pipes`), plain JSON where there is no session, no keep-alive and no event that primes a
//! stream, and nothing kept for a stream that is resumed. hyper serves its service without a
//! router in between. In a session rmcp always answers by a stream.

mod hand;
mod macros;

use std::{error::Error, process::ExitCode, sync::Arc, time::Duration};

use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rmcp::{
    ServerHandler, ServiceExt,
    transport::{
        self, StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use tokio::net::TcpListener;

const USAGE: &str = "usage: rmcp_echo (--stdio | --pipes | --http ADDRESS [--stateless]) \
                     [--macros] [--tools NUMBER]";

#[derive(Clone)]
enum Way {
    Stdio,
    Pipes,
    Http(String, Sessions),
}

#[derive(Clone, Copy, PartialEq)]
enum Sessions {
    Kept,
    None,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (rest, tools) = match *arguments {
        [ref rest @ .., "--tools", number] => (rest, number.parse().ok()),
        ref rest => (rest, Some(interlock_benches::tools::USUAL)),
    };
    let (rest, macros) = match *rest {
        [ref rest @ .., "--macros"] => (rest, true),
        ref rest => (rest, false),
    };
    let (Some(tools), Some(way)) = (tools, way(rest)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let served = if macros {
        serve(macros::Echo, way).await
    } else {
        match hand::Echo::with_tools(tools) {
            Ok(echo) => serve(echo, way).await,
            Err(error) => Err(error.into()),
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rmcp_echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn way(arguments: &[&str]) -> Option<Way> {
    match *arguments {
        ["--stdio"] => Some(Way::Stdio),
        ["--pipes"] => Some(Way::Pipes),
        ["--http", address] => Some(Way::Http(address.to_owned(), Sessions::Kept)),
        ["--http", address, "--stateless"] => Some(Way::Http(address.to_owned(), Sessions::None)),
        _ => None,
    }
}

async fn serve<S>(echo: S, way: Way) -> Result<(), Box<dyn Error>>
where
    S: ServerHandler + Clone + Sync,
{
    match way {
        Way::Stdio => {
            echo.serve(transport::stdio()).await?.waiting().await?;
            Ok(())
        }
        Way::Pipes => {
            let pipes = transport::io::stdio_pipes();
            echo.serve(pipes).await?.waiting().await?;
            Ok(())
        }
        Way::Http(address, sessions) => serve_http(echo, &address, sessions).await,
    }
}

async fn serve_http<S>(echo: S, address: &str, sessions: Sessions) -> Result<(), Box<dyn Error>>
where
    S: ServerHandler + Clone + Sync,
{
    let config = StreamableHttpServerConfig::default()
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        .with_legacy_session_mode(sessions == Sessions::Kept)
        .with_json_response(true);
    let mut manager = LocalSessionManager::default();
    manager.session_config.sse_retry = None;
    manager.session_config.completed_cache_ttl = Duration::ZERO;
    let service = StreamableHttpService::new(move || Ok(echo.clone()), Arc::new(manager), config);
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that goes away in the middle has nobody to be told.
            let _ = connection.await;
        });
    }
}
