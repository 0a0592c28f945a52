//! All sessions of the handshake era over HTTP: in memory, in the store, and their clocks.

mod room;

use crate::{
    core::{Core, random_start::random_start},
    model::failure::Failure,
    outbound::{
        Route,
        replay_memory::ReplayMemory,
        session_stream::SessionStream,
        stream::{Retention, StreamRules},
        subscribers::QuotaOwner,
    },
    session::{
        ClientSession, SavedSession,
        instance::{self, Arrival},
    },
    transport::http::{
        endpoint::Client,
        session::HttpSession,
        session_store::{self, StoredSession},
        session_table::SessionTable,
        settings::HttpOptions,
    },
};
use foldhash::fast::RandomState;
use interlock_engine::Principal;
use interlock_proto::{
    Code, Refusal, Time,
    connection::{Duplicates, Rules},
    machine::Effects,
    session::{self, Effect, Input, State},
};
use interlock_store::StoreError;
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub(crate) use crate::transport::http::session::SessionGuard;

/// All sessions of a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    inner: Arc<Core>,
    rules: session::Rules,
    idle_stream: Duration,
    /// What their streams keep.
    replay: Arc<ReplayMemory>,
    /// Every request reads it, and hardly any writes.
    open: RwLock<OpenSessions>,
    /// The server ends, and opens no session. Set under the write lock of `open`.
    closing: AtomicBool,
}

#[derive(Debug)]
struct OpenSessions {
    /// Those in memory.
    by_id: HashMap<Arc<str>, Arc<HttpSession>, RandomState>,
    /// All of them.
    table: SessionTable,
    /// The task for the clocks was started.
    has_clock_task: bool,
}

/// How often the clocks of sessions are checked.
const TICK: Duration = Duration::from_secs(1);

/// A request that has begun, and the effects that its session orders.
type Begun = (SessionGuard, Effects<Effect>);

impl Sessions {
    pub(crate) fn new(inner: &Arc<Core>, options: &HttpOptions) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            rules: options.session,
            idle_stream: options.idle_stream,
            replay: ReplayMemory::new(options.replay_memory),
            open: RwLock::new(OpenSessions {
                by_id: HashMap::default(),
                table: SessionTable::new(options.sessions, options.most_per_principal()),
                has_clock_task: false,
            }),
            closing: AtomicBool::new(false),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, OpenSessions> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, OpenSessions> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session, and its first request. The streams of HTTP+SSE cannot be resumed. If there are
    /// too many sessions, one that is not in use gives way.
    ///
    /// # Errors
    ///
    /// 1060 if there are too many that are in use, 1077 if the server ends.
    pub(crate) fn create(
        self: &Arc<Self>,
        client: &Client,
        retention: Retention,
    ) -> Result<SessionGuard, Refusal> {
        let id = interlock_engine::random_id().map_err(io::Error::other);
        let id: Arc<str> = id.map_err(failed)?.into();
        let stream = self.new_stream(retention);
        let route = Route::Session(Arc::clone(&stream));
        let mut open = self.write();
        if self.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        let owner = client.quota_owner();
        self.make_room(&mut open, &owner)?;
        let rules = self.connection_rules(retention);
        let principal = client.principal.clone();
        let peer = ClientSession::new(&self.inner, principal, rules, route).map_err(failed)?;
        let now = self.inner.clock.now();
        let session = HttpSession::new(id, peer, stream, self.rules.first(now), None);
        self.insert(&mut open, &session, owner);
        drop(open);
        Ok(self.guard(session, false, now))
    }

    /// Keeps a session in memory from now on, and runs its clocks.
    fn insert(
        self: &Arc<Self>,
        open: &mut OpenSessions,
        session: &Arc<HttpSession>,
        owner: QuotaOwner,
    ) {
        self.save_on_write(session);
        let dies = session.dies().unwrap_or_default();
        open.table.insert(&session.id, owner, dies);
        open.by_id
            .insert(Arc::clone(&session.id), Arc::clone(session));
        if !std::mem::replace(&mut open.has_clock_task, true) {
            tokio::spawn(run_clocks(Arc::downgrade(self)));
        }
    }

    /// What a handler writes to the session's memory is saved before the handler goes on.
    fn save_on_write(self: &Arc<Self>, session: &Arc<HttpSession>) {
        let (sessions, weak) = (Arc::downgrade(self), Arc::downgrade(session));
        session.peer.on_write(Box::new(move || {
            let (sessions, session) = (sessions.upgrade(), weak.upgrade());
            Box::pin(async move {
                let gone = || Failure::new("the session has ended");
                let (sessions, session) = sessions.zip(session).ok_or_else(gone)?;
                let written = sessions.step(&session, Input::Write).await;
                written.map_err(Failure::refused)
            })
        }));
    }

    fn connection_rules(&self, retention: Retention) -> Rules {
        Rules {
            // The session's own machine ends one that is not used.
            initialize: None,
            idle: None,
            duplicates: match retention {
                Retention::Replayable => Duplicates::Refused,
                // All answers share one stream.
                Retention::Once => Duplicates::Dropped,
            },
            ..self.inner.rules
        }
    }

    const fn stream_rules(&self, retention: Retention) -> StreamRules {
        StreamRules {
            retention,
            keep_bytes: 256 * 1024,
            keep_events: 256,
        }
    }

    /// The stream of a session for messages that belong to no request.
    fn new_stream(&self, retention: Retention) -> Arc<SessionStream> {
        let rules = self.stream_rules(retention);
        let (replay, clock) = (Arc::clone(&self.replay), Arc::clone(&self.inner.clock));
        SessionStream::new(random_start(), rules, replay, clock)
    }

    /// Begins a request of a session.
    ///
    /// # Errors
    ///
    /// 1016 if there is no such session, or it belongs to another principal: the answer does not
    /// tell which. 1001 if too many of its requests are running.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        id: &str,
        principal: &Principal,
    ) -> Result<SessionGuard, Refusal> {
        let begun = match self.begin(id, principal)? {
            Some(begun) => Some(begun),
            None => {
                // Boxed because it is rare, and would enlarge the future of every request.
                Box::pin(self.load(id, principal)).await?;
                self.begin(id, principal)?
            }
        };
        let (guard, effects) = begun.ok_or_else(|| Refusal::new(Code::SessionInvalid))?;
        let first = |effect: &Effect| matches!(effect, Effect::Load | Effect::Save);
        if effects.iter().any(first) {
            self.write().table.in_use(&guard.session.id);
        }
        self.perform(&guard.session, effects).await?;
        Ok(guard)
    }

    /// Begins a request of a session that is in memory. The lock keeps it there meanwhile.
    fn begin(&self, id: &str, principal: &Principal) -> Result<Option<Begun>, Refusal> {
        let now = self.inner.clock.now();
        let open = self.read();
        let Some(session) = open.by_id.get(id) else {
            return Ok(None);
        };
        let session = Arc::clone(session);
        let begin = Input::Begin(session.who(principal));
        let begun = session.step_untraced(&self.rules, begin, now);
        drop(open);
        let (effects, transition) = begun?;
        transition.trace();
        Ok(Some((self.guard(session, true, now), effects)))
    }

    const fn guard(&self, session: Arc<HttpSession>, uses: bool, at: Time) -> SessionGuard {
        SessionGuard {
            session,
            rules: self.rules,
            uses,
            at,
        }
    }

    /// Loads a session from the store into memory.
    async fn load(self: &Arc<Self>, id: &str, principal: &Principal) -> Result<(), Refusal> {
        let invalid = || Refusal::new(Code::SessionInvalid);
        if self.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        let loaded = session_store::load(&self.inner, id).await.map_err(failed)?;
        let (stored, version) = loaded.ok_or_else(invalid)?;
        if stored.principal() != *principal {
            return Err(invalid());
        }
        let retention = Retention::Replayable;
        let stream = self.new_stream(retention);
        let route = Route::Session(Arc::clone(&stream));
        let dies = Time(stored.dies);
        let rules = self.connection_rules(retention);
        let saved = stored.peer;
        let peer = saved.restore(&self.inner, principal.clone(), rules, route);
        let peer = peer.map_err(|_| invalid())?;
        instance::load(&peer, Arrival::Returning).await;
        let state = State::Idle { dies };
        let session = HttpSession::new(id.into(), peer, stream, state, Some(version));
        let mut open = self.write();
        if self.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        // Another request may have loaded it meanwhile.
        if open.by_id.contains_key(id) {
            return Ok(());
        }
        // One that another process has made takes up room here as a new one does.
        let owner = QuotaOwner::Principal(principal.clone());
        if !open.table.contains(id) {
            self.make_room(&mut open, &owner)?;
        }
        self.insert(&mut open, &session, owner);
        Ok(())
    }

    /// The client ends its session.
    ///
    /// # Errors
    ///
    /// 1016 if there is none, or it belongs to another principal.
    pub(crate) async fn destroy(
        self: &Arc<Self>,
        id: &str,
        principal: &Principal,
    ) -> Result<(), Refusal> {
        let find = || self.read().by_id.get(id).cloned();
        let session = match find() {
            Some(session) => Some(session),
            None => {
                self.load(id, principal).await?;
                find()
            }
        };
        let session = session.ok_or_else(|| Refusal::new(Code::SessionInvalid))?;
        let who = session.who(principal);
        self.step(&session, Input::Destroy(who)).await
    }

    /// Steps the machine of a session, and performs what it orders.
    async fn step(
        self: &Arc<Self>,
        session: &Arc<HttpSession>,
        input: Input,
    ) -> Result<(), Refusal> {
        let effects = session.step(&self.rules, input, self.inner.clock.now())?;
        self.perform(session, effects).await
    }

    /// # Errors
    ///
    /// If the session could not be saved; then it stays in memory.
    async fn perform(
        self: &Arc<Self>,
        session: &Arc<HttpSession>,
        effects: Effects<Effect>,
    ) -> Result<(), Refusal> {
        for effect in effects {
            match effect {
                Effect::Record(why) => tracing::info!(?why, "a session has ended"),
                Effect::Delete => Box::pin(self.remove(session)).await,
                Effect::Save => Box::pin(self.save(session)).await?,
                Effect::Unload => self.unload(session),
                Effect::Load | Effect::Serve | Effect::Release => {}
            }
        }
        Ok(())
    }

    /// Saves a session as it is now.
    async fn save(&self, session: &HttpSession) -> Result<(), Refusal> {
        let mut saved = session.saved.lock().await;
        let Some(dies) = session.dies() else {
            return Ok(());
        };
        let Some(memory) = SavedSession::of(&session.peer) else {
            return Ok(());
        };
        let stored = StoredSession::new(session.peer.principal(), dies, memory);
        let written = match session_store::save(&self.inner, &session.id, &stored, *saved).await {
            // Another server has saved it, and will not again: the client is here now.
            Err(StoreError::Conflict { .. }) => {
                let found = session_store::load(&self.inner, &session.id)
                    .await
                    .map_err(failed)?;
                *saved = found.map(|(_, version)| version);
                session_store::save(&self.inner, &session.id, &stored, *saved).await
            }
            written => written,
        };
        *saved = written.map_err(failed)?;
        let saved = instance::save(&session.peer).await;
        saved.map_err(failed)
    }

    /// Removes a session from memory that is saved and not in use.
    fn unload(&self, session: &HttpSession) {
        let mut open = self.write();
        if session.is_idle() {
            open.by_id.remove(&session.id);
            open.table.unloaded(&session.id);
        }
    }

    /// Runs the clocks of all sessions.
    async fn tick(self: &Arc<Self>) {
        let sessions: Vec<_> = self.read().by_id.values().cloned().collect();
        let now = self.inner.clock.now();
        for session in sessions {
            session.tick(now, self.idle_stream);
            if session.is_due(&self.rules, now) {
                // Each in its own task: a slow store holds up no other session's clock.
                let sessions = Arc::clone(self);
                tokio::spawn(async move { sessions.step(&session, Input::Tick).await });
            }
        }
        self.write().table.expire(now);
        if let Err(error) = session_store::sweep(&self.inner).await {
            tracing::warn!(%error, "sessions that are over could not be removed");
        }
    }

    /// Removes a session that is over, from the store and from memory.
    async fn remove(&self, session: &Arc<HttpSession>) {
        // In this order: a request that does not find it in memory looks into the store.
        session.delete(&self.inner).await;
        let mut open = self.write();
        open.table.remove(&session.id);
        if open.by_id.remove(&session.id).is_some() {
            drop(open);
            tokio::spawn(Arc::clone(session).end(Arc::clone(&self.inner), self.rules));
        }
    }

    /// Whether the server ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The server ends: no session is opened from now on.
    pub(crate) fn begin_closing(&self) {
        let _open = self.write();
        self.closing.store(true, Ordering::Release);
    }

    /// Ends all sessions in memory. They stay in the store: their clients may come back.
    pub(crate) async fn close(&self) {
        self.begin_closing();
        let sessions: Vec<_> = self.write().by_id.drain().map(|(_, one)| one).collect();
        let ends = sessions.into_iter().map(|session| async move {
            session.peer.shut_down().await;
            session.stream.end();
            if let Err(refusal) = self.save(&session).await {
                tracing::warn!(%refusal, "a session could not be saved");
            }
        });
        futures_util::future::join_all(ends).await;
    }
}

fn failed(error: impl std::error::Error + 'static) -> Refusal {
    let error: &dyn std::error::Error = &error;
    tracing::error!(error, "a session could not be made, found or kept");
    Refusal::new(Code::InternalError)
}

/// Runs the clocks as long as the server is there.
async fn run_clocks(sessions: Weak<Sessions>) {
    loop {
        let Some(strong) = sessions.upgrade() else {
            return;
        };
        let clock = Arc::clone(&strong.inner.clock);
        drop(strong);
        clock.sleep_until(clock.now() + TICK).await;
        if let Some(sessions) = sessions.upgrade() {
            sessions.tick().await;
        }
    }
}
