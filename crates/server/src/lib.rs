//! MCP servers that cannot be used out of order.
//!
//! A [`Workflow`] decides which tools, resources and prompts exist right now; a call that comes at
//! the wrong time is refused and told what to do instead. Without a workflow this is a plain MCP
//! server library.
//!
//! ```no_run
//! use interlock::{Context, Server, Tool, schemars};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Echo { text: String }
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let echo = Tool::new("echo", |args: Echo, _: Context| async move { args.text })
//!     .description("Says it again");
//! Server::builder("echo", "1.0.0").tool(echo).build()?.serve_stdio().await?;
//! # Ok(())
//! # }
//! ```
//!
//! It logs by `tracing`. Whoever wants to see that sends it to standard error, because standard
//! output belongs to the protocol; with `tracing-subscriber` in `Cargo.toml`:
//!
//! ```
//! tracing_subscriber::fmt().with_writer(std::io::stderr).init();
//! ```
//!
//! A handler that was written for rmcp's own server is served as it is: see [`Mount`].
//!
//! Rules of use
//!
//! - A handler must not block its thread; one that does is a [`Tool::blocking`].
//! - A handler that panics or hangs costs its own call and nothing else.
//! - Keep what a handler remembers under [`Context::instance`]. Unless the workflow's scope says
//!   otherwise, each client has an instance of its own, and never sees another's.
//! - A handler that asks its client something may run more than once: on 2026-07-28 it begins again
//!   when the answers are there. What must happen once goes after the last question.
//! - What an instance remembers is read by [`Context::memory`] and written by the workflow. What a
//!   step sets off is an [`Effect`]; whoever has to unstick an instance is an [`Operator`].
//! - Over HTTP, say who may come in: [`HttpOptions::authenticator`]. Without one, everybody who
//!   reaches the server is the same anonymous [`Principal`].
//!
//! One way through the house: the transport gives messages, the connection machine admits them,
//! the gate judges them, a call runs around the invocation machine, its outcome commits a step,
//! lists that changed are announced, [effects](Effect) run, the answer goes out.
//! `docs/architecture.md` is the map.

mod api;
mod builder;
mod call;
mod catalog;
mod context;
mod core;
mod dispatch;
mod effect_runner;
pub mod model;
mod mount;
mod outbound;
mod schema;
mod server;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;
mod wire;

pub use api::{
    Blob, Completion, IntoCompletion, IntoPrompt, IntoResource, IntoToolResult, Json, NoArguments,
    Partial, Place, Places, Prompt, Resource, ResourceTemplate, Tool, ToolResult,
    auth::{Authenticator, Denied},
    bearer::BearerTokens,
};
pub use builder::Builder;
pub use catalog::build_error::{BuildError, BuildErrors};
pub use context::Context;
pub use core::{Bounds, rates::Rates};
pub use effect_runner::{Effect, EffectContext, OnFailure};
pub use interlock_engine::{
    ApprovalRequest, Clock, Details, Done, MemoryError, Operator, OperatorError, Principal,
    Recorded, RunningCall, Standing, Summary, SystemClock, journal,
};
pub use interlock_proto::{
    Ability, Code, Level, Refusal, Time, Version,
    connection::{Duplicates, EarlyPing, Rules},
    frame::Limits,
    session::Rules as SessionRules,
    subscription::Rules as SubscriptionRules,
};
pub use interlock_store as store;
pub use interlock_workflow::{self as workflow, Workflow};
pub use model::{
    elicitation::{AskError, Form, Visit},
    failure::Failure,
};
pub use mount::{Mount, MountError};
pub use schemars;
pub use server::Server;
pub use transport::{
    http::{host_check::AllowedHosts, settings::HttpOptions},
    stdio::until_signalled,
};

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
