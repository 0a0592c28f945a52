//! How many instances behind handles a principal may have, and which give way to a new one.
//!
//! Up to the quota nothing gives way. Beyond it, instances go that are finished, then those that no
//! call has ever moved, then any that were not used for a while; the least recently used first. If
//! there is none, the refusal says when there will be one.

use crate::{
    approval_rules::ApprovalRequest,
    engine::{Shared, StartError},
    error::EngineError,
    handles::{mint, prefix},
    instance::{Instance, KIND},
    lease::Lease,
    lock,
    principal::Principal,
    record::Written,
};
use interlock_proto::Time;
use interlock_store::{Key, StoreError, Version};
use interlock_workflow::Busy;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex},
    time::Duration,
};

/// How long an instance is safe after its last use that no call has moved yet.
const UNTOUCHED: Duration = Duration::from_secs(60);
/// How long any other is safe.
const UNUSED: Duration = Duration::from_secs(10 * 60);
/// How long the next start waits if it cannot be known when an instance gives way.
const SOON: Duration = Duration::from_secs(1);
/// How long a refused principal is refused without another look. What ends in another process, or
/// expires, is seen after that.
const REMEMBERED: Duration = Duration::from_secs(10);
/// One of so many handles gives way at once, so that not every start has to look at all of them.
const SHARE: usize = 16;

/// The principals that start an instance or have no room for one.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// One start at a time for each principal, or two could take the last place. Few principals
    /// share a lock.
    locks: [tokio::sync::Mutex<()>; 32],
    /// The principals that were refused, by the prefix of their handles.
    full: Mutex<HashMap<String, Full>>,
}

#[derive(Debug)]
struct Full {
    /// When an instance might give way.
    until: Time,
    /// Until when that is believed.
    believed: Time,
}

impl Starts {
    fn line(&self, prefix: &str) -> &tokio::sync::Mutex<()> {
        let mut hash = DefaultHasher::new();
        prefix.hash(&mut hash);
        let number = hash.finish() % self.locks.len() as u64;
        &self.locks[usize::try_from(number).unwrap_or_default()]
    }

    /// How long nothing gives way, if that was found out a moment ago.
    fn wait(&self, prefix: &str, now: Time) -> Option<Duration> {
        let full = lock(&self.full);
        let full = full.get(prefix).filter(|full| now < full.believed)?;
        Some(now.until(full.until))
    }

    fn is_full(&self, prefix: String, until: Time, now: Time) {
        let believed = until.min(now + REMEMBERED);
        let mut full = lock(&self.full);
        full.retain(|_, full| now < full.believed);
        full.insert(prefix, Full { until, believed });
    }

    /// An instance of the principal has finished, so it gives way.
    pub(crate) fn finished(&self, principal: &Principal) {
        let mut full = lock(&self.full);
        if !full.is_empty() {
            full.remove(&prefix(principal));
        }
    }
}

/// Why an instance gives way, those that go first before the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GivesWay {
    Finished,
    /// No call has moved it yet.
    Untouched,
    Unused,
}

/// Whether an instance that was last used then gives way to a new one, or when it might.
fn gives_way(written: &Written, used: Time, now: Time) -> Result<GivesWay, Option<Time>> {
    let running = written.running.as_ref().map(|running| Time(running.until));
    if let Some(until) = running.filter(|until| now < *until) {
        return Err(Some(until));
    }
    if written.run.held.is_some() {
        // An operator is to decide about it.
        return Err(None);
    }
    // Nor does one that waits for an operator's answer, or whose answer is still to be used.
    let asked = written.asked.iter().filter(|one| one.holds_at(now));
    if let Some(until) = asked.map(ApprovalRequest::holds_until).max() {
        return Err(Some(until));
    }
    let (why, safe) = match (written.run.finished, written.calls) {
        (true, _) => return Ok(GivesWay::Finished),
        (false, 0) => (GivesWay::Untouched, UNTOUCHED),
        (false, _) => (GivesWay::Unused, UNUSED),
    };
    let until = used + safe;
    if now < until {
        return Err(Some(until));
    }
    Ok(why)
}

/// An instance that gives way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    why: GivesWay,
    used: Time,
    key: Key,
    version: Version,
}

impl Shared {
    /// Makes an instance behind a handle.
    pub(crate) async fn start_handle(
        self: &Arc<Self>,
        principal: &Principal,
    ) -> Result<Arc<Instance>, StartError> {
        let starts = &self.registry.starts;
        let _next = starts.line(&prefix(principal)).lock().await;
        self.sweep().await.map_err(EngineError::from)?;
        self.make_room(principal).await?;
        let id = mint(principal).map_err(StartError::NoRandomness)?;
        let lease = Lease::new(principal.clone(), self.limits.handle_idle);
        lease.touch(self.now());
        let instance = self.leased_instance(&id, lease);
        if let Some(turn) = instance.turn(Busy::Wait).await {
            turn.begin().await?;
        }
        self.sweep_from(self.now() + Duration::from_millis(self.sweep_pause()));
        Ok(self.registry.keep(instance, self.now()))
    }

    /// Lets instances of the principal give way if there is no room for one more.
    async fn make_room(&self, principal: &Principal) -> Result<(), StartError> {
        let most = match principal.is_anonymous() {
            true => self.limits.anonymous_handles,
            false => self.limits.handles,
        };
        let (prefix, now) = (prefix(principal), self.now());
        let starts = &self.registry.starts;
        if let Some(wait) = starts.wait(&prefix, now) {
            return Err(StartError::TooMany { most, wait });
        }
        let keys = self.handles(&prefix, most).await;
        let keys = keys.map_err(EngineError::from)?;
        if keys.len() < most {
            return Ok(());
        }
        let (mut candidates, mut until) = (Vec::new(), None);
        for key in keys {
            match self.candidate(key, now).await.map_err(EngineError::from)? {
                Ok(candidate) => candidates.push(candidate),
                Err(then) => until = until.into_iter().chain(then).min(),
            }
            // There may be thousands of them, and a store in memory never waits.
            tokio::task::coop::consume_budget().await;
        }
        candidates.sort_unstable();
        candidates.truncate((most / SHARE).max(1));
        let mut gone = 0;
        for Candidate { key, version, .. } in &candidates {
            let removed = self.remove(key, *version).await;
            gone += usize::from(removed.map_err(EngineError::from)?);
        }
        if gone > 0 {
            tracing::info!(gone, most, "handles gave way to a new one");
            return Ok(());
        }
        let until = until.unwrap_or(now + SOON);
        starts.is_full(prefix, until, now);
        let wait = now.until(until);
        Err(StartError::TooMany { most, wait })
    }

    /// Whether the instance of this key gives way, or when it might.
    async fn candidate(
        &self,
        key: Key,
        now: Time,
    ) -> Result<Result<Candidate, Option<Time>>, StoreError> {
        let live = self.registry.get(key.id());
        if live.as_ref().is_some_and(|live| self.registry.uses(live)) {
            return Ok(Err(Some(now + SOON)));
        }
        let Some(record) = self.store.load(&key, self.store_time()).await? else {
            return Ok(Err(Some(now)));
        };
        // What cannot be read is not ours to remove.
        let Ok(written) = Written::read(&record) else {
            return Ok(Err(None));
        };
        let used = match live.as_ref().and_then(|live| live.lease.as_ref()) {
            Some(lease) => lease.used(),
            None => {
                let (idle, expires) = (self.limits.handle_idle, record.value.expires);
                Lease::stored(Principal::anonymous(), idle, expires).used()
            }
        };
        let version = record.version;
        let candidate = |why| Candidate {
            why,
            used,
            key,
            version,
        };
        Ok(gives_way(&written, used, now).map(candidate))
    }

    /// The handles whose ids begin so, up to so many.
    async fn handles(&self, prefix: &str, most: usize) -> Result<Vec<Key>, StoreError> {
        let after = Key::new(KIND, prefix)?;
        let now = self.store_time();
        let mut keys = self.store.list(&KIND, Some(&after), most, now).await?;
        keys.retain(|key| key.id().starts_with(prefix));
        Ok(keys)
    }
}

#[cfg(test)]
mod tests;
