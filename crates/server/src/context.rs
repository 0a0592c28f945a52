//! What a handler knows about the call it serves.

use std::sync::Arc;
use tokio::sync::watch;

/// What a handler knows about the call it serves. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Context {
    place: Option<Arc<Place>>,
    stop: watch::Receiver<bool>,
}

/// Where in a workflow a call runs.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) instance: Arc<str>,
    pub(crate) state: String,
}

impl Context {
    pub(crate) const fn new(place: Option<Arc<Place>>, stop: watch::Receiver<bool>) -> Self {
        Self { place, stop }
    }

    /// The workflow instance the call belongs to: the key for what a handler remembers.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        self.place.as_deref().map(|place| &*place.instance)
    }

    /// The state in which the call was admitted.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.place.as_deref().map(|place| place.state.as_str())
    }

    /// Whether nobody wants the result any more: the client has taken the call back, its deadline
    /// has passed, or the server ends.
    ///
    /// A handler that stops because the client took the call back returns
    /// [`Failure::stopped`](crate::Failure::stopped).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    /// Completes when [`is_cancelled`](Self::is_cancelled) becomes true.
    pub async fn cancelled(&self) {
        // An error means that the call has ended, which comes to the same.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}
