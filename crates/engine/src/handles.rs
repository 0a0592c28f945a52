//! Instances that are found by an id: the registry of those in memory, and handles.
//!
//! A client that is not remembered carries the id of its instance, the handle. The id says nothing
//! about the state, which is in the store with the principal for whom the handle was made. Whoever
//! else brings it learns as much as from an id that was never made.

use crate::{
    engine::{OpenError, Shared},
    error::EngineError,
    handle_quota::Starts,
    instance::{Instance, KIND},
    journal::{Entry, What},
    lease::Lease,
    lock,
    principal::Principal,
    record::Written,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use interlock_proto::Time;
use interlock_store::{self as store, Key, Record, Seq, StoreError, Version};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

/// How many instances without a session are kept in memory, so that their calls take turns here.
const MOST_RECENT: usize = 4096;

/// The instances that are in memory, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    live: Mutex<HashMap<Arc<str>, Weak<Instance>>>,
    /// Those that requests without a session have used lately.
    recent: Mutex<HashMap<Arc<str>, Recent>>,
    pub(crate) starts: Starts,
}

#[derive(Debug)]
struct Recent {
    instance: Arc<Instance>,
    used: Time,
}

impl Registry {
    /// The instance that is there already and goes on, or else this one: calls of one instance take
    /// turns, however it was found.
    fn share(&self, instance: Arc<Instance>) -> Arc<Instance> {
        // The other one leaves the registry when it is dropped, so nothing is locked by then.
        let (shared, _other) = {
            let mut live = lock(&self.live);
            match live.get(instance.id()).and_then(Weak::upgrade) {
                Some(there) if there.stands_for(&instance) => (there, Some(instance)),
                there => {
                    live.insert(Arc::clone(instance.id()), Arc::downgrade(&instance));
                    (instance, there)
                }
            }
        };
        shared
    }

    /// An instance is gone, unless another one has taken its place.
    pub(crate) fn leave(&self, id: &Arc<str>) {
        let mut live = lock(&self.live);
        if live.get(id).is_some_and(|one| one.strong_count() == 0) {
            live.remove(id);
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Instance>> {
        lock(&self.live).get(id).and_then(Weak::upgrade)
    }

    /// Whether somebody has the instance besides this registry and the one that asks.
    pub(crate) fn uses(&self, instance: &Arc<Instance>) -> bool {
        let kept = lock(&self.recent).contains_key(instance.id());
        Arc::strong_count(instance) > 1 + usize::from(kept)
    }

    fn recent(&self, id: &str, now: Time) -> Option<Arc<Instance>> {
        let mut recent = lock(&self.recent);
        let found = recent.get_mut(id)?;
        found.used = now;
        Some(Arc::clone(&found.instance))
    }

    /// Keeps an instance in memory for a while. If it is there already, that one is meant.
    pub(crate) fn keep(&self, instance: Arc<Instance>, now: Time) -> Arc<Instance> {
        // What is dropped here may set a timer, so nothing is locked by then.
        let (kept, _gone) = {
            let mut recent = lock(&self.recent);
            let gone = match recent.len() >= MOST_RECENT {
                true => forget_half(&mut recent),
                false => Vec::new(),
            };
            let id = Arc::clone(instance.id());
            let kept = recent.entry(id).or_insert(Recent {
                instance,
                used: now,
            });
            kept.used = now;
            (Arc::clone(&kept.instance), gone)
        };
        kept
    }

    fn forget(&self, id: &str) {
        let gone = lock(&self.recent).remove(id);
        if let Some(Recent { instance, .. }) = gone {
            lock(&instance.state).ended = true;
            instance.arm();
        }
    }

    /// The engine is gone: its instances need not be kept any more.
    pub(crate) fn clear(&self) {
        let gone = std::mem::take(&mut *lock(&self.recent));
        drop(gone);
    }
}

/// Takes out those that were not used for longest, unless they are in use or have unwritten entries.
fn forget_half(recent: &mut HashMap<Arc<str>, Recent>) -> Vec<Recent> {
    let is_idle = |one: &Recent| Arc::strong_count(&one.instance) == 1 && one.instance.is_at_rest();
    let idle = recent.iter().filter(|(_, one)| is_idle(one));
    let mut idle: Vec<_> = idle.map(|(id, one)| (one.used, Arc::clone(id))).collect();
    idle.sort_unstable();
    idle.truncate(MOST_RECENT / 2);
    idle.iter()
        .filter_map(|(_, id)| recent.remove(id))
        .collect()
}

/// What every handle begins with.
const PREFIX: &str = "wf_";
/// How much of an id says whose it is, in characters: 48 bits. It is no secret and protects nothing;
/// it lets the handles of one principal stand together in the store.
const WHOSE: usize = 8;
/// How much of it is random, in characters: 128 bits.
const RANDOM: usize = 22;

/// What the handles of a principal begin with.
pub(crate) fn prefix(principal: &Principal) -> String {
    let mut hash = Sha256::new();
    hash.update([u8::from(!principal.is_anonymous())]);
    hash.update(principal.id());
    let whose = BASE64_URL_SAFE_NO_PAD.encode(&hash.finalize()[..WHOSE * 3 / 4]);
    format!("{PREFIX}{whose}")
}

/// A new id that cannot be guessed.
pub(crate) fn mint(principal: &Principal) -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    let random = BASE64_URL_SAFE_NO_PAD.encode(bytes);
    Ok(format!("{}{random}", prefix(principal)))
}

/// Whether an id could have been made for a principal.
fn may_be_of(principal: &Principal, id: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    id.strip_prefix(&prefix(principal))
        .is_some_and(|random| random.len() == RANDOM && random.bytes().all(allowed))
}

impl Shared {
    /// How many expired instances are removed at once.
    pub(crate) const SWEPT_AT_ONCE: usize = 8;

    /// The instance of this id, or a new one at the beginning if it is not in memory.
    pub(crate) fn shared_instance(self: &Arc<Self>, id: impl Into<Arc<str>>) -> Arc<Instance> {
        self.registry.share(Instance::new(self, id.into(), None))
    }

    pub(crate) fn leased_instance(self: &Arc<Self>, id: &str, lease: Lease) -> Arc<Instance> {
        let instance = Instance::new(self, id.into(), Some(lease));
        self.registry.share(instance)
    }

    /// The instance of a record, with its lease if it is behind a handle.
    pub(crate) fn instance_of(self: &Arc<Self>, id: &str, record: &Record) -> Arc<Instance> {
        match Written::read(record).ok().and_then(|found| found.owner()) {
            Some(owner) => {
                let idle = self.limits.handle_idle;
                let lease = Lease::stored(owner, idle, record.value.expires);
                self.leased_instance(id, lease)
            }
            None => self.shared_instance(id),
        }
    }

    pub(crate) async fn load(&self, id: &str) -> Result<Option<Record>, StoreError> {
        let key = Key::new(KIND, id)?;
        self.store.load(&key, self.store_time()).await
    }

    /// The instance behind a handle. Whatever is wrong with the handle, the answer is the same, and
    /// so is what it takes to find out: one look into the store.
    pub(crate) async fn find_handle(
        self: &Arc<Self>,
        id: &str,
        principal: &Principal,
    ) -> Result<Arc<Instance>, OpenError> {
        // Nothing is ever stored under the prefix alone.
        let looked_up = if may_be_of(principal, id) { id } else { PREFIX };
        let Some(record) = self.load(looked_up).await.map_err(EngineError::from)? else {
            self.registry.forget(looked_up);
            return Err(OpenError::Unknown);
        };
        let now = self.now();
        let instance = self.registry.recent(looked_up, now).unwrap_or_else(|| {
            let lease = Lease::new(principal.clone(), self.limits.handle_idle);
            self.leased_instance(looked_up, lease)
        });
        // Two principals may happen to have the same prefix.
        if !instance.is_of(principal) {
            return Err(OpenError::Unknown);
        }
        match instance.adopt(&record) {
            Ok(true) => {}
            Ok(false) => return Err(OpenError::Unknown),
            // What belongs to another definition cannot go on.
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the instance behind a handle cannot be read");
                return Err(OpenError::Unknown);
            }
        }
        let instance = self.registry.keep(instance, now);
        instance.find_quietly().await?;
        instance.refresh(&record).await?;
        Ok(instance)
    }

    /// Removes some instances that have expired: more than are started, so that it keeps up. Only
    /// those behind handles expire.
    pub(crate) async fn sweep(&self) -> Result<usize, StoreError> {
        let now = self.store_time();
        let mut gone = 0;
        let some = 8 * Self::SWEPT_AT_ONCE;
        for (key, record) in self.store.expired(&KIND, now, some).await? {
            let live = self.registry.get(key.id());
            // A call of it waits for something. What that commits prolongs it.
            if live.is_some_and(|live| self.registry.uses(&live)) {
                continue;
            }
            gone += usize::from(self.remove(&key, record.version).await?);
            if gone == Self::SWEPT_AT_ONCE {
                break;
            }
        }
        Ok(gone)
    }

    /// Removes an instance behind a handle. False: somebody was faster.
    pub(crate) async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        let now = self.store_time();
        let ended = Entry::new(now.0, None, What::Ended);
        let ended = store::Entry::new(key.clone(), ended.written());
        let entries = match self.is_private() {
            true => Vec::new(),
            false => vec![ended],
        };
        let delete = [store::Change::delete(key.clone(), version)];
        match self.store.commit(&delete, &entries, now).await {
            Ok(_) => {}
            Err(StoreError::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.is_private() {
            self.store.prune(key, Seq(u64::MAX)).await?;
        }
        self.registry.forget(key.id());
        Ok(true)
    }

    /// How long to wait before looking again for expired instances, in milliseconds.
    pub(crate) fn sweep_pause(&self) -> u64 {
        const LEAST: u64 = 1_000;
        const MOST: u64 = 60 * 60 * 1_000;
        let idle = self.limits.handle_idle.as_millis();
        let idle = u64::try_from(idle).unwrap_or(u64::MAX);
        (idle / 8).clamp(LEAST, MOST)
    }
}

impl Instance {
    /// Whether it is not over, and is kept for the same principal.
    fn stands_for(&self, other: &Self) -> bool {
        self.is_leased() == other.is_leased() && !lock(&self.state).ended
    }

    /// Whether nothing is left to be written about it.
    fn is_at_rest(&self) -> bool {
        let state = lock(&self.state);
        !state.journal.has_notes() && state.occupancy.lost.is_none()
    }

    /// As [`find`](Self::find). What is due may wait for a call that runs in another process.
    pub(crate) async fn find_quietly(self: &Arc<Self>) -> Result<(), EngineError> {
        match self.find().await {
            Err(EngineError::RunningElsewhere) => Ok(()),
            done @ (Ok(()) | Err(_)) => done,
        }
    }

    /// Takes over what other processes have written, unless a call here has the turn and knows
    /// better. Whether the record is of the principal for whom the instance is kept.
    pub(crate) fn adopt(self: &Arc<Self>, record: &Record) -> Result<bool, EngineError> {
        let is_newer = |seen: Option<Version>| seen.is_none_or(|seen| seen < record.version);
        if is_newer(lock(&self.state).stored.version) {
            let found = Written::read(record)?;
            let run = found.run(self.workflow())?;
            if let Some(lease) = &self.lease
                && found.owner().as_ref() != Some(lease.principal())
            {
                return Ok(false);
            }
            let mut state = lock(&self.state);
            if let Ok(_turn) = self.turn.try_acquire()
                && is_newer(state.stored.version)
            {
                state.take_over(run, found, record.version, self.shared.node);
            }
        }
        if let Some(lease) = &self.lease {
            lease.touch(self.shared.now());
        }
        Ok(true)
    }

    /// Stores that it was used, if it might expire too early otherwise. A call that has the turn
    /// stores it anyway.
    async fn refresh(self: &Arc<Self>, stored: &Record) -> Result<(), EngineError> {
        let Some(lease) = &self.lease else {
            return Ok(());
        };
        if !lease.outlives(&stored.value, self.shared.now()) {
            return Ok(());
        }
        let Some(_turn) = self.turn_to_attend() else {
            return Ok(());
        };
        let run = {
            let state = lock(&self.state);
            let occupancy = &state.occupancy;
            // It has moved since, or a call has yet to say how it ended.
            if state.stored.version != Some(stored.version)
                || occupancy.lost.is_some()
                || occupancy.elsewhere.is_some()
            {
                return Ok(());
            }
            Arc::clone(state.run())
        };
        let change = crate::commit::Change::none(&run);
        match self.commit(change).await {
            // The faster writer has stored it.
            Err(error) if error.is_conflict() => self.reload().await,
            done @ (Ok(()) | Err(_)) => done,
        }
    }
}

#[cfg(test)]
mod tests;
