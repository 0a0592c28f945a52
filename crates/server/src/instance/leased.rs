//! Instances that belong to no session: who may use one, for how long it is kept, and what others
//! have written about it meanwhile.

use super::{
    Books, Instance, KIND, KeepError,
    keeping::{Writing, time},
    stored,
};
use crate::{
    baton::Grip,
    journal::{Entry, What},
    principal::Principal,
    route::lock,
};
use interlock_proto::Time;
use interlock_store::{self as store, Change, Key, Record, Seq, StoreError, Value};
use interlock_workflow::Busy;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// For whom an instance behind a handle is kept, and for how long.
#[derive(Debug)]
pub(crate) struct Lease {
    principal: Principal,
    /// How long it is kept after its last use, in milliseconds.
    idle: u64,
    /// When it expires, in milliseconds since the epoch. Time alone does not change that: only who
    /// uses it does.
    expires: AtomicU64,
}

impl Lease {
    pub(crate) fn new(principal: Principal, idle: Duration) -> Self {
        Self {
            principal,
            idle: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
            expires: AtomicU64::new(0),
        }
    }

    /// One that lasts as long as has been written down.
    pub(super) fn kept(principal: Principal, idle: Duration, expires: Option<store::Time>) -> Self {
        let lease = Self::new(principal, idle);
        let expires = expires.map_or(u64::MAX, |expires| expires.0);
        lease.expires.store(expires, Ordering::Relaxed);
        lease
    }

    pub(super) const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Somebody uses it. It is kept a little longer than has been promised, so that the next uses
    /// need not be written down.
    fn touch(&self, now: Time) {
        let promised = now.0.saturating_add(self.idle);
        if self.expires.load(Ordering::Relaxed) < promised {
            let longer = promised.saturating_add(self.idle / 8);
            self.expires.fetch_max(longer, Ordering::Relaxed);
        }
    }

    /// Whether what is stored does not keep what has been promised.
    fn outlives(&self, stored: &Value, now: Time) -> bool {
        let promised = now.0.saturating_add(self.idle);
        stored.expires.is_some_and(|expires| expires.0 < promised)
    }
}

impl Instance {
    /// How many expired instances are removed at once.
    pub(crate) const SWEPT_AT_ONCE: usize = 8;

    /// What is stored under an id.
    pub(crate) async fn load(books: &Books<'_>, id: &str) -> Result<Option<Record>, StoreError> {
        let key = Key::new(KIND, id)?;
        books.store.load(&key, time(books.now)).await
    }

    /// What it is stored as.
    pub(super) fn value(&self, bytes: Arc<[u8]>) -> Value {
        let value = Value::new(bytes);
        match &self.lease {
            Some(lease) => value.until(store::Time(lease.expires.load(Ordering::Relaxed))),
            None => value,
        }
    }

    /// Whether it is behind a handle that was made for this principal.
    pub(crate) fn is_of(&self, principal: &Principal) -> bool {
        self.lease
            .as_ref()
            .is_some_and(|lease| lease.principal == *principal)
    }

    /// Whether it is behind a handle.
    pub(crate) const fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Takes over what others have written, unless somebody here has the turn and knows better.
    /// Whether the record is of whom the instance was leased to.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        books: &Books<'_>,
        record: &Record,
    ) -> Result<bool, KeepError> {
        let is_newer = |seen: Option<store::Version>| seen.is_none_or(|seen| seen < record.version);
        if is_newer(lock(&self.seen).version) {
            let found = stored::read(books, record)?;
            if let Some(lease) = &self.lease
                && !found.is_of(lease.principal())
            {
                return Ok(false);
            }
            let mut seen = lock(&self.seen);
            if let Some(_turn) = Grip::try_take(self)
                && is_newer(seen.version)
            {
                seen.take_over(found, record.version, self.alarms.server());
            }
        }
        if let Some(lease) = &self.lease {
            lease.touch(books.now);
        }
        Ok(true)
    }

    /// Writes down that it was used, if it might expire too early otherwise. Whoever has the turn
    /// writes it down anyway.
    pub(crate) async fn refresh(
        self: &Arc<Self>,
        books: Books<'_>,
        stored: &Record,
    ) -> Result<(), KeepError> {
        let Some(lease) = &self.lease else {
            return Ok(());
        };
        if !lease.outlives(&stored.value, books.now) {
            return Ok(());
        }
        let Some(_held) = self.turn_to_attend() else {
            return Ok(());
        };
        let (run, calls) = {
            let seen = lock(&self.seen);
            // Somebody has moved it since, or has yet to say how a call ended.
            if seen.version != Some(stored.version)
                || seen.lost.is_some()
                || seen.elsewhere.is_some()
            {
                return Ok(());
            }
            (Arc::clone(seen.known.run()), seen.calls)
        };
        match self.write(&books, Writing::unmoved(&run, calls)).await {
            // Whoever was faster has written it down.
            Err(error) if error.is_conflict() => self.reload(&books).await,
            done @ (Ok(()) | Err(_)) => done,
        }
    }

    /// Writes down an instance that begins.
    pub(crate) async fn begin(self: &Arc<Self>, books: Books<'_>) -> Result<(), KeepError> {
        if let Some(lease) = &self.lease {
            lease.touch(books.now);
        }
        match Arc::clone(self).turn(Busy::Wait).await {
            Some(held) => held.begin(books).await,
            None => Ok(()),
        }
    }

    /// Whether nothing is left to be written about it.
    pub(crate) fn rests(&self) -> bool {
        let seen = lock(&self.seen);
        !seen.has_notes() && seen.lost.is_none()
    }

    /// Nobody looks after it any more.
    pub(crate) fn forget(self: &Arc<Self>) {
        lock(&self.seen).ended = true;
        self.arm();
    }

    /// How many instances are kept whose ids begin so, counted up to `most`.
    pub(crate) async fn count_behind(
        books: &Books<'_>,
        prefix: &str,
        most: usize,
    ) -> Result<usize, StoreError> {
        let after = Key::new(KIND, prefix)?;
        let now = time(books.now);
        let keys = books.store.list(&KIND, Some(&after), most, now).await?;
        Ok(keys
            .iter()
            .take_while(|key| key.id().starts_with(prefix))
            .count())
    }

    /// Removes some instances that have expired, and says which. Only those behind handles do.
    pub(crate) async fn sweep(books: &Books<'_>) -> Result<Vec<String>, StoreError> {
        let now = time(books.now);
        let mut gone = Vec::new();
        for (key, record) in books.store.expired(&KIND, now, Self::SWEPT_AT_ONCE).await? {
            let entries: Vec<_> = match books.journal_limit {
                None => {
                    let ended = Entry::new(books.now.0, None, What::Ended);
                    let bytes = serde_json::to_vec(&ended).expect("it holds only JSON");
                    vec![store::Entry::new(key.clone(), bytes)]
                }
                Some(_) => Vec::new(),
            };
            let delete = [Change::delete(key.clone(), record.version)];
            match books.store.commit(&delete, &entries, now).await {
                Ok(_) => {
                    if books.journal_limit.is_some() {
                        books.store.prune(&key, Seq(u64::MAX)).await?;
                    }
                    gone.push(key.id().to_owned());
                }
                // Somebody uses it after all, or was faster.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(gone)
    }
}
