//! Workflow instances: where each stands, whose turn it is, and what the store knows of it.
//!
//! The store is the truth; the snapshot here is what was last seen of it. A call that can move an
//! instance first takes its turn and writes "running call N" by compare-and-swap, so that a
//! process that dies leaves a trace of what it was doing.

use crate::{note::News, peer::Peer, route::lock};
use interlock_proto::Time;
use interlock_store::{self as store, Change, Entry, Key, Seq, Store, StoreError, Value, Version};
use interlock_workflow::{Binding, Busy, End, Kind, Outcome, Pass, Position, StateId, Workflow};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::OwnedMutexGuard;

/// Under which kind instances are stored.
const KIND: store::Kind = store::Kind::from_static("instance");

/// One run through a workflow.
#[derive(Debug)]
pub(crate) struct Instance {
    id: Arc<str>,
    key: Key,
    turn: Arc<tokio::sync::Mutex<()>>,
    seen: Mutex<Seen>,
    watchers: Mutex<Vec<Weak<Peer>>>,
}

/// What was last seen of the record.
#[derive(Clone, Debug)]
struct Seen {
    position: Position,
    version: Option<Version>,
    calls: u64,
    /// A call that had its turn and never ended: its task was dropped.
    lost: Option<Running>,
}

/// The record, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    format: u32,
    workflow: String,
    fingerprint: u64,
    state: String,
    finished: bool,
    calls: u64,
    running: Option<Running>,
}

/// A call that has its turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Running {
    call: u64,
    kind: Kind,
    name: String,
}

/// A journal entry, as it is stored.
#[derive(Debug, Serialize)]
struct Journalled<'a> {
    format: u32,
    call: u64,
    kind: Kind,
    name: &'a str,
    outcome: Outcome,
    from: &'a str,
    to: &'a str,
    terminal: bool,
}

const FORMAT: u32 = 1;

/// What is needed to keep an instance.
#[derive(Clone, Copy)]
pub(crate) struct Books<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) workflow: &'a Workflow,
    pub(crate) now: Time,
    /// How many journal entries are kept; all if not said.
    pub(crate) journal_limit: Option<u64>,
}

/// Why an instance could not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the stored instance belongs to another definition of workflow `{0}`")]
    Foreign(String),
    /// Whether it still runs or died, nobody here can tell.
    #[error("another server runs a call of this instance")]
    RunningElsewhere,
    #[error("the stored instance cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

impl Instance {
    /// A new one, at the beginning. Its id must be hard to guess unless everybody shares it.
    pub(crate) fn new(id: impl Into<Arc<str>>, workflow: &Workflow) -> Arc<Self> {
        let id = id.into();
        let key = Key::new(KIND, Arc::clone(&id)).expect("our own ids are short and printable");
        Arc::new(Self {
            id,
            key,
            turn: Arc::default(),
            seen: Mutex::new(Seen {
                position: workflow.initial(),
                version: None,
                calls: 0,
                lost: None,
            }),
            watchers: Mutex::default(),
        })
    }

    pub(crate) const fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(crate) fn position(&self) -> Position {
        lock(&self.seen).position
    }

    /// Waits for its turn, or takes no for an answer. `None`: somebody else holds the instance.
    pub(crate) async fn turn(self: Arc<Self>, busy: Busy) -> Option<Held> {
        let turn = Arc::clone(&self.turn);
        let guard = match busy {
            Busy::Wait => turn.lock_owned().await,
            Busy::Refuse => turn.try_lock_owned().ok()?,
        };
        Some(Held {
            instance: self,
            _guard: guard,
        })
    }

    /// From now on, the client hears of lists that others change.
    pub(crate) fn watch(&self, peer: &Arc<Peer>) {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Arc::downgrade(peer));
    }

    /// Tells every client but the caller.
    pub(crate) fn tell_others(
        &self,
        caller: Option<&Arc<Peer>>,
        kinds: impl Iterator<Item = Kind> + Clone,
    ) {
        let watchers: Vec<_> = {
            let watchers = lock(&self.watchers);
            watchers.iter().filter_map(Weak::upgrade).collect()
        };
        let others = watchers
            .iter()
            .filter(|peer| !caller.is_some_and(|caller| Arc::ptr_eq(peer, caller)));
        for peer in others {
            for kind in kinds.clone() {
                peer.hear(&News::List(kind.into()));
            }
        }
    }

    /// Forgets the instance with its session. Its journal stays where journals are kept whole.
    pub(crate) async fn end(&self, books: Books<'_>) -> Result<(), StoreError> {
        let version = lock(&self.seen).version;
        if let Some(version) = version {
            let delete = [Change::delete(self.key.clone(), version)];
            books.store.commit(&delete, &[], time(books.now)).await?;
        }
        if books.journal_limit.is_some() {
            books.store.prune(&self.key, Seq(u64::MAX)).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        books: &Books<'_>,
        position: Position,
        calls: u64,
        running: Option<Running>,
        entries: &[Entry],
    ) -> Result<(), KeepError> {
        let stored = Stored {
            format: FORMAT,
            workflow: books.workflow.name().to_owned(),
            fingerprint: books.workflow.fingerprint().0,
            state: books.workflow.state_name(position.state).to_owned(),
            finished: position.finished,
            calls,
            running,
        };
        let value = Value::new(json(&stored));
        let seen = lock(&self.seen).version;
        let change = match seen {
            Some(version) => Change::update(self.key.clone(), version, value),
            None => Change::create(self.key.clone(), value),
        };
        let versions = books
            .store
            .commit(&[change], entries, time(books.now))
            .await?;
        *lock(&self.seen) = Seen {
            position,
            version: versions.first().copied(),
            calls,
            lost: None,
        };
        Ok(())
    }

    /// Looks where an instance stands that others may have moved before.
    pub(crate) async fn find(&self, books: Books<'_>) -> Result<(), KeepError> {
        let known = lock(&self.seen).version.is_some();
        if known {
            return Ok(());
        }
        self.reload(&books).await
    }

    /// Somebody else has written: look what.
    async fn reload(&self, books: &Books<'_>) -> Result<(), KeepError> {
        let record = books.store.load(&self.key, time(books.now)).await?;
        let Some(record) = record else {
            lock(&self.seen).version = None;
            return Ok(());
        };
        let stored: Stored =
            serde_json::from_slice(&record.value.bytes).map_err(KeepError::Unreadable)?;
        let foreign = || KeepError::Foreign(stored.workflow.clone());
        if stored.fingerprint != books.workflow.fingerprint().0 || stored.format != FORMAT {
            return Err(foreign());
        }
        let state = books.workflow.state_id(&stored.state);
        *lock(&self.seen) = Seen {
            position: Position {
                state: state.ok_or_else(foreign)?,
                finished: stored.finished,
            },
            version: Some(record.version),
            calls: stored.calls,
            lost: None,
        };
        match stored.running {
            Some(_) => Err(KeepError::RunningElsewhere),
            None => Ok(()),
        }
    }
}

/// Somebody's turn, before anything is written about it: the moment to judge the call again.
#[derive(Debug)]
pub(crate) struct Held {
    instance: Arc<Instance>,
    _guard: OwnedMutexGuard<()>,
}

/// What came of an attempt to write a turn down.
pub(crate) enum Marked {
    /// The turn is written down.
    Yes(Turn),
    /// Somebody else had written; what they wrote has been read, so judge again.
    Stale(Held),
}

impl Held {
    /// Where the instance stands, now that nobody else here can move it.
    ///
    /// If a call before this one was dropped while it ran, nobody knows what it did, and that is
    /// committed first.
    pub(crate) async fn position(&self, books: Books<'_>) -> Result<Position, KeepError> {
        let (lost, position) = {
            let seen = lock(&self.instance.seen);
            (seen.lost.clone(), seen.position)
        };
        let Some(lost) = lost else {
            return Ok(position);
        };
        match books.workflow.admit(position, lost.kind, &lost.name) {
            Ok(Pass::Bound(binding)) => {
                let unknown = Outcome::Unknown;
                let moved = self.instance.step(&books, &lost, binding, unknown).await?;
                Ok(moved.after)
            }
            Ok(Pass::Always) | Err(_) => Ok(position),
        }
    }

    /// Writes "running call N".
    pub(crate) async fn mark(
        self,
        books: Books<'_>,
        binding: &Binding,
    ) -> Result<Marked, KeepError> {
        let (position, calls) = {
            let seen = lock(&self.instance.seen);
            (seen.position, seen.calls)
        };
        let running = Running {
            call: calls + 1,
            kind: binding.artifact().kind,
            name: binding.artifact().name.clone(),
        };
        let instance = &self.instance;
        let mark = Some(running.clone());
        match instance
            .write(&books, position, running.call, mark, &[])
            .await
        {
            Ok(()) => Ok(Marked::Yes(Turn {
                held: self,
                running: Some(running),
            })),
            Err(KeepError::Store(StoreError::Conflict { .. })) => {
                instance.reload(&books).await?;
                Ok(Marked::Stale(self))
            }
            Err(error) => Err(error),
        }
    }
}

/// Somebody's turn. Whoever holds it may move the instance, once.
#[derive(Debug)]
pub(crate) struct Turn {
    held: Held,
    /// Taken by the commit.
    running: Option<Running>,
}

/// What a commit did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) before: Position,
    pub(crate) after: Position,
}

impl Turn {
    /// Takes the step for this outcome: the new state and its journal entry, in one commit.
    /// `None` if the binding is not where it was, which holding the turn rules out.
    pub(crate) async fn commit(
        mut self,
        books: Books<'_>,
        outcome: Outcome,
    ) -> Result<Option<Moved>, KeepError> {
        let Some(running) = self.running.take() else {
            return Ok(None);
        };
        let instance = &self.held.instance;
        let at = instance.position();
        match books.workflow.admit(at, running.kind, &running.name) {
            Ok(Pass::Bound(binding)) => {
                let moved = instance.step(&books, &running, binding, outcome).await?;
                Ok(Some(moved))
            }
            Ok(Pass::Always) | Err(_) => Ok(None),
        }
    }
}

impl Turn {
    /// Gives the turn back: the call never began.
    pub(crate) async fn release(mut self, books: Books<'_>) -> Result<(), KeepError> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        let instance = &self.held.instance;
        let at = instance.position();
        instance.write(&books, at, running.call, None, &[]).await
    }
}

impl Drop for Turn {
    /// A turn that ends without a commit was torn down, and what the call did is not known.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            lock(&self.held.instance.seen).lost = Some(running);
        }
    }
}

impl Instance {
    async fn step(
        &self,
        books: &Books<'_>,
        running: &Running,
        binding: &Binding,
        outcome: Outcome,
    ) -> Result<Moved, KeepError> {
        let before = self.position();
        let end = End::from(outcome);
        let step = books.workflow.step(&before.into(), binding, &end);
        let name = |state: StateId| books.workflow.state_name(state);
        let entry = Journalled {
            format: FORMAT,
            call: running.call,
            kind: running.kind,
            name: &running.name,
            outcome,
            from: name(step.from),
            to: name(step.to),
            terminal: step.terminal,
        };
        let entries = [Entry::new(self.key.clone(), json(&entry))];
        self.write(books, step.after, running.call, None, &entries)
            .await?;
        self.prune(books, running.call).await?;
        Ok(Moved {
            before,
            after: step.after,
        })
    }

    /// Now and then drops the oldest journal entries. A call makes one entry, so there are never
    /// more than calls.
    async fn prune(&self, books: &Books<'_>, calls: u64) -> Result<(), KeepError> {
        const NOW_AND_THEN: u64 = 256;
        match books.journal_limit {
            Some(limit) if calls.is_multiple_of(NOW_AND_THEN) && calls > limit => {
                books.store.prune(&self.key, Seq(calls - limit)).await?;
            }
            Some(_) | None => {}
        }
        Ok(())
    }
}

const fn time(now: Time) -> store::Time {
    store::Time(now.0)
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it holds only strings and numbers")
}
