//! What developers write: tools, resources, prompts, completions, their results, authenticators and
//! the hooks around serving.
//!
//! Each becomes a [`Prepared`] handler once its arguments are there. This room knows the context of a
//! call, schemas and the model's types. It knows no session, no instance and no catalog, and runs
//! nothing by itself.

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

pub(crate) mod auth;
pub(crate) mod bearer;
mod completion;
pub(crate) mod lifespan;
mod panic;
mod prepared;
mod prompt;
mod resource;
mod result;
mod template;
mod text_args;
mod tool;

pub use completion::{Completion, IntoCompletion, Partial};
pub use prompt::{IntoPrompt, Prompt};
pub use resource::{Blob, IntoResource, Resource};
pub use result::{IntoToolResult, Json, ToolResult};
pub use template::ResourceTemplate;
pub use tool::{NoArguments, Tool};

pub(crate) use completion::Completers;
pub(crate) use panic::drop_quietly;
pub(crate) use prepared::{Done, Prepared};
pub(crate) use resource::{Cache, Hints, with_cache_hints};
pub(crate) use tool::{Arguments, with_checked_output};

pub(crate) use crate::model::reply::Reply;
