//! How sessions that are not in use make room for new ones.

use crate::{
    core::Core,
    outbound::subscribers::QuotaOwner,
    transport::http::{
        session_store,
        session_table::Full,
        sessions::{OpenSessions, Sessions},
    },
};
use interlock_proto::{Code, Refusal, session::Input};
use std::sync::Arc;

impl Sessions {
    /// Makes room for one more session of this client. One that gives way ends in a task of its
    /// own: nobody waits for the store.
    ///
    /// # Errors
    ///
    /// 1060 if all that could give way are in use.
    pub(super) fn make_room(
        self: &Arc<Self>,
        open: &mut OpenSessions,
        owner: &QuotaOwner,
    ) -> Result<(), Refusal> {
        let full = |Full| {
            Refusal::new(Code::ConcurrentLimitExceeded).because("too many sessions are open")
        };
        let now = self.inner.clock.now();
        while let Some(id) = open.table.gives_way(owner).map_err(full)? {
            let Some(session) = open.by_id.get(&id).map(Arc::clone) else {
                open.table.remove(&id);
                tokio::spawn(discard(Arc::clone(&self.inner), id));
                continue;
            };
            match session.step_untraced(&self.rules, Input::GiveWay, now) {
                Ok((effects, transition)) if !effects.is_empty() => {
                    open.table.remove(&id);
                    let sessions = Arc::clone(self);
                    tokio::spawn(async move {
                        transition.trace();
                        // Deleting it is all that is left to do, and cannot be refused.
                        let _ = sessions.perform(&session, effects).await;
                    });
                }
                // A request has begun that the table does not know of yet.
                Ok(_) | Err(_) => open.table.in_use(&id),
            }
        }
        Ok(())
    }
}

/// Deletes a session that is only in the store.
async fn discard(core: Arc<Core>, id: Arc<str>) {
    if let Err(error) = session_store::discard(&core, &id).await {
        tracing::warn!(%error, "a session that gave way could not be removed");
    }
}
