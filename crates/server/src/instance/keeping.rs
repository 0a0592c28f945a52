//! How an instance is written and read, with its journal.

use super::{
    Instance, Lease, Seen,
    approving::Asking,
    stored::{self, Besides, Found, Running, Text, Unclear},
};
use crate::{
    approval::ApprovalRequest,
    baton::{Bears, Grip, Lone},
    effect::Effects,
    journal::{Entry, What},
    route::lock,
};
use interlock_proto::Time;
use interlock_store::{self as store, Change, Seq, Store, StoreError};
use interlock_workflow::{Busy, Instance as Run, Scope, Workflow};
use std::sync::Arc;

/// What is needed to keep an instance.
#[derive(Clone, Copy)]
pub(crate) struct Books<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) workflow: &'a Workflow,
    pub(crate) now: Time,
    /// How many journal entries are kept; all if not said.
    pub(crate) journal_limit: Option<u64>,
    /// What steps can set off.
    pub(crate) effects: Option<&'a Effects>,
}

/// Why an instance could not be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the stored instance belongs to another definition of workflow `{0}`")]
    Foreign(String),
    #[error("the stored instance has format {0}, which is not known")]
    Format(u32),
    /// Whether it still runs or died, nobody here can tell.
    #[error("another server runs a call of this instance")]
    RunningElsewhere,
    #[error("the stored instance cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

impl KeepError {
    /// Whether somebody else was faster, so that it helps to look again.
    pub(crate) const fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(StoreError::Conflict { .. }))
    }
}

/// How an instance is to stand, and what the journal says about it.
pub(super) struct Writing<'a> {
    /// As what whoever writes knows it: if it is not that any more, nothing is written.
    pub(super) known: &'a Arc<Run>,
    pub(super) run: Arc<Run>,
    pub(super) calls: u64,
    pub(super) running: Option<&'a Running>,
    /// The entry, as it is written.
    pub(super) what: Option<Arc<[u8]>>,
    pub(super) asking: Asking,
}

impl<'a> Writing<'a> {
    /// Of an instance that stays where it is, with nothing to be said about it.
    pub(super) fn unmoved(run: &'a Arc<Run>, calls: u64) -> Self {
        Self {
            known: run,
            run: Arc::clone(run),
            calls,
            running: None,
            what: None,
            asking: Asking::Stays,
        }
    }
}

/// When the record is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Record {
    Now,
    /// When somebody else is to read it.
    Follows,
}

/// What is about to be committed, and what is known once it is.
struct Draft {
    /// None if the record follows later. Boxed, for it is large.
    record: Option<Box<NewRecord>>,
    entries: Entries,
    told: Untold,
    before: u64,
    count: u64,
    edition: u64,
    asked: Vec<ApprovalRequest>,
}

/// A record that is about to be written.
struct NewRecord {
    change: Change,
    text: Text,
}

/// The journal entries of a commit: nearly always one.
enum Entries {
    One(store::Entry),
    Some(Vec<store::Entry>),
}

impl Entries {
    fn as_slice(&self) -> &[store::Entry] {
        match self {
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Some(entries) => entries,
        }
    }
}

impl Draft {
    fn changes(&self) -> &[Change] {
        let record = self.record.as_deref();
        record.map_or(&[], |record| std::slice::from_ref(&record.change))
    }
}

impl Instance {
    /// One commit of how the instance stands and of everything that its journal has to say.
    pub(super) async fn write(
        &self,
        books: &Books<'_>,
        writing: Writing<'_>,
    ) -> Result<(), KeepError> {
        let _pen = Grip::take(&self.pen).await;
        let draft = self.draft(books, &writing, Record::Now)?;
        let (changes, entries) = (draft.changes(), draft.entries.as_slice());
        let committed = books.store.commit(changes, entries, time(books.now)).await;
        let (before, count) = (draft.before, draft.count);
        self.committed(writing, draft, committed)?;
        self.prune(books, before, count).await;
        Ok(())
    }

    /// Brings the record up to date, if it is to follow.
    pub(crate) async fn write_record(&self, books: &Books<'_>) -> Result<(), KeepError> {
        let _pen = Grip::take(&self.pen).await;
        let (is_behind, run, calls) = {
            let seen = lock(&self.seen);
            let is_behind = seen.is_behind && !seen.ended;
            (is_behind, Arc::clone(seen.known.run()), seen.calls)
        };
        if !is_behind {
            return Ok(());
        }
        let writing = Writing::unmoved(&run, calls);
        let draft = self.draft(books, &writing, Record::Now)?;
        let (changes, entries) = (draft.changes(), draft.entries.as_slice());
        let committed = books.store.commit(changes, entries, time(books.now)).await;
        let versions = match committed {
            Ok(versions) => versions,
            Err(error) => return Err(self.unsaid(draft.told, error)),
        };
        {
            // Whoever has the turn may have got on: this is about the record alone.
            let mut seen = lock(&self.seen);
            seen.text = draft.record.map(|record| record.text);
            seen.version = versions.first().copied();
            seen.is_behind = !Arc::ptr_eq(seen.known.run(), &writing.run);
            seen.entries = draft.count;
            seen.began = None;
        }
        self.prune(books, draft.before, draft.count).await;
        Ok(())
    }

    /// As [`write`](Self::write), if nobody has to wait for anything. `None`: somebody would, and
    /// nothing is done.
    ///
    /// Of an instance that lives with us and dies with us, only the journal is written: the record
    /// follows when somebody else is to read it.
    pub(super) fn write_at_once(
        &self,
        books: &Books<'_>,
        writing: Writing<'_>,
    ) -> Option<Result<(), KeepError>> {
        let follows = self.lives_here(books) && writing.running.is_none();
        let writing = match follows {
            true => match self.log_at_once(books, writing) {
                Ok(written) => return Some(written),
                Err(writing) => writing,
            },
            false => writing,
        };
        let _pen = Grip::try_take(&self.pen)?;
        let record = match follows {
            true => Record::Follows,
            false => Record::Now,
        };
        let draft = match self.draft(books, &writing, record) {
            Ok(draft) => draft,
            Err(error) => return Some(Err(error)),
        };
        let committed = if books.prune_up_to(draft.before, draft.count).is_none() {
            let (changes, entries) = (draft.changes(), draft.entries.as_slice());
            let now = time(books.now);
            books.store.commit_at_once(changes, entries, now)
        } else {
            // For that one may have to wait.
            None
        };
        match committed {
            Some(committed) => Some(self.committed(writing, draft, committed)),
            None => {
                self.not_told(draft.told);
                None
            }
        }
    }

    /// The same in one go, where the journal's entry is all that there is to write and the store is
    /// ours: nobody else can come in between. It is given back if there is more, or somebody has the
    /// pen.
    fn log_at_once<'a>(
        &self,
        books: &Books<'_>,
        mut writing: Writing<'a>,
    ) -> Result<Result<(), KeepError>, Writing<'a>> {
        let mut seen = lock(&self.seen);
        let (before, count) = (seen.entries, seen.entries.saturating_add(1));
        let is_all = seen.version.is_some()
            && seen.has_told()
            && Arc::ptr_eq(writing.known, seen.known.run())
            && !self.pen.baton().is_taken()
            && books.prune_up_to(before, count).is_none();
        let Some(what) = writing.what.take_if(|_| is_all) else {
            return Err(writing);
        };
        let appended = books.store.append_at_once(&self.key, what, time(books.now));
        let appended = match appended {
            Ok(appended) => appended,
            Err(what) => {
                writing.what = Some(what);
                return Err(writing);
            }
        };
        Ok(match appended {
            Ok(()) => {
                let asking = seen.asking(&writing.asking);
                seen.spare = Some(seen.stands(writing, asking, count));
                seen.is_behind = true;
                Ok(())
            }
            Err(error) => Err(error.into()),
        })
    }

    /// Whether it is in memory for as long as anybody can reach it, and is written down before it
    /// leaves.
    pub(super) fn lives_here(&self, books: &Books<'_>) -> bool {
        let is_sessions = books.workflow.settings().scope == Scope::Session && !self.is_leased();
        books.is_ours_alone() && is_sessions
    }

    fn draft(
        &self,
        books: &Books<'_>,
        writing: &Writing<'_>,
        record: Record,
    ) -> Result<Draft, KeepError> {
        let (edition, asked, told, before, last) = {
            let mut seen = lock(&self.seen);
            if !Arc::ptr_eq(writing.known, seen.known.run()) {
                // Somebody has read what others wrote, and knows a version that the writer does not.
                let key = self.key.clone();
                return Err(StoreError::Conflict { key }.into());
            }
            let (edition, asked) = seen.asking(&writing.asking);
            // One that is not there yet is not found by those who look for it.
            let follows = record == Record::Follows && seen.version.is_some();
            let last = (!follows).then(|| seen.last(&writing.run));
            (edition, asked, seen.take_untold(books), seen.entries, last)
        };
        let entries = self.entries(&told, writing.what.as_ref());
        let count = before.saturating_add(entries.as_slice().len() as u64);
        let mut draft = Draft {
            record: None,
            entries,
            told,
            before,
            count,
            edition,
            asked,
        };
        if let Some(last) = last {
            draft.record = Some(self.new_record(books, writing, &draft, &last));
        }
        Ok(draft)
    }

    /// What is not told yet, then what there is to tell.
    fn entries(&self, told: &Untold, what: Option<&Arc<[u8]>>) -> Entries {
        let own = |what: &Arc<[u8]>| store::Entry::new(self.key.clone(), Arc::clone(what));
        match what {
            Some(what) if told.is_nothing() => Entries::One(own(what)),
            Some(_) | None => {
                let untold = told.entries().map(|entry| self.entry(entry));
                Entries::Some(untold.chain(what.map(own)).collect())
            }
        }
    }

    fn new_record(
        &self,
        books: &Books<'_>,
        writing: &Writing<'_>,
        draft: &Draft,
        last: &Last,
    ) -> Box<NewRecord> {
        let owner = self.lease.as_ref().map(Lease::principal);
        let besides = Besides {
            calls: writing.calls,
            entries: draft.count,
            running: writing.running,
            edition: draft.edition,
            asked: &draft.asked,
            unclear: last.unclear.as_ref(),
        };
        let before = last.text.as_ref().map(|text| (text, last.holds));
        let text = stored::written(books, &writing.run, besides, owner, before);
        let value = self.value(Arc::clone(&text.bytes));
        let change = match last.version {
            Some(version) => Change::update(self.key.clone(), version, value),
            None => Change::create(self.key.clone(), value),
        };
        Box::new(NewRecord { change, text })
    }

    /// Remembers what was committed, or that it was not.
    fn committed(
        &self,
        writing: Writing<'_>,
        draft: Draft,
        committed: Result<Vec<store::Version>, StoreError>,
    ) -> Result<(), KeepError> {
        let versions = match committed {
            Ok(versions) => versions,
            Err(error) => return Err(self.unsaid(draft.told, error)),
        };
        let mut seen = lock(&self.seen);
        seen.stands(writing, (draft.edition, draft.asked), draft.count);
        seen.is_behind = draft.record.is_none();
        if let Some(record) = draft.record {
            seen.text = Some(record.text);
            seen.version = versions.first().copied();
        }
        seen.began = None;
        Ok(())
    }

    /// Writes down the refusals that nobody has written down yet.
    pub(super) async fn write_refusals(&self, books: &Books<'_>) -> Result<(), KeepError> {
        let _pen = Grip::take(&self.pen).await;
        let is_there = self.is_there(books).await?;
        let (mut told, before) = {
            let mut seen = lock(&self.seen);
            (seen.take_untold(books), seen.entries)
        };
        if told.refusals.is_empty() {
            self.not_told(told);
            return Ok(());
        }
        if is_there {
            told.began = None;
        }
        let began = told.began.is_some();
        let entries: Vec<_> = told.entries().map(|entry| self.entry(entry)).collect();
        let committed = books.store.commit(&[], &entries, time(books.now)).await;
        if let Err(error) = committed {
            // Entries alone could be written twice, and a refusal is not worth that.
            told.refusals.clear();
            self.not_told(told);
            return Err(error.into());
        }
        let count = before.saturating_add(entries.len() as u64);
        {
            let mut seen = lock(&self.seen);
            seen.entries = count;
            if began {
                seen.began = None;
            }
        }
        self.prune(books, before, count).await;
        Ok(())
    }

    /// Whether others have written about it, of which nothing has been read here: then it has begun
    /// already, and only who has the turn may take over what they wrote.
    async fn is_there(&self, books: &Books<'_>) -> Result<bool, KeepError> {
        let is_known = {
            let seen = lock(&self.seen);
            seen.version.is_some() || seen.began.is_none() || seen.refusals.is_empty()
        };
        if is_known {
            return Ok(false);
        }
        let record = books.store.load(&self.key, time(books.now)).await?;
        Ok(record.is_some())
    }

    fn entry(&self, entry: &Entry) -> store::Entry {
        let bytes = serde_json::to_vec(entry).expect("it holds only JSON");
        store::Entry::new(self.key.clone(), bytes)
    }

    /// It could not be said because the store has failed.
    fn unsaid(&self, untold: Untold, error: StoreError) -> KeepError {
        self.not_told(untold);
        error.into()
    }

    /// It could not be said, and has to be said later.
    fn not_told(&self, untold: Untold) {
        let mut seen = lock(&self.seen);
        let Untold {
            mut refusals,
            unwritten,
            ..
        } = untold;
        if unwritten > 0 {
            refusals.pop();
            seen.unwritten += unwritten;
        }
        refusals.append(&mut seen.refusals);
        seen.refusals = refusals;
    }

    /// Looks where an instance stands that others may have moved before, and lets it catch up with
    /// the time that has passed.
    pub(crate) async fn find(self: &Arc<Self>, books: Books<'_>) -> Result<(), KeepError> {
        {
            let pen = Grip::take(&self.pen).await;
            let known = lock(&self.seen).version.is_some();
            if !known {
                self.read(&books, &pen).await?;
            }
        }
        let is_due = {
            let seen = lock(&self.seen);
            let due = seen.known.run().due();
            // What is due must be known to whoever comes after us.
            due.is_some_and(|due| due <= books.now.0 || seen.version.is_none())
        };
        if is_due && let Some(held) = self.turn_to_attend() {
            held.catch_up(books).await?;
            held.begin(books).await?;
        }
        self.arm();
        Ok(())
    }

    /// Somebody else has written: look what, and tell whoever is here.
    pub(super) async fn reload(&self, books: &Books<'_>) -> Result<(), KeepError> {
        let pen = Grip::take(&self.pen).await;
        let before = self.position();
        self.read(books, &pen).await?;
        self.tell_all(books.workflow, before, self.position());
        Ok(())
    }

    /// With the pen in hand: what is read must not be older than what was written meanwhile.
    async fn read(&self, books: &Books<'_>, _pen: &Grip<Lone>) -> Result<(), KeepError> {
        if lock(&self.seen).is_behind {
            // Nobody else writes it, and we know more.
            return Ok(());
        }
        let record = books.store.load(&self.key, time(books.now)).await?;
        let Some(record) = record else {
            let mut seen = lock(&self.seen);
            seen.version = None;
            seen.elsewhere = None;
            return Ok(());
        };
        let found = stored::read(books, &record)?;
        lock(&self.seen).take_over(found, record.version, self.alarms.server());
        Ok(())
    }

    /// Forgets the instance with its session. Its journal stays where journals are kept whole.
    pub(crate) async fn end(self: &Arc<Self>, books: Books<'_>) -> Result<(), KeepError> {
        let held = Arc::clone(self).turn(Busy::Wait).await;
        if let Some(held) = &held
            && lock(&self.seen).lost.is_some()
        {
            held.catch_up(books).await?;
        }
        let _pen = Grip::take(&self.pen).await;
        let (version, untold) = {
            let mut seen = lock(&self.seen);
            seen.ended = true;
            seen.is_behind = false;
            (seen.version, seen.take_untold(&books))
        };
        let is_kept = books.journal_limit.is_none();
        let ended = Entry::new(books.now.0, None, What::Ended);
        let entries: Vec<_> = match version {
            Some(_) if is_kept => {
                let entries = untold.entries().chain([&ended]);
                entries.map(|entry| self.entry(entry)).collect()
            }
            Some(_) | None => Vec::new(),
        };
        if let Some(version) = version {
            let delete = [Change::delete(self.key.clone(), version)];
            let now = time(books.now);
            books.store.commit(&delete, &entries, now).await?;
        }
        if !is_kept {
            books.store.prune(&self.key, Seq(u64::MAX)).await?;
        }
        Ok(())
    }

    /// Now and then drops the oldest journal entries. If that fails, what was written is written.
    async fn prune(&self, books: &Books<'_>, before: u64, count: u64) {
        if let Some(up_to) = books.prune_up_to(before, count)
            && let Err(error) = books.store.prune(&self.key, up_to).await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "a journal could not be shortened");
        }
    }
}

impl Books<'_> {
    /// Whether nobody else has the store and it dies with us, so that what is written there is for
    /// nobody but us.
    pub(super) const fn is_ours_alone(&self) -> bool {
        self.journal_limit.is_some()
    }

    /// Up to where a journal is to be pruned that had so many entries before and has so many now.
    fn prune_up_to(&self, before: u64, count: u64) -> Option<Seq> {
        const NOW_AND_THEN: u64 = 256;
        let is_time = before / NOW_AND_THEN != count / NOW_AND_THEN;
        let limit = self
            .journal_limit
            .filter(|limit| is_time && count > *limit)?;
        Some(Seq(count - limit))
    }
}

impl Seen {
    /// What was written last, for whoever writes how this run stands.
    fn last(&self, run: &Arc<Run>) -> Last {
        Last {
            version: self.version,
            text: self.text.clone(),
            holds: !self.is_behind && Arc::ptr_eq(self.known.run(), run),
            unclear: self.known.unclear().cloned(),
        }
    }

    /// It stands as was written, with so many journal entries. How it stood before.
    fn stands(
        &mut self,
        writing: Writing<'_>,
        (edition, asked): (u64, Vec<ApprovalRequest>),
        entries: u64,
    ) -> Arc<Run> {
        self.calls = writing.calls;
        (self.edition, self.asked) = (edition, asked);
        self.entries = entries;
        self.lost = None;
        self.elsewhere = None;
        self.known.becomes(writing.run)
    }

    /// Whether the journal says everything.
    const fn has_told(&self) -> bool {
        self.began.is_none() && self.refusals.is_empty() && self.unwritten == 0
    }

    /// What the journal does not say yet.
    fn take_untold(&mut self, books: &Books<'_>) -> Untold {
        let started = || What::Started {
            workflow: books.workflow.name().to_owned(),
            fingerprint: books.workflow.fingerprint().0,
        };
        let untold = Untold {
            began: self
                .began
                .map(|at| Box::new(Entry::new(at, None, started()))),
            refusals: std::mem::take(&mut self.refusals),
            unwritten: std::mem::take(&mut self.unwritten),
        };
        untold.with_count(books.now)
    }

    /// Somebody else has written this.
    ///
    /// Whoever reads has the turn, or nobody has: what `server`, which is us, has written itself was
    /// given up before the store had answered.
    pub(super) fn take_over(&mut self, found: Found, version: store::Version, server: u64) {
        self.known.becomes(Arc::new(found.run));
        self.text = None;
        self.version = Some(version);
        self.calls = found.calls;
        (self.edition, self.asked) = (found.edition, found.asked);
        self.entries = self.entries.max(found.entries);
        self.began = None;
        self.known.set_unclear(found.unclear);
        // One whose client has to come back is run by nobody until it does.
        let is_ours = |running: &Running| running.server == server && running.ticket().is_none();
        (self.lost, self.elsewhere) = match found.running {
            Some(running) if is_ours(&running) => (Some(running), None),
            running => (None, running),
        };
    }
}

/// What was written last.
struct Last {
    version: Option<store::Version>,
    /// The record, and whether the run that is to be written is still what it says.
    text: Option<Text>,
    holds: bool,
    unclear: Option<Unclear>,
}

/// What the journal does not say yet.
struct Untold {
    /// Boxed, for it is large and nearly always told already.
    began: Option<Box<Entry>>,
    refusals: Vec<Entry>,
    /// The last of the refusals says so.
    unwritten: u64,
}

impl Untold {
    fn with_count(mut self, now: Time) -> Self {
        if self.unwritten > 0 {
            let refusals = self.unwritten;
            let what = What::Unwritten { refusals };
            self.refusals.push(Entry::new(now.0, None, what));
        }
        self
    }

    fn is_nothing(&self) -> bool {
        self.began.is_none() && self.refusals.is_empty()
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.began.as_deref().into_iter().chain(&self.refusals)
    }
}

pub(super) const fn time(now: Time) -> store::Time {
    store::Time(now.0)
}

#[cfg(test)]
mod tests;
