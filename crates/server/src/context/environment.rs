//! What every call of one server has in common, as far as a call's context needs it.

use interlock_engine::Clock;
use std::{any::Any, fmt, sync::Arc, time::Duration};

/// The value that the application's start hook made.
pub(crate) type App = Arc<dyn Any + Send + Sync>;

/// The part of a server that its calls see. The server builds it once, and all calls share it.
pub(crate) struct Environment {
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a client may take to answer a question.
    pub(crate) ask_timeout: Duration,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}
