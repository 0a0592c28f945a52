//! Tools that change what the server has, so that clients hear of it, and what they change.

use interlock::{Context, Failure, NoArguments, Prompt, Resource, Server, Tool};
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

const TOOL: &str = "test_dynamic_tool";
const PROMPT: &str = "test_dynamic_prompt";
const WATCHED: &str = "test://watched-resource";

/// The server whose tools these are: they are made before it is.
static SERVER: OnceLock<Server> = OnceLock::new();

/// How often the watched resource has changed.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Lets the tools know their server.
pub(crate) fn tell(server: &Server) {
    SERVER.get_or_init(|| server.clone());
}

pub(crate) fn all() -> Vec<Tool> {
    vec![
        Tool::new("test_trigger_tool_change", change_tools)
            .description("Adds a tool, or takes it away again"),
        Tool::new("test_trigger_prompt_change", change_prompts)
            .description("Adds a prompt, or takes it away again"),
        Tool::new("test_trigger_resource_update", change_resource)
            .description("Changes the resource that can be watched"),
    ]
}

pub(crate) fn watched() -> Resource {
    Resource::new(WATCHED, |_: Context| async {
        format!("Changed {} times so far", CHANGES.load(Ordering::Relaxed))
    })
    .name("watched-resource")
    .description("A text that changes, and can be subscribed to")
    .mime_type("text/plain")
}

async fn change_tools(_: NoArguments, _: Context) -> Result<&'static str, Failure> {
    let server = server()?;
    if server.remove_tool(TOOL) {
        return Ok("The tool is gone");
    }
    let tool = Tool::new(TOOL, |_: NoArguments, _: Context| async { "Here I am" });
    server.add_tool(tool.description("Comes and goes"))?;
    Ok("There is another tool")
}

async fn change_prompts(_: NoArguments, _: Context) -> Result<&'static str, Failure> {
    let server = server()?;
    if server.remove_prompt(PROMPT) {
        return Ok("The prompt is gone");
    }
    server.add_prompt(Prompt::text(PROMPT, "Here I am.").description("Comes and goes"))?;
    Ok("There is another prompt")
}

async fn change_resource(_: NoArguments, _: Context) -> Result<&'static str, Failure> {
    CHANGES.fetch_add(1, Ordering::Relaxed);
    server()?.resource_updated(WATCHED);
    Ok("The resource has changed")
}

fn server() -> Result<&'static Server, Failure> {
    SERVER
        .get()
        .ok_or_else(|| Failure::new("the server has not begun"))
}
