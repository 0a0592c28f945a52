//! Sessions of the handshake era over HTTP: a session machine around each, and the clocks of all.

use super::{
    feed::Feed,
    kept::{self, Stored},
    options::HttpOptions,
    resumable::Resumable,
    stream::{Retention, Stream, StreamRules},
};
use crate::{
    driver::{self, Is},
    failure::Failure,
    peer::Peer,
    principal::Principal,
    route::{Route, lock},
    server::{Inner, random_id},
    wire::Transition,
};
use foldhash::fast::RandomState;
use interlock_proto::{
    Code, Refusal, Time,
    connection::{Duplicates, Rules},
    machine::Effects,
    session::{self, Effect, Input, Ledger, Session, State, Who},
};
use interlock_store::{StoreError, Version};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// All sessions of a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    inner: Arc<Inner>,
    rules: session::Rules,
    most: usize,
    most_per_principal: usize,
    retry: Duration,
    idle_stream: Duration,
    /// Every request looks here, and hardly any changes it.
    open: RwLock<Open>,
    /// The server ends, and takes nobody in. Changed only by who may change what is open.
    closing: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    /// Those that are in memory.
    by_id: HashMap<Arc<str>, Arc<Client>, RandomState>,
    /// How many there are, in memory or written down.
    all: usize,
    by_principal: HashMap<Principal, usize>,
    /// Somebody looks after the clocks.
    watched: bool,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: Arc<str>,
    pub(crate) peer: Arc<Peer>,
    /// What belongs to no request goes here.
    pub(crate) feed: Arc<Feed>,
    life: Mutex<Life>,
    streams: Mutex<Resumable>,
    /// What was last written down of it. Whoever writes holds it, one at a time.
    saved: tokio::sync::Mutex<Option<Version>>,
}

#[derive(Debug)]
struct Life {
    state: State,
    ledger: Ledger,
}

/// The clocks are looked at so often.
const LOOK: Duration = Duration::from_secs(1);

/// A request that has begun, and what its session orders.
type Begun = (Visit, Effects<Effect>);

/// A request of a session: while it lasts, the session is in use.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) client: Arc<Client>,
    rules: session::Rules,
    /// The request that makes a session does not use it yet.
    uses: bool,
    /// When it began.
    pub(crate) at: Time,
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.uses {
            let now = self.client.peer.inner.clock.now();
            let _ = self.client.step(&self.rules, Input::End, now);
        }
    }
}

impl Sessions {
    pub(crate) fn new(inner: &Arc<Inner>, options: &HttpOptions) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            rules: options.session,
            most: options.sessions,
            most_per_principal: options.most_per_principal(),
            retry: options.retry,
            idle_stream: options.idle_stream,
            open: RwLock::default(),
            closing: AtomicBool::new(false),
        })
    }

    fn look(&self) -> RwLockReadGuard<'_, Open> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Open> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session, and its first request.
    ///
    /// # Errors
    ///
    /// 1060 if there are too many, 1077 if the server ends.
    pub(crate) fn create(self: &Arc<Self>, principal: &Principal) -> Result<Visit, Refusal> {
        self.open(principal, Retention::Replayable)
    }

    /// As [`create`](Self::create), for a client whose one stream cannot be taken up again.
    pub(crate) fn create_legacy(self: &Arc<Self>, principal: &Principal) -> Result<Visit, Refusal> {
        self.open(principal, Retention::Once)
    }

    fn open(
        self: &Arc<Self>,
        principal: &Principal,
        retention: Retention,
    ) -> Result<Visit, Refusal> {
        let id: Arc<str> = random_id().map_err(failed)?.into();
        let feed = self.feed(0, retention);
        let route = Route::Feed(Arc::clone(&feed));
        let mut open = self.change();
        let many = open.by_principal.get(principal).copied().unwrap_or(0);
        if self.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        if open.all >= self.most || many >= self.most_per_principal {
            return Err(
                Refusal::new(Code::ConcurrentLimitExceeded).because("too many sessions are open")
            );
        }
        let rules = self.connection(retention);
        let peer = Peer::new(&self.inner, principal.clone(), rules, route).map_err(failed)?;
        let now = self.inner.clock.now();
        let client = Client::new(id, peer, feed, self.rules.first(now), None);
        open.all += 1;
        *open.by_principal.entry(principal.clone()).or_default() += 1;
        self.take_in(&mut open, &client);
        Ok(self.visit(client, false, now))
    }

    /// A session is in memory from now on, and somebody looks after its clocks.
    fn take_in(self: &Arc<Self>, open: &mut Open, client: &Arc<Client>) {
        self.save_when_written(client);
        open.by_id
            .insert(Arc::clone(&client.id), Arc::clone(client));
        if !std::mem::replace(&mut open.watched, true) {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }

    /// What a handler lets the session remember is written down before the handler goes on.
    fn save_when_written(self: &Arc<Self>, client: &Arc<Client>) {
        let (sessions, weak) = (Arc::downgrade(self), Arc::downgrade(client));
        client.peer.on_write(Box::new(move || {
            let (sessions, client) = (sessions.upgrade(), weak.upgrade());
            Box::pin(async move {
                let gone = || Failure::new("the session has ended");
                let (sessions, client) = sessions.zip(client).ok_or_else(gone)?;
                let written = sessions.act(&client, Input::Write).await;
                written.map_err(Failure::refused)
            })
        }));
    }

    fn connection(&self, retention: Retention) -> Rules {
        Rules {
            // A session that nobody uses is ended by its own machine.
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
            retry: self.retry,
            keep_bytes: 256 * 1024,
            keep_events: 256,
        }
    }

    /// Where a session's messages go that belong to no request.
    fn feed(&self, number: u64, retention: Retention) -> Arc<Feed> {
        let rules = self.stream_rules(retention);
        Feed::new(number, rules, Arc::clone(&self.inner.clock))
    }

    /// A request for a session that there is.
    ///
    /// # Errors
    ///
    /// 1016 if there is none, or it is somebody else's: nobody learns which. 1001 if too many of
    /// its requests are running.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        id: &str,
        principal: &Principal,
    ) -> Result<Visit, Refusal> {
        let begun = match self.begin(id, principal)? {
            Some(begun) => Some(begun),
            None => {
                // In a box, as all that seldom has to be waited for: each request makes room for
                // whatever is not.
                Box::pin(self.load(id, principal)).await?;
                self.begin(id, principal)?
            }
        };
        let (visit, effects) = begun.ok_or_else(|| Refusal::new(Code::SessionInvalid))?;
        self.perform(&visit.client, effects).await?;
        Ok(visit)
    }

    /// Lets a request of a session begin, if that is in memory. Nobody can take it out of memory
    /// in between.
    fn begin(&self, id: &str, principal: &Principal) -> Result<Option<Begun>, Refusal> {
        let now = self.inner.clock.now();
        let open = self.look();
        let Some(client) = open.by_id.get(id) else {
            return Ok(None);
        };
        let client = Arc::clone(client);
        let begin = Input::Begin(who(&client, principal));
        let begun = client.step_untraced(&self.rules, begin, now);
        drop(open);
        let (effects, transition) = begun?;
        transition.trace();
        Ok(Some((self.visit(client, true, now), effects)))
    }

    const fn visit(&self, client: Arc<Client>, uses: bool, at: Time) -> Visit {
        Visit {
            client,
            rules: self.rules,
            uses,
            at,
        }
    }

    /// Brings a session that is written down back into memory.
    async fn load(self: &Arc<Self>, id: &str, principal: &Principal) -> Result<(), Refusal> {
        let invalid = || Refusal::new(Code::SessionInvalid);
        if self.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        let loaded = kept::load(&self.inner, id).await.map_err(failed)?;
        let (stored, version) = loaded.ok_or_else(invalid)?;
        if stored.principal() != *principal {
            return Err(invalid());
        }
        let retention = Retention::Replayable;
        // Numbers must not come again: an id of before would mean something else.
        let number = stored.streams + 1;
        let feed = self.feed(number, retention);
        let route = Route::Feed(Arc::clone(&feed));
        let dies = Time(stored.dies);
        let rules = self.connection(retention);
        let peer = Peer::restore(&self.inner, principal.clone(), rules, route, stored.peer)
            .map_err(|_| invalid())?;
        driver::find_instance(&self.inner, &peer, Is::Back).await;
        let state = State::Idle { dies };
        let client = Client::new(id.into(), peer, feed, state, Some(version));
        lock(&client.streams).begin_after(number);
        let mut open = self.change();
        if self.is_closing() {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        // Somebody else may have been faster.
        if !open.by_id.contains_key(id) {
            self.take_in(&mut open, &client);
        }
        Ok(())
    }

    /// The client ends its session.
    ///
    /// # Errors
    ///
    /// 1016 if there is none, or it is somebody else's.
    pub(crate) async fn destroy(
        self: &Arc<Self>,
        id: &str,
        principal: &Principal,
    ) -> Result<(), Refusal> {
        let find = || self.look().by_id.get(id).cloned();
        let client = match find() {
            Some(client) => Some(client),
            None => {
                self.load(id, principal).await?;
                find()
            }
        };
        let client = client.ok_or_else(|| Refusal::new(Code::SessionInvalid))?;
        let who = who(&client, principal);
        self.act(&client, Input::Destroy(who)).await
    }

    /// Lets the machine of a session take a step, and does what it orders.
    async fn act(self: &Arc<Self>, client: &Arc<Client>, input: Input) -> Result<(), Refusal> {
        let effects = client.step(&self.rules, input, self.inner.clock.now())?;
        self.perform(client, effects).await
    }

    /// # Errors
    ///
    /// If what was to be written down is not; then it stays in memory.
    async fn perform(
        self: &Arc<Self>,
        client: &Arc<Client>,
        effects: Effects<Effect>,
    ) -> Result<(), Refusal> {
        for effect in effects {
            match effect {
                Effect::Record(why) => tracing::info!(?why, "a session has ended"),
                Effect::Delete => Box::pin(self.forget(client)).await,
                Effect::Save => Box::pin(self.save(client)).await?,
                Effect::Unload => self.unload(client),
                Effect::Load | Effect::Serve | Effect::Release => {}
            }
        }
        Ok(())
    }

    /// Writes a session down, as it is now.
    async fn save(&self, client: &Client) -> Result<(), Refusal> {
        let mut saved = client.saved.lock().await;
        let Some(dies) = client.dies() else {
            return Ok(());
        };
        let Some(memory) = client.peer.memory() else {
            return Ok(());
        };
        let streams = lock(&client.streams).last();
        let stored = Stored::new(client.peer.principal(), dies, streams, memory);
        let written = match kept::save(&self.inner, &client.id, &stored, *saved).await {
            // Another server has written it, and does not any more: the client is here.
            Err(StoreError::Conflict { .. }) => {
                let found = kept::load(&self.inner, &client.id).await.map_err(failed)?;
                *saved = found.map(|(_, version)| version);
                kept::save(&self.inner, &client.id, &stored, *saved).await
            }
            written => written,
        };
        *saved = written.map_err(failed)?;
        let kept = driver::keep_instance(&self.inner, &client.peer).await;
        kept.map_err(failed)
    }

    /// Takes a session out of memory that is written down and that nobody uses.
    fn unload(&self, client: &Client) {
        let mut open = self.change();
        if matches!(lock(&client.life).state, State::Idle { .. }) {
            open.by_id.remove(&client.id);
        }
    }

    /// Time has passed.
    async fn tick(self: &Arc<Self>) {
        let clients: Vec<_> = self.look().by_id.values().cloned().collect();
        let now = self.inner.clock.now();
        for client in clients {
            client.tick(now, self.idle_stream);
            if client.is_due(&self.rules, now) {
                // Each by itself: a store that takes its time holds nobody else's clock up.
                let sessions = Arc::clone(self);
                tokio::spawn(async move { sessions.act(&client, Input::Tick).await });
            }
        }
        match kept::sweep(&self.inner).await {
            Ok(swept) => {
                let mut open = self.change();
                for principal in swept {
                    open.forget(&principal);
                }
            }
            Err(error) => tracing::warn!(%error, "sessions that are over could not be removed"),
        }
    }

    /// The session is over: nobody finds it any more, and what it held is let go.
    async fn forget(&self, client: &Arc<Client>) {
        // In this order: whoever does not find it in memory looks into the store.
        client.delete(&self.inner).await;
        let mut open = self.change();
        if open.by_id.remove(&client.id).is_some() {
            open.forget(client.peer.principal());
            drop(open);
            tokio::spawn(Arc::clone(client).end(Arc::clone(&self.inner), self.rules));
        }
    }

    /// Whether the server ends.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// The server ends: nobody is taken in from now on.
    pub(crate) fn begin_closing(&self) {
        let _open = self.change();
        self.closing.store(true, Ordering::Release);
    }

    /// Winds everybody up. What is written down of them stays: they may come back.
    pub(crate) async fn close(&self) {
        self.begin_closing();
        let clients: Vec<_> = self.change().by_id.drain().map(|(_, one)| one).collect();
        let ends = clients.into_iter().map(|client| async move {
            client.peer.wind_up().await;
            client.feed.end();
            if let Err(refusal) = self.save(&client).await {
                tracing::warn!(%refusal, "a session could not be saved");
            }
        });
        futures_util::future::join_all(ends).await;
    }
}

impl Open {
    /// One session less.
    fn forget(&mut self, principal: &Principal) {
        self.all = self.all.saturating_sub(1);
        if let Some(many) = self.by_principal.get_mut(principal) {
            *many -= 1;
            if *many == 0 {
                self.by_principal.remove(principal);
            }
        }
    }
}

fn failed(error: impl std::error::Error + 'static) -> Refusal {
    let error: &dyn std::error::Error = &error;
    tracing::error!(error, "a session could not be made, found or kept");
    Refusal::new(Code::InternalError)
}

fn who(client: &Client, principal: &Principal) -> Who {
    if client.peer.principal() == principal {
        Who::Owner
    } else {
        Who::Stranger
    }
}

/// Looks after the clocks for as long as the server is there.
async fn watch(sessions: Weak<Sessions>) {
    loop {
        let Some(strong) = sessions.upgrade() else {
            return;
        };
        let clock = Arc::clone(&strong.inner.clock);
        drop(strong);
        clock.sleep_until(clock.now() + LOOK).await;
        if let Some(sessions) = sessions.upgrade() {
            sessions.tick().await;
        }
    }
}

impl Client {
    fn new(
        id: Arc<str>,
        peer: Arc<Peer>,
        feed: Arc<Feed>,
        state: State,
        saved: Option<Version>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            peer,
            feed,
            life: Mutex::new(Life {
                state,
                ledger: Ledger::default(),
            }),
            streams: Mutex::default(),
            saved: tokio::sync::Mutex::new(saved),
        })
    }

    fn step(
        &self,
        rules: &session::Rules,
        input: Input,
        now: Time,
    ) -> Result<Effects<Effect>, Refusal> {
        let (effects, transition) = self.step_untraced(rules, input, now)?;
        transition.trace();
        Ok(effects)
    }

    /// For whoever holds a lock, and traces when it is gone.
    fn step_untraced(
        &self,
        rules: &session::Rules,
        input: Input,
        now: Time,
    ) -> Result<(Effects<Effect>, Transition), Refusal> {
        let mut life = lock(&self.life);
        let transition = Transition::by::<Session>(&life.state, &input);
        let step = session::step(rules, &life.state, &life.ledger, input, now)?;
        let transition = transition.to::<Session>(&step.state);
        life.ledger.apply(&step.effects);
        life.state = step.state;
        Ok((step.effects, transition))
    }

    /// When its life is over; nothing if it is already.
    fn dies(&self) -> Option<Time> {
        match lock(&self.life).state {
            State::Created { dies, .. } | State::Active { dies, .. } | State::Idle { dies } => {
                Some(dies)
            }
            State::Cleanup | State::Destroyed => None,
        }
    }

    fn is_due(&self, rules: &session::Rules, now: Time) -> bool {
        let life = lock(&self.life);
        let due = life.state.wake_at(rules, &life.ledger);
        due.is_some_and(|due| now >= due)
    }

    /// Time has passed for what the session holds.
    fn tick(&self, now: Time, idle_stream: Duration) {
        if self.peer.wake_at().is_some_and(|due| now >= due) {
            self.peer.tick();
        }
        self.peer.rest();
        lock(&self.streams).tick(now);
        self.feed.rest(now, idle_stream);
    }

    /// A stream for the answer to one request.
    pub(crate) fn begin_stream(&self) -> Arc<Stream> {
        let number = lock(&self.streams).next();
        Stream::new(number, self.feed.rules().clone())
    }

    /// The answer has become a stream, which the client can take up again.
    pub(crate) fn keep(&self, stream: &Arc<Stream>) {
        lock(&self.streams).keep(stream);
    }

    /// The stream of that number, if it is this session's and still there.
    pub(crate) fn stream(&self, number: u64) -> Option<Arc<Stream>> {
        if number == self.feed.number() {
            return Some(Arc::clone(self.feed.stream()));
        }
        lock(&self.streams).find(number)
    }

    /// Deletes what is written down of it. Nothing is written down any more after that.
    async fn delete(&self, inner: &Inner) {
        let mut saved = self.saved.lock().await;
        if let Some(version) = saved.take()
            && let Err(error) = kept::delete(inner, &self.id, version).await
        {
            tracing::warn!(%error, "a session could not be deleted");
        }
    }

    /// What is in flight ends, and then there is nothing left.
    async fn end(self: Arc<Self>, inner: Arc<Inner>, rules: session::Rules) {
        self.peer.wind_up().await;
        self.feed.end();
        driver::forget_instance(&inner, &self.peer).await;
        let _ = self.step(&rules, Input::Cleaned, inner.clock.now());
    }
}
