//! Sessions of the handshake era over HTTP: a session machine around each, and the clocks of all.

use super::{
    kept::{self, Stored},
    options::HttpOptions,
    stream::{Retention, Stream, StreamRules},
};
use crate::{
    driver::{self, Is},
    peer::Peer,
    principal::Principal,
    route::{Exchange, Feed, Route, lock},
    server::{Inner, random_id},
    wire,
};
use interlock_proto::{
    Code, Refusal, Time,
    connection::{Duplicates, Rules},
    machine::Machine,
    session::{self, Effect, Input, Ledger, Session, State, Who},
};
use interlock_store::Version;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, Weak},
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
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    by_id: HashMap<Arc<str>, Arc<Client>>,
    by_principal: HashMap<Principal, usize>,
    /// Somebody looks after the clocks.
    watched: bool,
    /// The server ends, and takes nobody in.
    closing: bool,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: Arc<str>,
    pub(crate) peer: Arc<Peer>,
    /// What belongs to no request goes here.
    pub(crate) feed: Arc<Feed>,
    life: Mutex<Life>,
    streams: Mutex<Streams>,
    rules: StreamRules,
}

#[derive(Debug)]
struct Life {
    state: State,
    ledger: Ledger,
    /// What was last written down of it.
    saved: Option<Version>,
}

/// The streams that can be taken up again.
#[derive(Debug, Default)]
struct Streams {
    kept: BTreeMap<u64, Arc<Stream>>,
    next: u64,
}

/// So many ended streams are kept for clients that have not heard the end.
const MOST_STREAMS: usize = 64;
/// The clocks are looked at so often.
const LOOK: Duration = Duration::from_secs(1);

/// A request of a session: while it lasts, the session is in use.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) client: Arc<Client>,
    rules: session::Rules,
    inner: Arc<Inner>,
    /// The request that makes a session does not use it yet.
    uses: bool,
}

impl Drop for Visit {
    fn drop(&mut self) {
        if !self.uses {
            return;
        }
        let now = self.inner.clock.now();
        let _ = self.client.step(&self.rules, Input::End, now);
    }
}

impl Sessions {
    pub(crate) fn new(inner: &Arc<Inner>, options: &HttpOptions) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            rules: options.session,
            most: options.sessions,
            most_per_principal: options.sessions_per_principal,
            retry: options.retry,
            idle_stream: options.idle_stream,
            open: Mutex::default(),
        })
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
        let feed = self.feed(retention);
        let route = Route::Feed(Arc::clone(&feed));
        let mut open = lock(&self.open);
        if open.closing {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        let many = open.by_principal.get(principal).copied().unwrap_or(0);
        if open.by_id.len() >= self.most || many >= self.most_per_principal {
            return Err(
                Refusal::new(Code::ConcurrentLimitExceeded).because("too many sessions are open")
            );
        }
        let peer = Peer::new(
            &self.inner,
            principal.clone(),
            self.connection(retention),
            route,
        )
        .map_err(failed)?;
        let life = Life {
            state: self.rules.first(self.inner.clock.now()),
            ledger: Ledger::default(),
            saved: None,
        };
        let client = Client::new(id, peer, feed, life, self.stream_rules(retention));
        self.save_when_written(&client);
        open.insert(&client);
        let watched = std::mem::replace(&mut open.watched, true);
        drop(open);
        if !watched {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
        Ok(Visit {
            client,
            rules: self.rules,
            inner: Arc::clone(&self.inner),
            uses: false,
        })
    }

    /// What a handler lets the session remember is written down before the handler goes on.
    fn save_when_written(self: &Arc<Self>, client: &Arc<Client>) {
        let (sessions, weak) = (Arc::downgrade(self), Arc::downgrade(client));
        client.peer.on_write(Box::new(move || {
            let (sessions, client) = (sessions.upgrade(), weak.upgrade());
            Box::pin(async move {
                if let Some((sessions, client)) = sessions.zip(client) {
                    let _ = sessions.act(&client, Input::Write).await;
                }
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
    fn feed(&self, retention: Retention) -> Arc<Feed> {
        let stream = Stream::new(0, self.stream_rules(retention));
        Feed::new(stream, Arc::clone(&self.inner.clock))
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
        let client = self.find(id).await?;
        self.visit(client, principal)
    }

    /// The session of that id, from memory or from the store.
    async fn find(self: &Arc<Self>, id: &str) -> Result<Arc<Client>, Refusal> {
        let invalid = || Refusal::new(Code::SessionInvalid);
        let (found, closing) = {
            let open = lock(&self.open);
            (open.by_id.get(id).cloned(), open.closing)
        };
        if let Some(client) = found {
            return Ok(client);
        }
        if closing {
            return Err(Refusal::new(Code::ServerShuttingDown));
        }
        let loaded = kept::load(&self.inner, id).await.map_err(failed)?;
        let (stored, version) = loaded.ok_or_else(invalid)?;
        let feed = self.feed(Retention::Replayable);
        let route = Route::Feed(Arc::clone(&feed));
        let dies = Time(stored.dies);
        let principal = stored.principal();
        let rules = self.connection(Retention::Replayable);
        let peer =
            Peer::restore(&self.inner, principal, rules, route, stored.peer).map_err(failed)?;
        driver::find_instance(&self.inner, &peer, Is::Back).await;
        let life = Life {
            state: State::Idle { dies },
            ledger: Ledger::default(),
            saved: Some(version),
        };
        let rules = self.stream_rules(Retention::Replayable);
        let client = Client::new(id.into(), peer, feed, life, rules);
        self.save_when_written(&client);
        let mut open = lock(&self.open);
        // Somebody else may have been faster.
        if let Some(client) = open.by_id.get(id) {
            return Ok(Arc::clone(client));
        }
        open.insert(&client);
        Ok(client)
    }

    fn visit(&self, client: Arc<Client>, principal: &Principal) -> Result<Visit, Refusal> {
        let who = who(&client, principal);
        client.step(&self.rules, Input::Begin(who), self.inner.clock.now())?;
        Ok(Visit {
            client,
            rules: self.rules,
            inner: Arc::clone(&self.inner),
            uses: true,
        })
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
        let client = self.find(id).await?;
        let who = who(&client, principal);
        self.act(&client, Input::Destroy(who)).await
    }

    /// Lets the machine of a session take a step, and does what it orders.
    async fn act(self: &Arc<Self>, client: &Arc<Client>, input: Input) -> Result<(), Refusal> {
        let effects = client.step(&self.rules, input, self.inner.clock.now())?;
        for effect in effects {
            match effect {
                Effect::Record(why) => tracing::info!(?why, "a session has ended"),
                Effect::Delete => self.forget(client),
                Effect::Save => self.save(client).await,
                Effect::Unload => self.unload(client),
                Effect::Load | Effect::Serve | Effect::Release => {}
            }
        }
        Ok(())
    }

    async fn save(&self, client: &Client) {
        let (dies, seen) = {
            let life = lock(&client.life);
            let dies = match life.state {
                State::Created { dies, .. } | State::Active { dies, .. } | State::Idle { dies } => {
                    dies
                }
                State::Cleanup | State::Destroyed => return,
            };
            (dies, life.saved)
        };
        let Some(memory) = client.peer.memory() else {
            return;
        };
        let stored = Stored::new(client.peer.principal(), dies, memory);
        match kept::save(&self.inner, &client.id, &stored, seen).await {
            Ok(version) => lock(&client.life).saved = version,
            Err(error) => tracing::error!(%error, "a session could not be saved"),
        }
    }

    /// Takes a session out of memory that is written down and that nobody uses.
    fn unload(&self, client: &Client) {
        let mut open = lock(&self.open);
        let life = lock(&client.life);
        if matches!(life.state, State::Idle { .. }) && life.saved.is_some() {
            open.remove(client);
        }
    }

    /// Time has passed.
    async fn tick(self: &Arc<Self>) {
        let clients: Vec<_> = lock(&self.open).by_id.values().cloned().collect();
        let now = self.inner.clock.now();
        for client in clients {
            client.tick_feed(now, self.idle_stream);
            if client.is_due(&self.rules, now) {
                let _ = self.act(&client, Input::Tick).await;
            }
        }
        if let Err(error) = kept::sweep(&self.inner).await {
            tracing::warn!(%error, "sessions that are over could not be removed");
        }
    }

    /// The session is over: nobody finds it any more, and what it held is let go.
    fn forget(&self, client: &Arc<Client>) {
        if lock(&self.open).remove(client) {
            tokio::spawn(Arc::clone(client).end(Arc::clone(&self.inner), self.rules));
        }
    }

    /// Whether the server ends.
    pub(crate) fn is_closing(&self) -> bool {
        lock(&self.open).closing
    }

    /// The server ends: nobody is taken in, and everybody is wound up.
    pub(crate) async fn close(&self) {
        let clients: Vec<_> = {
            let mut open = lock(&self.open);
            open.closing = true;
            open.by_principal.clear();
            open.by_id.drain().map(|(_, client)| client).collect()
        };
        let ends = clients
            .into_iter()
            .map(|client| client.end(Arc::clone(&self.inner), self.rules));
        futures_util::future::join_all(ends).await;
    }
}

impl Open {
    fn insert(&mut self, client: &Arc<Client>) {
        let principal = client.peer.principal().clone();
        self.by_id
            .insert(Arc::clone(&client.id), Arc::clone(client));
        *self.by_principal.entry(principal).or_default() += 1;
    }

    fn remove(&mut self, client: &Client) -> bool {
        if self.by_id.remove(&client.id).is_none() {
            return false;
        }
        let principal = client.peer.principal();
        if let Some(many) = self.by_principal.get_mut(principal) {
            *many -= 1;
            if *many == 0 {
                self.by_principal.remove(principal);
            }
        }
        true
    }
}

fn failed(error: impl std::error::Error + 'static) -> Refusal {
    let error: &dyn std::error::Error = &error;
    tracing::error!(error, "a session could not be made or found");
    Refusal::new(Code::InternalError)
}

fn who(client: &Client, principal: &Principal) -> Who {
    if client.peer.principal() == principal {
        Who::Owner
    } else {
        Who::Stranger
    }
}

/// Looks after the clocks for as long as there are sessions to look after.
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
        life: Life,
        rules: StreamRules,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            peer,
            feed,
            life: Mutex::new(life),
            streams: Mutex::default(),
            rules,
        })
    }

    fn step(
        &self,
        rules: &session::Rules,
        input: Input,
        now: Time,
    ) -> Result<Vec<Effect>, Refusal> {
        let mut life = lock(&self.life);
        let event = Session::input_name(&input);
        let step = session::step(rules, &life.state, &life.ledger, input, now)?;
        wire::trace::<Session>(&life.state, event, &step.state);
        life.ledger.apply(&step.effects);
        life.state = step.state;
        Ok(step.effects)
    }

    fn is_due(&self, rules: &session::Rules, now: Time) -> bool {
        let life = lock(&self.life);
        let due = life.state.wake_at(rules, &life.ledger);
        due.is_some_and(|due| now >= due)
    }

    /// A stream on which nothing happens is closed; its client can take it up again.
    fn tick_feed(&self, now: Time, idle: Duration) {
        if self.feed.stream.has_reader() && now >= self.feed.last() + idle {
            self.feed.stream.disconnect();
        }
    }

    /// Where a request of this session is answered.
    pub(crate) fn exchange(&self, visit: Visit) -> Arc<Exchange> {
        let number = {
            let mut streams = lock(&self.streams);
            streams.next += 1;
            streams.next
        };
        Exchange::new(Stream::new(number, self.rules.clone()), Some(visit))
    }

    /// The answer has become a stream, which the client can take up again.
    pub(crate) fn keep(&self, stream: &Arc<Stream>) {
        let mut streams = lock(&self.streams);
        streams.kept.insert(stream.number(), Arc::clone(stream));
        if streams.kept.len() > MOST_STREAMS {
            let ended = streams.kept.iter().find(|(_, stream)| stream.is_drained());
            let ended = ended.or_else(|| streams.kept.iter().find(|(_, stream)| stream.is_ended()));
            if let Some(number) = ended.map(|(number, _)| *number) {
                streams.kept.remove(&number);
            }
        }
    }

    /// The stream of that number, if it is this session's and still there.
    pub(crate) fn stream(&self, number: u64) -> Option<Arc<Stream>> {
        if number == 0 {
            return Some(Arc::clone(&self.feed.stream));
        }
        lock(&self.streams).kept.get(&number).cloned()
    }

    /// What is in flight ends, and then there is nothing left.
    async fn end(self: Arc<Self>, inner: Arc<Inner>, rules: session::Rules) {
        self.peer.wind_up().await;
        self.feed.stream.end();
        driver::forget_instance(&inner, &self.peer).await;
        let saved = lock(&self.life).saved.take();
        if let Some(version) = saved
            && let Err(error) = kept::delete(&inner, &self.id, version).await
        {
            tracing::warn!(%error, "a session could not be deleted");
        }
        let _ = self.step(&rules, Input::Cleaned, inner.clock.now());
    }
}
