//! The workflow instance of a session: loaded when the session begins, saved or ended with it.

use crate::session::ClientSession;
use interlock_engine::EngineError;
use interlock_workflow::Scope;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    New,
    Returning,
}

/// Loads the instance from the store, if it may be there: another client shares it, the client
/// returns to it, or a timer runs for it.
pub(crate) async fn load(session: &ClientSession, arrival: Arrival) {
    let Some(instance) = &session.instance else {
        return;
    };
    let is_shared = instance.workflow().settings().scope != Scope::Session;
    let has_timer = instance.run().due().is_some();
    if (is_shared || has_timer || arrival == Arrival::Returning)
        && let Err(error) = instance.find().await
    {
        tracing::warn!(%error, "could not look up an instance");
    }
}

/// Writes the record of an instance that may leave memory.
pub(crate) async fn save(session: &ClientSession) -> Result<(), EngineError> {
    match &session.instance {
        Some(instance) => instance.write_record().await,
        None => Ok(()),
    }
}

/// Ends the session's own instance. Of a shared one, which others may use, it writes what the
/// journal lacks.
pub(crate) async fn release(session: &ClientSession) {
    let Some(instance) = &session.instance else {
        return;
    };
    let written = match instance.workflow().settings().scope {
        Scope::Session => instance.end().await,
        Scope::Handle | Scope::Principal | Scope::Global => instance.write_journal().await,
    };
    if let Err(error) = written {
        tracing::warn!(%error, "could not write what is left of an instance");
    }
}
