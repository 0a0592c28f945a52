//! What operators do to an instance, and how they see it.

use super::{
    Alarms, Books, Held, Instance, KIND, KeepError, Lease, Moved,
    approving::Unanswered,
    stored::{self, Glance},
};
use crate::{
    journal::{Entry, What},
    route::lock,
};
use interlock_proto::Refusal;
use interlock_store::{Key, Record, Version};
use interlock_workflow::{Artifact, Instance as Run, Outcome, StateId, Trace};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

/// The instances that are in memory, by their ids.
#[derive(Debug, Default)]
pub(super) struct Live(Mutex<HashMap<Arc<str>, Weak<Instance>>>);

impl Live {
    pub(super) fn enter(&self, instance: &Arc<Instance>) {
        let id = Arc::clone(&instance.named.id);
        lock(&self.0).insert(id, Arc::downgrade(instance));
    }

    /// The one that is there already and goes on, or else this one.
    pub(super) fn share(&self, instance: Arc<Instance>) -> Arc<Instance> {
        let there = {
            let mut live = lock(&self.0);
            let there = live.get(&instance.named.id).and_then(Weak::upgrade);
            if there.is_none() {
                live.insert(Arc::clone(&instance.named.id), Arc::downgrade(&instance));
            }
            there
        };
        // Whichever is dropped here leaves by itself, so nothing is locked by now.
        match there {
            None => instance,
            Some(there) if there.is_in_place_of(&instance) => there,
            Some(_) => {
                self.enter(&instance);
                instance
            }
        }
    }

    /// An instance is gone, unless another one has taken its place.
    pub(super) fn leave(&self, id: &Arc<str>) {
        let mut live = lock(&self.0);
        if live.get(id).is_some_and(|one| one.strong_count() == 0) {
            live.remove(id);
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Instance>> {
        let live = lock(&self.0);
        live.get(id).and_then(Weak::upgrade)
    }
}

/// What an operator decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order<'a> {
    /// It begins anew.
    Reset,
    /// It comes to this state.
    Move(StateId),
    /// It ends where it is.
    Abort,
    /// The call of which nobody knew what it did has ended so.
    Settle(Outcome),
    /// Whether the call that this question is about may run.
    Answer(&'a str, bool),
}

/// Who decides, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision<'a> {
    pub(crate) by: &'a str,
    pub(crate) reason: &'a str,
}

impl Decision<'_> {
    pub(super) fn entry(&self, now: u64, what: What) -> Entry {
        Entry {
            by: Some(self.by.to_owned()),
            reason: Some(self.reason.to_owned()),
            ..Entry::new(now, None, what)
        }
    }
}

/// Why an order was not obeyed.
#[derive(Debug)]
pub(crate) enum Disobeyed {
    Keep(KeepError),
    /// It is over already.
    Finished,
    /// There is no call to decide about.
    NotHeld,
    /// That does not settle it.
    Unsettled,
    /// Nobody asks that.
    NotAsked,
    /// It was answered otherwise, or is too late.
    Refused(Refusal),
}

impl From<KeepError> for Disobeyed {
    fn from(error: KeepError) -> Self {
        Self::Keep(error)
    }
}

impl From<Unanswered> for Disobeyed {
    fn from(error: Unanswered) -> Self {
        match error {
            Unanswered::Keep(error) => Self::Keep(error),
            Unanswered::NotAsked => Self::NotAsked,
            Unanswered::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

/// What the store, or else the memory, knows of an instance.
pub(crate) struct Found {
    pub(crate) glance: Glance,
    /// None if it is not written down yet.
    pub(crate) version: Option<Version>,
}

/// The key of an id that somebody says; nothing if it can be none.
pub(crate) fn key_of(id: &str) -> Option<Key> {
    Key::new(KIND, id).ok()
}

/// What the store knows under this key.
pub(crate) async fn look_up(
    books: &Books<'_>,
    alarms: &Alarms,
    key: &Key,
) -> Result<Option<Found>, KeepError> {
    if let Some(live) = alarms.live.get(key.id()) {
        live.write_record(books).await?;
    }
    let now = super::keeping::time(books.now);
    let Some(record) = books.store.load(key, now).await? else {
        return Ok(None);
    };
    Ok(Some(Found {
        glance: stored::glance(books, &record)?,
        version: Some(record.version),
    }))
}

impl Instance {
    /// Whether it is not over, and belongs to nobody else.
    fn is_in_place_of(&self, other: &Self) -> bool {
        self.is_leased() == other.is_leased() && !lock(&self.seen).ended
    }

    /// The instance of a record, for whom it is kept and for as long.
    pub(crate) fn of_record(
        books: &Books<'_>,
        (id, record): (&str, &Record),
        alarms: &Arc<Alarms>,
        idle: Duration,
    ) -> Arc<Self> {
        let owner = stored::read(books, record)
            .ok()
            .and_then(stored::Found::owner);
        match owner {
            Some(owner) => {
                let lease = Lease::kept(owner, idle, record.value.expires);
                Self::behind_handle(id, books.workflow, alarms, books.now, lease)
            }
            None => Self::shared(id, books.workflow, alarms, books.now),
        }
    }

    /// What is known of it here.
    pub(crate) fn look(&self, books: &Books<'_>) -> Option<Found> {
        let seen = lock(&self.seen);
        (!seen.ended).then(|| Found {
            glance: Glance {
                asked: seen.asked.clone(),
                ..Glance::of(books, seen.known.run(), seen.calls)
            },
            version: seen.version,
        })
    }
}

impl Held {
    /// Whether there is such an instance: it is written down, or in memory and not over.
    pub(crate) fn exists(&self, is_live: bool) -> bool {
        let seen = lock(&self.instance.seen);
        !seen.ended && (is_live || seen.version.is_some())
    }

    /// Looks how the store knows the instance, and lets it catch up.
    pub(crate) async fn refresh(&self, books: Books<'_>) -> Result<(), KeepError> {
        // What was lost here, the store takes for something that runs elsewhere.
        let is_lost = lock(&self.instance.seen).lost.is_some();
        if !is_lost {
            self.instance.reload(&books).await?;
        }
        self.catch_up(books).await.map(|_| ())
    }

    /// Does what an operator has decided, on the instance as it is.
    pub(crate) async fn obey(
        &self,
        books: Books<'_>,
        order: Order<'_>,
        decision: Decision<'_>,
    ) -> Result<(), Disobeyed> {
        if let Some(moved) = self.decided(&books, order, decision).await? {
            self.settled(books, moved).await;
        }
        Ok(())
    }

    /// As if it had just been made: it has nothing to warn of, either.
    async fn reset(
        &self,
        books: &Books<'_>,
        run: &Arc<Run>,
        entry: Entry,
    ) -> Result<Moved, KeepError> {
        let unclear = lock(&self.instance.seen).known.set_unclear(None);
        let anew = (books.workflow.start(entry.at), true);
        let put = self.put(books, run, anew, entry).await;
        if put.is_err() {
            lock(&self.instance.seen).known.set_unclear(unclear);
        }
        put
    }

    async fn decided(
        &self,
        books: &Books<'_>,
        order: Order<'_>,
        decision: Decision<'_>,
    ) -> Result<Option<Moved>, Disobeyed> {
        let (workflow, now) = (books.workflow, books.now.0);
        let run = self.instance.run();
        let moved = match order {
            Order::Reset => {
                let entry = decision.entry(now, What::Reset);
                self.reset(books, &run, entry).await?
            }
            Order::Move(to) => {
                let step = workflow.put(&run, to);
                let entry = |trace| decision.entry(now, What::Moved { trace });
                self.take(books, &run, step, entry).await?
            }
            Order::Abort => {
                if run.position().finished {
                    return Err(Disobeyed::Finished);
                }
                let trace = Trace::abort(workflow.state_name(run.position().state));
                let mut after = run.as_ref().clone();
                let known = after.retrace(workflow, &trace, now);
                known.map_err(|_| KeepError::Foreign(workflow.name().to_owned()))?;
                let entry = decision.entry(now, What::Aborted { trace });
                self.put(books, &run, (after, false), entry).await?
            }
            Order::Settle(outcome) => {
                let held = run.held().ok_or(Disobeyed::NotHeld)?;
                let step = workflow.settle(&run, outcome, None);
                let step = step.ok_or(Disobeyed::Unsettled)?;
                let entry = |trace| decision.entry(now, What::Settled { outcome, trace });
                let mut moved = self.take(books, &run, step, entry).await?;
                if let Some(set_off) = &mut moved.set_off {
                    let artifact = Artifact::clone(&held.artifact);
                    let done = &mut set_off.done;
                    done.of_call(artifact, outcome, &held.args, &held.principal);
                }
                moved
            }
            Order::Answer(id, yes) => {
                self.answer(books, (id, yes), decision).await?;
                return Ok(None);
            }
        };
        Ok(Some(moved))
    }
}
