//! Workflow instances: where each stands, whose turn it is, and what the store knows of it.
//!
//! The store is the truth; the snapshot here is what was last seen of it. A call that can move an
//! instance first takes its turn and writes "running call N" by compare-and-swap, so that a
//! process that dies leaves a trace of what it was doing.

use interlock_proto::Time;
use interlock_store::{self as store, Change, Entry, Key, Store, StoreError, Value, Version};
use interlock_workflow::{Binding, Busy, Kind, Outcome, Position, StateId, Workflow};
use serde::{Deserialize, Serialize};
use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicU8, Ordering},
};
use tokio::sync::{Notify, OwnedMutexGuard};

/// Under which kind instances are stored.
const KIND: store::Kind = store::Kind::from_static("instance");

/// One run through a workflow.
#[derive(Debug)]
pub(crate) struct Instance {
    id: Arc<str>,
    key: Key,
    turn: Arc<tokio::sync::Mutex<()>>,
    seen: Mutex<Seen>,
    watchers: Mutex<Vec<Weak<Inbox>>>,
}

/// What was last seen of the record.
#[derive(Clone, Copy, Debug)]
struct Seen {
    position: Position,
    version: Option<Version>,
    calls: u64,
}

/// The record, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Stored<'a> {
    format: u32,
    workflow: &'a str,
    fingerprint: u64,
    state: &'a str,
    finished: bool,
    calls: u64,
    running: Option<u64>,
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

/// Somebody's turn. Whoever holds it may move the instance, once.
#[derive(Debug)]
pub(crate) struct Turn {
    instance: Arc<Instance>,
    call: u64,
    _guard: OwnedMutexGuard<()>,
}

/// What a commit did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) before: Position,
    pub(crate) after: Position,
}

impl Instance {
    /// A new one, at the beginning. Its id is a secret of its owner.
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
            }),
            watchers: Mutex::default(),
        })
    }

    pub(crate) const fn id(&self) -> &Arc<str> {
        &self.id
    }

    pub(crate) fn position(&self) -> Position {
        self.seen().position
    }

    /// Waits for its turn, or takes no for an answer. `None`: somebody else holds the instance.
    pub(crate) async fn turn(self: Arc<Self>, busy: Busy) -> Option<Unmarked> {
        let turn = Arc::clone(&self.turn);
        let guard = match busy {
            Busy::Wait => turn.lock_owned().await,
            Busy::Refuse => turn.try_lock_owned().ok()?,
        };
        Some(Unmarked {
            instance: self,
            guard,
        })
    }

    /// From now on, `inbox` hears of lists that others change.
    pub(crate) fn watch(&self, inbox: &Arc<Inbox>) {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Arc::downgrade(inbox));
    }

    /// Tells every connection but the caller's own.
    pub(crate) fn tell_others(&self, own: &Arc<Inbox>, kinds: impl Iterator<Item = Kind>) {
        let bits = kinds.fold(0, |bits, kind| bits | Inbox::bit(kind));
        if bits == 0 {
            return;
        }
        for watcher in lock(&self.watchers).iter().filter_map(Weak::upgrade) {
            if !Arc::ptr_eq(&watcher, own) {
                watcher.changed.fetch_or(bits, Ordering::AcqRel);
                watcher.wake.notify_one();
            }
        }
    }

    fn seen(&self) -> Seen {
        *lock(&self.seen)
    }

    async fn write(
        &self,
        books: &Books<'_>,
        position: Position,
        calls: u64,
        running: Option<u64>,
        entries: &[Entry],
    ) -> Result<(), StoreError> {
        let stored = Stored {
            format: FORMAT,
            workflow: books.workflow.name(),
            fingerprint: books.workflow.fingerprint().0,
            state: books.workflow.state_name(position.state),
            finished: position.finished,
            calls,
            running,
        };
        let value = Value::new(json(&stored));
        let change = match self.seen().version {
            Some(version) => Change::update(self.key.clone(), version, value),
            None => Change::create(self.key.clone(), value),
        };
        let now = store::Time(books.now.0);
        let versions = books.store.commit(&[change], entries, now).await?;
        *lock(&self.seen) = Seen {
            position,
            version: versions.first().copied(),
            calls,
        };
        Ok(())
    }
}

/// What is needed to write an instance down.
#[derive(Clone, Copy)]
pub(crate) struct Books<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) workflow: &'a Workflow,
    pub(crate) now: Time,
}

/// Somebody's turn, before anything is written about it: the moment to judge the call again.
#[derive(Debug)]
pub(crate) struct Unmarked {
    instance: Arc<Instance>,
    guard: OwnedMutexGuard<()>,
}

impl Unmarked {
    /// Where the instance stands, now that nobody else can move it.
    pub(crate) fn position(&self) -> Position {
        self.instance.position()
    }

    /// Writes "running call N".
    pub(crate) async fn mark(self, books: Books<'_>) -> Result<Turn, StoreError> {
        let Self { instance, guard } = self;
        let seen = instance.seen();
        let call = seen.calls + 1;
        instance
            .write(&books, seen.position, call, Some(call), &[])
            .await?;
        Ok(Turn {
            instance,
            call,
            _guard: guard,
        })
    }
}

impl Turn {
    /// Takes the step for this outcome: the new state and its journal entry, in one commit.
    pub(crate) async fn commit(
        self,
        books: Books<'_>,
        binding: &Binding,
        outcome: Outcome,
    ) -> Result<Moved, StoreError> {
        let before = self.instance.position();
        let step = books.workflow.step(before, binding, outcome);
        let name = |state: StateId| books.workflow.state_name(state);
        let entry = Journalled {
            format: FORMAT,
            call: self.call,
            kind: binding.artifact().kind,
            name: &binding.artifact().name,
            outcome,
            from: name(step.from),
            to: name(step.to),
            terminal: step.terminal,
        };
        let entries = [Entry::new(self.instance.key.clone(), json(&entry))];
        self.instance
            .write(&books, step.after, self.call, None, &entries)
            .await?;
        Ok(Moved {
            before,
            after: step.after,
        })
    }
}

/// What a connection hears from others: which lists have changed, however often they did.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    changed: AtomicU8,
    wake: Notify,
}

impl Inbox {
    const fn bit(kind: Kind) -> u8 {
        match kind {
            Kind::Tool => 1,
            Kind::Resource => 2,
            Kind::Prompt => 4,
        }
    }

    /// The kinds whose lists have changed since the last call. Dropping the future loses nothing.
    pub(crate) async fn changed(&self) -> impl Iterator<Item = Kind> + use<> {
        loop {
            let bits = self.changed.swap(0, Ordering::AcqRel);
            if bits != 0 {
                return Kind::ALL
                    .into_iter()
                    .filter(move |kind| bits & Self::bit(*kind) != 0);
            }
            self.wake.notified().await;
        }
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it holds only strings and numbers")
}

/// A panic while the lock was held left plain data behind, and it is whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
