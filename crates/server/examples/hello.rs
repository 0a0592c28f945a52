//! Hello: the smallest server, one typed tool over standard input and output.
//!
//! Any MCP client can start it as a command: `cargo run -p mcp-interlock --example hello`.

use interlock::{Context, Server, Tool, schemars};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Hello {
    /// Who is greeted.
    name: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hello = Tool::new("hello", |args: Hello, _: Context| async move {
        format!("Hello, {}!", args.name)
    })
    .description("Greets somebody");
    let server = Server::builder("hello", "1.0.0").tool(hello).build()?;
    server.serve_stdio().await?;
    Ok(())
}
