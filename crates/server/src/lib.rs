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

mod approval;
mod ask;
mod audience;
mod auth;
mod baton;
mod bell;
mod builder;
mod call;
mod caller;
mod catalogue;
mod clock;
mod complete;
mod context;
mod convert;
mod driver;
mod effect;
mod failure;
mod handle;
mod handler;
mod http;
mod instance;
pub mod journal;
mod launch;
mod lifespan;
mod lists;
mod methods;
pub mod model;
mod mount;
mod note;
mod offering;
mod operator;
mod outbox;
mod patience;
mod peer;
mod principal;
mod rates;
mod round;
mod route;
mod sampling;
mod schema;
mod seal;
mod seldom;
mod server;
mod signal;
mod standing;
mod task;
mod transport;
mod uri;
mod voice;
mod wire;

pub use self::http::{options::HttpOptions, origin::AllowedHosts};
pub use approval::{ApprovalRequest, Standing};
pub use ask::{AskError, Form, Visit};
pub use auth::{Authenticator, BearerTokens, Denied};
pub use builder::{Bounds, BuildError, BuildErrors, Builder};
pub use clock::{Clock, SystemClock};
pub use context::Context;
pub use effect::{Done, Effect, EffectContext, OnFailure};
pub use failure::Failure;
pub use handler::{
    Blob, Completion, IntoCompletion, IntoPrompt, IntoResource, IntoToolResult, Json, NoArguments,
    Partial, Prompt, Resource, ResourceTemplate, Tool, ToolResult,
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
pub use mount::{Mount, MountError};
pub use operator::{Details, Operator, OperatorError, Recorded, RunningCall, Summary};
pub use principal::Principal;
pub use rates::Rates;
pub use schemars;
pub use server::Server;

/// The example in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
