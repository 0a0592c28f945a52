//! One change of an instance and its journal entry: committed to memory or to the store.

use crate::{
    approval_asking::Asked,
    error::EngineError,
    instance::Instance,
    journal::{Entry, Pending, What, unstored::Draft},
    lease::Lease,
    lock,
    record::{Running, Written},
    state::State,
};
use futures_util::future::Either;
use interlock_proto::Time;
use interlock_store::{self as store, Seq, StoreError, Version};
use interlock_workflow::{Busy, Instance as Run, Workflow};
use std::{
    future::{Future, ready},
    sync::Arc,
};

/// How an instance is to stand, and what the journal says about that.
pub(crate) struct Change<'a> {
    /// The run that the change was decided on. If it is another one by now, that is a conflict.
    pub(crate) known: &'a Arc<Run>,
    pub(crate) run: Arc<Run>,
    /// Whether this change enters a state, also the same one again; that restarts its timers.
    pub(crate) enters: bool,
    pub(crate) running: Option<Arc<Running>>,
    pub(crate) entry: Option<Pending>,
    pub(crate) asked: Asked,
}

impl<'a> Change<'a> {
    /// An instance that stays where it is, with no call running and nothing to journal.
    pub(crate) fn none(run: &'a Arc<Run>) -> Self {
        Self {
            known: run,
            run: Arc::clone(run),
            enters: false,
            running: None,
            entry: None,
            asked: Asked::Stays,
        }
    }

    /// Journals it no earlier than that: the times of a journal never run backwards.
    fn not_before(&mut self, workflow: &Workflow, at: u64) {
        if let Some(entry) = self.entry.as_mut().filter(|entry| entry.at() < at) {
            entry.set_at(at);
            if self.enters {
                Arc::make_mut(&mut self.run).came_later(workflow, at);
            }
        }
    }
}

impl Instance {
    /// Commits a change and its journal entry.
    ///
    /// An instance that lives in this process alone, and that the store knows, changes in memory, and
    /// this is ready at the first poll. Any other is written to the store first.
    pub(crate) fn commit<'a>(
        &'a self,
        change: Change<'a>,
    ) -> impl Future<Output = Result<(), EngineError>> + Send + 'a {
        match self.commit_to_memory(change) {
            Ok(None) => Either::Left(ready(Ok(()))),
            Ok(Some(change)) => Either::Right(Box::pin(self.commit_to_store(change))),
            Err(error) => Either::Left(ready(Err(error))),
        }
    }

    /// Gives the change back if it has to be stored.
    fn commit_to_memory<'a>(
        &self,
        mut change: Change<'a>,
    ) -> Result<Option<Change<'a>>, EngineError> {
        let mut state = lock(&self.state);
        let Some(most) = self.memory_limit(&state) else {
            return Ok(Some(change));
        };
        self.check_unchanged(&state, &change)?;
        if let Some(at) = change.entry.as_ref().map(Pending::at) {
            let at = state.journal.at(at);
            change.not_before(self.workflow(), at);
        }
        if let Some(entry) = change.entry.take() {
            state.journal.push(entry, most);
        }
        state.stored.miss();
        state.apply(change);
        Ok(None)
    }

    /// How many entries the journal in memory holds, if changes need not be stored.
    pub(crate) fn memory_limit(&self, state: &State) -> Option<u64> {
        let is_stored = state.stored.version.is_some() && !state.ended;
        self.shared
            .journal_limit
            .filter(|_| is_stored && self.is_volatile())
    }

    /// Fails with `Conflict` if another run has replaced the one that the change was decided on.
    fn check_unchanged(&self, state: &State, change: &Change<'_>) -> Result<(), EngineError> {
        if Arc::ptr_eq(change.known, state.run()) {
            return Ok(());
        }
        let key = self.key.clone();
        Err(StoreError::Conflict { key }.into())
    }

    async fn commit_to_store(&self, mut change: Change<'_>) -> Result<(), EngineError> {
        let _writer = self.writer.lock().await;
        let (draft, record, entries) = {
            let mut state = lock(&self.state);
            self.check_unchanged(&state, &change)?;
            let draft = self.draft(&mut state);
            change.not_before(self.workflow(), draft.at);
            if let Some(lease) = &self.lease
                && state.occupancy.running.is_some()
            {
                // A call was here until now, and that is a use.
                lease.touch(Time(draft.at));
            }
            let (edition, asked) = state.after(&change.asked);
            let written = Written {
                calls: state.calls_after(change.running.as_deref()),
                running: change.running.clone(),
                edition,
                asked,
                unclear: state.known.unclear().cloned(),
                ..self.written(&change.run)
            };
            let record = self.record(&written, state.stored.version);
            let own = change.entry.as_ref();
            let own = own.map(|entry| entry.entry(self.workflow()).written());
            let entries = self.entries(&draft, own);
            (draft, record, entries)
        };
        let finishes = change.run.position().finished;
        let landed = |state: &mut State, version| {
            state.apply(change);
            let missing = state.stored.missing();
            state.stored.written(version, missing);
        };
        self.write(&draft, (Some(record), entries), landed).await?;
        if let Some(lease) = self.lease.as_ref().filter(|_| finishes) {
            self.shared.registry.starts.finished(lease.principal());
        }
        Ok(())
    }

    /// Writes a draft, with the record or alone. The caller holds the writer lock.
    async fn write(
        &self,
        draft: &Draft,
        (record, entries): (Option<store::Change>, Vec<store::Entry>),
        landed: impl FnOnce(&mut State, Option<Version>) + Send,
    ) -> Result<(), StoreError> {
        let now = self.shared.store_time();
        let store = &*self.shared.store;
        let versions = store.commit(record.as_slice(), &entries, now).await?;
        {
            let mut state = lock(&self.state);
            landed(&mut state, versions.first().copied());
            state.journal.stored(draft, entries.len() as u64);
        }
        self.prune(draft, entries.len()).await;
        Ok(())
    }

    /// Writes record and journal of an instance that changed in memory only. Otherwise writes waiting
    /// journal entries alone.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn write_record(&self) -> Result<(), EngineError> {
        self.write_what_waits(true).await
    }

    /// Writes the entries that the journal does not have yet.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn write_journal(&self) -> Result<(), EngineError> {
        self.write_what_waits(false).await
    }

    async fn write_what_waits(&self, with_record: bool) -> Result<(), EngineError> {
        let _writer = self.writer.lock().await;
        let has_record = self.has_unread_record().await?;
        let (draft, record, changes) = {
            let mut state = lock(&self.state);
            if state.ended {
                return Ok(());
            }
            let mut draft = self.draft(&mut state);
            if has_record {
                draft.began = None;
            }
            let is_behind = with_record && state.stored.is_behind();
            if !is_behind && !draft.is_something() {
                return Ok(());
            }
            let record = is_behind.then(|| self.record(&self.known(&state), state.stored.version));
            (draft, record, state.stored.missing())
        };
        let is_alone = record.is_none();
        let entries = self.entries(&draft, None);
        let landed = |state: &mut State, version: Option<Version>| {
            if version.is_some() {
                state.stored.written(version, changes);
            }
        };
        let written = self.write(&draft, (record, entries), landed).await;
        if written.is_err() && is_alone {
            // The failed write may have landed. Trying again could duplicate these notes, so they are
            // only counted as dropped.
            lock(&self.state).journal.lost(&draft);
        }
        Ok(written?)
    }

    /// Whether another process has stored the instance, of which nothing was read here. Then it has
    /// begun already, and only the holder of the turn may take over what is stored.
    async fn has_unread_record(&self) -> Result<bool, EngineError> {
        let is_known = {
            let state = lock(&self.state);
            let journal = &state.journal;
            state.stored.version.is_some() || journal.began.is_none() || !journal.has_notes()
        };
        if is_known {
            return Ok(false);
        }
        let now = self.shared.store_time();
        Ok(self.shared.store.load(&self.key, now).await?.is_some())
    }

    /// Reads an instance that others may have moved before, and lets it catch up with time.
    ///
    /// # Errors
    ///
    /// If the store fails, or another process runs a call.
    pub async fn find(self: &Arc<Self>) -> Result<(), EngineError> {
        {
            let _writer = self.writer.lock().await;
            let is_known = lock(&self.state).stored.version.is_some();
            if !is_known {
                self.read().await?;
            }
        }
        let is_due = {
            let state = lock(&self.state);
            let is_stored = state.stored.version.is_some();
            let now = self.shared.now().0;
            // A deadline must be stored, so that another process can fire it.
            state
                .run()
                .due()
                .is_some_and(|due| due <= now || !is_stored)
        };
        if is_due && let Some(turn) = self.turn_to_attend() {
            turn.catch_up().await?;
            turn.begin().await?;
        }
        self.arm();
        Ok(())
    }

    /// Reads what another process has written, and tells every observer of changed lists.
    pub(crate) async fn reload(&self) -> Result<(), EngineError> {
        let (before, after) = {
            let _writer = self.writer.lock().await;
            let before = self.position();
            self.read().await?;
            (before, self.position())
        };
        self.tell_all(before, after);
        Ok(())
    }

    /// The caller holds the writer lock: what is read is not older than what was written meanwhile.
    async fn read(&self) -> Result<(), EngineError> {
        if lock(&self.state).stored.is_behind() {
            // No other process writes it, and more is known here.
            return Ok(());
        }
        let store = &*self.shared.store;
        let record = store.load(&self.key, self.shared.store_time()).await?;
        let Some(record) = record else {
            // An instance that never moved may have a journal alone. A journal in a shared store may
            // outlive its instance, and tells nothing.
            let is_private = self.shared.is_private();
            let has_begun = is_private && store.journal_end(&self.key).await? != Seq::START;
            let mut state = lock(&self.state);
            state.stored.version = None;
            state.occupancy.elsewhere = None;
            if has_begun {
                state.journal.came_back();
            }
            return Ok(());
        };
        let found = Written::read(&record)?;
        let run = found.run(self.workflow())?;
        let mut state = lock(&self.state);
        if !state.stored.is_behind() {
            state.take_over(run, found, record.version, self.shared.node);
        }
        Ok(())
    }

    /// Forgets the instance with its session. Its journal stays where journals are kept whole.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn end(self: &Arc<Self>) -> Result<(), EngineError> {
        let turn = self.turn(Busy::Wait).await;
        if let Some(turn) = &turn
            && lock(&self.state).occupancy.lost.is_some()
        {
            turn.catch_up().await?;
        }
        let _writer = self.writer.lock().await;
        let (version, draft) = {
            let mut state = lock(&self.state);
            state.ended = true;
            state.stored.forget();
            (state.stored.version, self.draft(&mut state))
        };
        let is_kept = !self.shared.is_private();
        let ended = Entry::new(draft.at, None, What::Ended);
        let has_begun = version.is_some() || draft.began.is_none();
        let entries = match is_kept && (has_begun || draft.is_something()) {
            true => self.entries(&draft, Some(ended.written())),
            false => Vec::new(),
        };
        let delete = version.map(|version| store::Change::delete(self.key.clone(), version));
        let store = &*self.shared.store;
        if delete.is_some() || !entries.is_empty() {
            let now = self.shared.store_time();
            store.commit(delete.as_slice(), &entries, now).await?;
        }
        if !is_kept {
            store.prune(&self.key, Seq(u64::MAX)).await?;
        }
        Ok(())
    }

    /// Journals something that changed nothing, now. If that fails it is counted, and tried again.
    pub(crate) async fn note(self: &Arc<Self>, entry: Entry) -> Result<(), EngineError> {
        lock(&self.state).journal.insist(entry);
        let written = self.write_journal().await;
        if written.is_err() {
            self.arm();
        }
        written
    }

    fn draft(&self, state: &mut State) -> Draft {
        let workflow = self.workflow();
        let now = self.shared.now().0;
        if self.is_volatile() {
            state.journal.number_notes(now);
        }
        state.journal.draft(now, || What::Started {
            workflow: workflow.name().to_owned(),
            fingerprint: workflow.fingerprint().0,
        })
    }

    /// What waits to be stored, then what there is to say now.
    fn entries(&self, draft: &Draft, own: Option<Arc<[u8]>>) -> Vec<store::Entry> {
        let entry = |bytes: Arc<[u8]>| store::Entry::new(self.key.clone(), bytes);
        draft.bytes(self.workflow()).chain(own).map(entry).collect()
    }

    /// What its record says if it stands so, and nothing else is known.
    fn written(&self, run: &Run) -> Written {
        let owner = self.lease.as_ref().map(Lease::principal);
        Written::new(self.workflow(), run, owner)
    }

    /// What its record says of it as it is known here.
    pub(crate) fn known(&self, state: &State) -> Written {
        Written {
            calls: state.calls,
            running: state.occupancy.running.clone(),
            edition: state.edition,
            asked: state.asked.clone(),
            unclear: state.known.unclear().cloned(),
            ..self.written(state.run())
        }
    }

    fn record(&self, written: &Written, version: Option<Version>) -> store::Change {
        let (key, value) = (self.key.clone(), self.value(written));
        match version {
            Some(version) => store::Change::update(key, version, value),
            None => store::Change::create(key, value),
        }
    }

    /// Drops what is older than a gap in the journal, and now and then the oldest entries. The caller
    /// holds the writer lock. If this fails, what was written is written.
    async fn prune(&self, draft: &Draft, entries: usize) {
        const NOW_AND_THEN: u64 = 256;
        let Some(limit) = self.shared.journal_limit else {
            return;
        };
        let is_long = lock(&self.state).journal.unpruned >= NOW_AND_THEN;
        let most = match is_long {
            // The journal begins with how much was left out.
            _ if draft.is_cut() => entries as u64,
            true => limit,
            false => return,
        };
        let store = &*self.shared.store;
        let pruned = async {
            let end = store.journal_end(&self.key).await?;
            store
                .prune(&self.key, Seq(end.0.saturating_sub(most)))
                .await
        };
        match pruned.await {
            Ok(()) => lock(&self.state).journal.unpruned = 0,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not prune a journal");
            }
        }
    }
}

pub(crate) const fn store_time(now: Time) -> store::Time {
    store::Time(now.0)
}

#[cfg(test)]
mod tests;
