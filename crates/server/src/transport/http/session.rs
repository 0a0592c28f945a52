//! One session of the handshake era over HTTP.

use crate::{
    core::Core,
    outbound::{lock, session_stream::SessionStream, stream::Stream},
    session::{ClientSession, instance},
    transport::http::{kept_streams::KeptStreams, session_store},
    wire::Transition,
};
use interlock_engine::Principal;
use interlock_proto::{
    Refusal, Time,
    machine::Effects,
    session::{self, Effect, Input, Ledger, Session, State, Who},
};
use interlock_store::Version;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// One session, with its machine and what it holds.
#[derive(Debug)]
pub(crate) struct HttpSession {
    pub(crate) id: Arc<str>,
    pub(crate) peer: Arc<ClientSession>,
    /// For what belongs to no request.
    pub(crate) stream: Arc<SessionStream>,
    lifecycle: Mutex<Lifecycle>,
    pub(super) streams: Mutex<KeptStreams>,
    /// The version that was saved last. Locked while it is saved again.
    pub(super) saved: tokio::sync::Mutex<Option<Version>>,
}

#[derive(Debug)]
struct Lifecycle {
    state: State,
    ledger: Ledger,
}

/// A request of a session, which is in use while the guard lasts.
#[derive(Debug)]
pub(crate) struct SessionGuard {
    pub(crate) session: Arc<HttpSession>,
    pub(super) rules: session::Rules,
    /// The request that creates a session does not use it yet.
    pub(super) uses: bool,
    /// When it began.
    pub(crate) at: Time,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if self.uses {
            let now = self.session.peer.core.clock.now();
            let _ = self.session.step(&self.rules, Input::End, now);
        }
    }
}

impl HttpSession {
    pub(super) fn new(
        id: Arc<str>,
        peer: Arc<ClientSession>,
        stream: Arc<SessionStream>,
        state: State,
        saved: Option<Version>,
    ) -> Arc<Self> {
        // The session's own stream has the number from which the others count up.
        let streams = KeptStreams::new(stream.number());
        Arc::new(Self {
            id,
            peer,
            stream,
            lifecycle: Mutex::new(Lifecycle {
                state,
                ledger: Ledger::default(),
            }),
            streams: Mutex::new(streams),
            saved: tokio::sync::Mutex::new(saved),
        })
    }

    pub(super) fn step(
        &self,
        rules: &session::Rules,
        input: Input,
        now: Time,
    ) -> Result<Effects<Effect>, Refusal> {
        let (effects, transition) = self.step_untraced(rules, input, now)?;
        transition.trace();
        Ok(effects)
    }

    /// As [`step`](Self::step), for a caller that holds a lock and traces once it is released.
    pub(super) fn step_untraced(
        &self,
        rules: &session::Rules,
        input: Input,
        now: Time,
    ) -> Result<(Effects<Effect>, Transition), Refusal> {
        let mut lifecycle = lock(&self.lifecycle);
        let transition = Transition::by::<Session>(&lifecycle.state, &input);
        let step = session::step(rules, &lifecycle.state, &lifecycle.ledger, input, now)?;
        let transition = transition.to::<Session>(&step.state);
        lifecycle.ledger.apply(&step.effects);
        lifecycle.state = step.state;
        Ok((step.effects, transition))
    }

    pub(super) fn who(&self, principal: &Principal) -> Who {
        if self.peer.principal() == principal {
            Who::Owner
        } else {
            Who::Stranger
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(lock(&self.lifecycle).state, State::Idle { .. })
    }

    /// When its life is over; none if it is already.
    pub(super) fn dies(&self) -> Option<Time> {
        match lock(&self.lifecycle).state {
            State::Created { dies, .. } | State::Active { dies, .. } | State::Idle { dies } => {
                Some(dies)
            }
            State::Cleanup | State::Destroyed => None,
        }
    }

    /// Whether its machine has to be told the time.
    pub(super) fn is_due(&self, rules: &session::Rules, now: Time) -> bool {
        let lifecycle = lock(&self.lifecycle);
        let due = lifecycle.state.wake_at(rules, &lifecycle.ledger);
        due.is_some_and(|due| now >= due)
    }

    /// Time has passed for what the session holds.
    pub(super) fn tick(&self, now: Time, idle_stream: Duration) {
        if self.peer.wake_at().is_some_and(|due| now >= due) {
            self.peer.tick();
        }
        self.peer.release_memory();
        lock(&self.streams).tick(now);
        self.stream.disconnect_idle(now, idle_stream);
    }

    /// A stream for the answer to one request.
    pub(crate) fn new_stream(&self) -> Arc<Stream> {
        let number = lock(&self.streams).next();
        self.stream.another(number)
    }

    /// Keeps a stream, which the client can resume.
    pub(crate) fn keep_stream(&self, stream: &Arc<Stream>) {
        lock(&self.streams).insert(stream);
    }

    /// The stream of this number, if it is this session's and still there.
    pub(crate) fn find_stream(&self, number: u64) -> Option<Arc<Stream>> {
        if number == self.stream.number() {
            return Some(Arc::clone(self.stream.stream()));
        }
        lock(&self.streams).find(number)
    }

    /// Deletes it from the store. It is not saved any more after that.
    pub(super) async fn delete(&self, inner: &Core) {
        let mut saved = self.saved.lock().await;
        if let Some(version) = saved.take()
            && let Err(error) = session_store::delete(inner, &self.id, version).await
        {
            tracing::warn!(%error, "a session could not be deleted");
        }
    }

    /// Ends what is in flight, and then drops what is left.
    pub(super) async fn end(self: Arc<Self>, inner: Arc<Core>, rules: session::Rules) {
        self.peer.shut_down().await;
        self.stream.end();
        instance::release(&self.peer).await;
        let _ = self.step(&rules, Input::Cleaned, inner.clock.now());
    }
}
