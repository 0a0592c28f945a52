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

    /// Whether the client has taken the call back.
    ///
    /// A handler that stops for it returns [`Failure::stopped`](crate::Failure::stopped).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.stop.borrow()
    }

    /// Completes when the client takes the call back.
    pub async fn cancelled(&self) {
        let mut stop = self.stop.clone();
        if stop.wait_for(|stop| *stop).await.is_err() {
            // The call has ended, so nobody can take it back any more.
            std::future::pending::<()>().await;
        }
    }
}
