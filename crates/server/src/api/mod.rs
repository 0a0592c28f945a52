//! What developers write: tools, resources, prompts, completions, their results, authenticators and
//! the hooks around serving.
//!
//! Each becomes a [`HandlerCall`] once its arguments are there. This room knows the context of a
//! call, schemas and the model's types. It knows no session, no instance and no catalog, and runs
//! nothing by itself.
//!
//! | File | What |
//! |---|---|
//! | `tool.rs`, `resource.rs`, `template.rs`, `prompt.rs` | a model and a handler; a tool also checks its results against the output schema, a resource adds cache hints |
//! | `completion.rs` | handlers that complete arguments |
//! | `result.rs` | what tool handlers may return |
//! | `handler_call.rs` | one handler with its arguments, and its future while it runs |
//! | `text_args.rs` | reads the strings of URIs and prompts into types |
//! | `auth.rs`, `bearer.rs` | who sends a request, and how one is denied |
//! | `lifespan.rs` | hooks before serving and after |
//! | `panic.rs` | drops what an application made |

/// Setters that tools, resources, templates and prompts share.
macro_rules! shared_setters {
    () => {
        /// What it is called, for people.
        #[must_use]
        pub fn title(mut self, text: impl Into<String>) -> Self {
            self.model.title = Some(text.into());
            self
        }

        /// Pictures of it, for people.
        #[must_use]
        pub fn icons(mut self, icons: Vec<$crate::model::Icon>) -> Self {
            self.model.icons = Some(icons);
            self
        }

        /// What else clients are told about it.
        #[must_use]
        pub fn meta(mut self, meta: $crate::model::MetaObject) -> Self {
            self.model.meta = Some(meta);
            self
        }
    };
}

/// Setters that resources and templates share.
macro_rules! resource_setters {
    () => {
        /// What it is called; its URI or template unless said otherwise.
        #[must_use]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.model.name = name.into();
            self
        }

        /// What it holds.
        #[must_use]
        pub fn description(mut self, text: impl Into<String>) -> Self {
            self.model.description = Some(text.into());
            self
        }

        /// The media type of its content; a template's is that of all its resources.
        #[must_use]
        pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
            self.model.mime_type = Some(mime_type.into());
            self
        }

        /// Who it is for, how important it is, and when it changed.
        #[must_use]
        pub fn annotations(mut self, annotations: $crate::model::Annotations) -> Self {
            self.model.annotations = Some(annotations);
            self
        }

        /// How long clients of 2026-07-28 may keep what they have read, and whom they may show it.
        /// By default they may not keep it. Nor may they if a workflow binds it: a read from a cache
        /// would move nothing.
        #[must_use]
        pub fn cache(mut self, ttl: std::time::Duration, scope: $crate::model::CacheScope) -> Self {
            self.cache = $crate::api::Cache::new(ttl, scope);
            self
        }
    };
}

pub(crate) mod auth;
pub(crate) mod bearer;
mod completion;
mod handler_call;
pub(crate) mod lifespan;
mod panic;
mod places;
mod prompt;
mod resource;
mod result;
mod template;
mod text_args;
mod tool;

pub use completion::{Completion, IntoCompletion, Partial};
pub use places::{Place, Places};
pub use prompt::{IntoPrompt, Prompt};
pub use resource::{Blob, IntoResource, Resource};
pub use result::{IntoToolResult, Json, ToolResult};
pub use template::ResourceTemplate;
pub use tool::{NoArguments, Tool};

pub(crate) use completion::Completers;
pub(crate) use handler_call::{Done, HandlerCall};
pub(crate) use panic::drop_quietly;
pub(crate) use resource::{Cache, Hints, with_cache_hints};
pub(crate) use tool::{Arguments, with_checked_output};

pub(crate) use crate::model::reply::Reply;
