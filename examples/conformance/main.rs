//! Conformance: everything that the official MCP conformance suite wants a server to have.
//!
//! It shows every kind of tool, resource and prompt, tools that speak and ask before they answer,
//! and lists that change while the server runs. One process serves clients of all versions.
//!
//! ```console
//! $ cargo run -p mcp-interlock --example conformance -- 127.0.0.1:8000
//! $ npx @modelcontextprotocol/conformance server --url http://127.0.0.1:8000/mcp
//! ```
//!
//! With `--stdio` instead of an address it serves standard input and output.

mod asking;
mod changes;
mod media;
mod prompts;
mod resources;
mod tools;

use interlock::{HttpOptions, Server, model::JsonObject};
use serde_json::Value;
use std::{error::Error, process::ExitCode, time::Duration};
use tokio::net::TcpListener;

const USAGE: &str = "\
usage: conformance ADDRESS    serve HTTP there, at the path /mcp; port 0 is any free one
       conformance --stdio    serve standard input and output
";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let served = match arguments.as_slice() {
        [way] if way == "--stdio" => serve_stdio().await,
        [address] if !address.as_encoded_bytes().starts_with(b"-") => {
            serve_http(&address.to_string_lossy()).await
        }
        _ => {
            eprint!("conformance: an address or `--stdio` is needed, and nothing else\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve_stdio() -> Result<(), Box<dyn Error>> {
    Ok(server()?.serve_stdio().await?)
}

async fn serve_http(address: &str) -> Result<(), Box<dyn Error>> {
    let server = server()?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}"))?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    // Soon enough for whoever waits for a test.
    let options = HttpOptions::default().retry(Duration::from_millis(500));
    Ok(server.serve_http_with(listener, options).await?)
}

fn server() -> Result<Server, Box<dyn Error>> {
    let mut builder = Server::builder("conformance", env!("CARGO_PKG_VERSION"));
    for tool in tools::all()
        .into_iter()
        .chain(asking::all())
        .chain(changes::all())
    {
        builder = builder.tool(tool);
    }
    for resource in resources::all().into_iter().chain([changes::watched()]) {
        builder = builder.resource(resource);
    }
    for prompt in prompts::all() {
        builder = builder.prompt(prompt);
    }
    let server = builder.template(resources::template()).build()?;
    changes::tell(&server);
    Ok(server)
}

/// The members of a JSON object that is written down here.
fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    }
}
