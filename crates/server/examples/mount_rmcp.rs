//! Mounting: a server that was written for rmcp, with rmcp's macros, behind a workflow of two
//! states. What it was before, down to `lending`, is as it was.
//!
//! ```console
//! $ cargo run -p mcp-interlock --example mount_rmcp                              # stdio
//! $ cargo run -p mcp-interlock --example mount_rmcp -- --http 127.0.0.1:8000     # or over HTTP
//! ```

use interlock::{
    HttpOptions, Mount, Server, Workflow, schemars,
    workflow::{Invalid, end},
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    handler::server::wrapper::Parameters,
    model::{
        ListResourcesResult, PaginatedRequestParams, PromptMessage, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, Role,
    },
    prompt, prompt_handler, prompt_router,
    service::RequestContext,
    tool, tool_handler, tool_router,
};
use std::{
    error::Error,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};
use tokio::net::TcpListener;

/// The server of a small library, as it was before it was mounted.
#[derive(Default)]
struct Library {
    lent: AtomicBool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Book {
    /// Its title.
    title: String,
}

#[tool_router]
impl Library {
    #[tool(description = "Borrow a book")]
    async fn borrow_book(&self, Parameters(Book { title }): Parameters<Book>) -> String {
        self.lent.store(true, Ordering::Relaxed);
        format!("You have borrowed {title}.")
    }

    #[tool(description = "Bring the book back")]
    async fn return_book(&self) -> String {
        self.lent.store(false, Ordering::Relaxed);
        "Thank you.".to_owned()
    }
}

#[prompt_router]
impl Library {
    #[prompt(name = "review", description = "Write about the book")]
    async fn review(&self, Parameters(Book { title }): Parameters<Book>) -> Vec<PromptMessage> {
        let text = format!("Write three sentences about {title}.");
        vec![PromptMessage::new_text(Role::User, text)]
    }
}

#[tool_handler]
#[prompt_handler]
impl ServerHandler for Library {
    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let shelf = Resource::new("library://shelf", "shelf").with_mime_type("text/plain");
        Ok(ListResourcesResult::with_all_items(vec![shelf]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != "library://shelf" {
            return Err(ErrorData::resource_not_found(
                "there is only one shelf",
                None,
            ));
        }
        let text = match self.lent.load(Ordering::Relaxed) {
            true => "The shelf is empty.",
            false => "There is one book on the shelf.",
        };
        let contents = ResourceContents::text(text, request.uri).with_mime_type("text/plain");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// Nobody returns what nobody has borrowed, and nobody writes about a book that is on the shelf.
fn lending() -> Result<Workflow, Invalid> {
    Workflow::builder("lending")
        .state("at_the_shelf", |s| {
            s.initial()
                .resource("library://shelf", |r| r.success("at_the_shelf"))
                .tool("borrow_book", |t| t.success("reading"))
        })
        .state("reading", |s| {
            s.prompt("review", |p| p.success("reading"))
                .tool("return_book", |t| t.success(end("at_the_shelf")))
        })
        .build()
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let http = match *arguments {
        [] | ["--stdio"] => None,
        ["--http", address] => Some(address),
        _ => {
            eprintln!("usage: mount_rmcp [--stdio | --http ADDRESS]");
            return ExitCode::from(2);
        }
    };
    match serve(http).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mount_rmcp: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(http: Option<&str>) -> Result<(), Box<dyn Error>> {
    let server = Server::builder("library", env!("CARGO_PKG_VERSION"))
        .mount(Mount::new(Library::default()).await?)
        .workflow(lending()?)
        .build()?;
    match http {
        None => server.serve_stdio().await?,
        Some(address) => {
            let listener = TcpListener::bind(address)
                .await
                .map_err(|error| format!("cannot listen on {address}: {error}"))?;
            eprintln!("listening on http://{}/mcp", listener.local_addr()?);
            server
                .serve_http_with(listener, HttpOptions::default())
                .await?;
        }
    }
    Ok(())
}
