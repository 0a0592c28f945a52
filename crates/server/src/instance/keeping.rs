//! How an instance is written and read, with its journal.

use super::{
    Instance, Lease, Seen, Unwritten,
    approving::Asking,
    stored::{self, Besides, Found, Running, Text, Unclear},
    tail::Tail,
};
use crate::{
    approval::ApprovalRequest,
    baton::{Grip, Lone},
    effect::Effects,
    journal::{Entry, Told, What},
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
    pub(super) what: Option<Told>,
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

/// What is about to be committed, and what is known once it is.
struct Draft {
    record: NewRecord,
    entries: Vec<store::Entry>,
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

impl Draft {
    fn changes(&self) -> &[Change] {
        std::slice::from_ref(&self.record.change)
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
        let draft = self.draft(books, &writing)?;
        let committed = self.commit(books, &draft).await;
        let (before, count) = (draft.before, draft.count);
        let is_cut = draft.told.tail.is_cut();
        self.committed(writing, draft, committed)?;
        self.prune(books, is_cut, before, count).await;
        Ok(())
    }

    async fn commit(
        &self,
        books: &Books<'_>,
        draft: &Draft,
    ) -> Result<Vec<store::Version>, StoreError> {
        self.cut(books, &draft.told).await?;
        let now = time(books.now);
        books
            .store
            .commit(draft.changes(), &draft.entries, now)
            .await
    }

    /// What is stored of a journal goes before what is newer than what was let go of: with a gap, it
    /// would tell of something that never was.
    async fn cut(&self, books: &Books<'_>, told: &Untold) -> Result<(), StoreError> {
        match told.tail.is_cut() {
            true => books.store.prune(&self.key, Seq(u64::MAX)).await,
            false => Ok(()),
        }
    }

    /// Brings the record up to date, if it is to follow.
    pub(crate) async fn write_record(&self, books: &Books<'_>) -> Result<(), KeepError> {
        let pen = Grip::take(&self.pen).await;
        let (is_behind, run, calls) = {
            let seen = lock(&self.seen);
            let is_behind = seen.is_behind && !seen.ended;
            (is_behind, Arc::clone(seen.known.run()), seen.calls)
        };
        if !is_behind {
            // Nothing but the journal may have more to say.
            drop(pen);
            return self.write_untold(books).await;
        }
        let writing = Writing::unmoved(&run, calls);
        let draft = self.draft(books, &writing)?;
        let versions = match self.commit(books, &draft).await {
            Ok(versions) => versions,
            Err(error) => return Err(self.unsaid(draft.told, error)),
        };
        {
            // A call may have begun meanwhile: this is about what is stored alone.
            let mut seen = lock(&self.seen);
            seen.text = Some(draft.record.text);
            seen.version = versions.first().copied();
            seen.is_behind = false;
            seen.has_stored(draft.count);
            seen.began = None;
        }
        let is_cut = draft.told.tail.is_cut();
        self.prune(books, is_cut, draft.before, draft.count).await;
        Ok(())
    }

    /// As [`write`](Self::write), if nobody has to wait for anything. `None`: somebody would, and
    /// nothing is done.
    pub(super) fn write_at_once(
        &self,
        books: &Books<'_>,
        writing: Writing<'_>,
    ) -> Option<Result<(), KeepError>> {
        let _pen = Grip::try_take(&self.pen)?;
        let draft = match self.draft(books, &writing) {
            Ok(draft) => draft,
            Err(error) => return Some(Err(error)),
        };
        let must_wait =
            draft.told.tail.is_cut() || books.prune_up_to(draft.before, draft.count).is_some();
        let committed = match must_wait {
            true => None,
            false => {
                let (changes, now) = (draft.changes(), time(books.now));
                books.store.commit_at_once(changes, &draft.entries, now)
            }
        };
        match committed {
            Some(committed) => Some(self.committed(writing, draft, committed)),
            None => {
                self.not_told(draft.told);
                None
            }
        }
    }

    /// Whether it is in memory for as long as anybody can reach it, and is written down before it
    /// leaves.
    pub(super) fn lives_here(&self, books: &Books<'_>) -> bool {
        let is_sessions = books.workflow.settings().scope == Scope::Session && !self.is_leased();
        books.is_ours_alone() && is_sessions
    }

    fn draft(&self, books: &Books<'_>, writing: &Writing<'_>) -> Result<Draft, KeepError> {
        let (edition, asked, told, before, last) = {
            let mut seen = lock(&self.seen);
            if !Arc::ptr_eq(writing.known, seen.known.run()) {
                // Somebody has read what others wrote, and knows a version that the writer does not.
                let key = self.key.clone();
                return Err(StoreError::Conflict { key }.into());
            }
            let (edition, asked) = seen.asking(&writing.asking);
            let last = seen.last(&writing.run);
            let told = seen.take_untold(books);
            let before = seen.stored_before(&told);
            (edition, asked, told, before, last)
        };
        let own = writing
            .what
            .as_ref()
            .map(|what| what.written(books.workflow));
        let entries = self.entries(books, &told, own);
        let count = before.saturating_add(entries.len() as u64);
        let besides = Besides {
            calls: writing.calls,
            entries: count,
            running: writing.running,
            edition,
            asked: &asked,
            unclear: last.unclear.as_ref(),
        };
        let record = self.new_record(books, &writing.run, besides, &last);
        Ok(Draft {
            record,
            entries,
            told,
            before,
            count,
            edition,
            asked,
        })
    }

    /// What is not told yet, then what there is to tell.
    fn entries(
        &self,
        books: &Books<'_>,
        told: &Untold,
        own: Option<Arc<[u8]>>,
    ) -> Vec<store::Entry> {
        let entry = |bytes: Arc<[u8]>| store::Entry::new(self.key.clone(), bytes);
        told.written(books.workflow).chain(own).map(entry).collect()
    }

    fn new_record(
        &self,
        books: &Books<'_>,
        run: &Run,
        besides: Besides<'_>,
        last: &Last,
    ) -> NewRecord {
        let owner = self.lease.as_ref().map(Lease::principal);
        let before = last.text.as_ref().map(|text| (text, last.holds));
        let text = stored::written(books, run, besides, owner, before);
        let value = self.value(Arc::clone(&text.bytes));
        let change = match last.version {
            Some(version) => Change::update(self.key.clone(), version, value),
            None => Change::create(self.key.clone(), value),
        };
        NewRecord { change, text }
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
        seen.stands(writing, (draft.edition, draft.asked));
        seen.has_stored(draft.count);
        seen.is_behind = false;
        seen.text = Some(draft.record.text);
        seen.version = versions.first().copied();
        seen.began = None;
        Ok(())
    }

    /// Writes down what the journal does not say yet.
    pub(crate) async fn write_untold(&self, books: &Books<'_>) -> Result<(), KeepError> {
        let _pen = Grip::take(&self.pen).await;
        let is_there = self.is_there(books).await?;
        let (mut told, before) = {
            let mut seen = lock(&self.seen);
            if seen.ended {
                // Its journal went with it.
                return Ok(());
            }
            let told = seen.take_untold(books);
            let before = seen.stored_before(&told);
            (told, before)
        };
        if !told.is_something() {
            self.not_told(told);
            return Ok(());
        }
        if is_there {
            told.began = None;
        }
        let began = told.began.is_some();
        let entries = self.entries(books, &told, None);
        let committed = match self.cut(books, &told).await {
            Ok(()) => books.store.commit(&[], &entries, time(books.now)).await,
            Err(error) => Err(error),
        };
        if let Err(error) = committed {
            // Entries alone could be written twice, and what changed nothing is not worth that.
            told.only_count();
            self.not_told(told);
            return Err(error.into());
        }
        let count = before.saturating_add(entries.len() as u64);
        {
            let mut seen = lock(&self.seen);
            seen.has_stored(count);
            if began {
                seen.began = None;
            }
        }
        self.prune(books, told.tail.is_cut(), before, count).await;
        Ok(())
    }

    /// Whether others have written about it, of which nothing has been read here: then it has begun
    /// already, and only who has the turn may take over what they wrote.
    async fn is_there(&self, books: &Books<'_>) -> Result<bool, KeepError> {
        let is_known = {
            let seen = lock(&self.seen);
            seen.version.is_some() || seen.began.is_none() || seen.notes.is_empty()
        };
        if is_known {
            return Ok(false);
        }
        let record = books.store.load(&self.key, time(books.now)).await?;
        Ok(record.is_some())
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
            mut notes,
            refusals,
            unwritten,
            ..
        } = untold;
        notes.append(&mut seen.notes);
        seen.notes = notes;
        seen.refusals += refusals;
        seen.unwritten.add(unwritten);
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
        let entries = match version.is_some() || untold.is_something() {
            true if is_kept => self.entries(&books, &untold, Some(ended.written())),
            true | false => Vec::new(),
        };
        let delete = version.map(|version| Change::delete(self.key.clone(), version));
        if delete.is_some() || !entries.is_empty() {
            let (delete, now) = (delete.as_slice(), time(books.now));
            books.store.commit(delete, &entries, now).await?;
        }
        if !is_kept {
            books.store.prune(&self.key, Seq(u64::MAX)).await?;
        }
        Ok(())
    }

    /// Now and then drops the oldest journal entries. If that fails, what was written is written. A
    /// journal that was cut is as short as it is to be, and begins with how much was left out.
    async fn prune(&self, books: &Books<'_>, is_cut: bool, before: u64, count: u64) {
        if let Some(up_to) = books.prune_up_to(before, count).filter(|_| !is_cut)
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

    /// It stands as was written.
    pub(super) fn stands(
        &mut self,
        writing: Writing<'_>,
        (edition, asked): (u64, Vec<ApprovalRequest>),
    ) {
        self.calls = writing.calls;
        (self.edition, self.asked) = (edition, asked);
        self.lost = None;
        self.elsewhere = None;
        self.known.becomes(writing.run);
    }

    /// The journal has been stored up to its end, so many entries in all.
    fn has_stored(&mut self, entries: u64) {
        self.entries = entries;
        self.tail = Tail::default();
    }

    /// How many entries are stored before what is to be told. Of a cut journal all that are stored go,
    /// and their numbers with them unless there is a record.
    fn stored_before(&self, told: &Untold) -> u64 {
        match told.tail.is_cut() && self.version.is_none() {
            true => 0,
            false => self.entries,
        }
    }

    /// Whether something happened besides of which the journal does not tell.
    pub(super) fn has_notes(&self) -> bool {
        !self.notes.is_empty() || self.unwritten != Unwritten::default()
    }

    /// Puts what happened besides where the journal's other entries wait.
    #[cold]
    pub(super) fn tell_notes(&mut self, now: Time, most: u64) {
        let notes = std::mem::take(&mut self.notes);
        let unwritten = std::mem::take(&mut self.unwritten);
        self.refusals = 0;
        for note in notes.iter().chain(&unwritten.entry(now)) {
            self.tail.push(note.told(), most);
        }
    }

    /// What the journal does not say yet.
    fn take_untold(&mut self, books: &Books<'_>) -> Untold {
        let started = || What::Started {
            workflow: books.workflow.name().to_owned(),
            fingerprint: books.workflow.fingerprint().0,
        };
        Untold {
            began: self
                .began
                .map(|at| Box::new(Entry::new(at, None, started()))),
            // It stays until it is stored: whoever has the pen adds nothing meanwhile.
            tail: self.tail.clone(),
            notes: std::mem::take(&mut self.notes),
            refusals: std::mem::take(&mut self.refusals),
            unwritten: std::mem::take(&mut self.unwritten),
            at: books.now,
        }
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

/// What the journal does not say yet, in this order: what happened besides is told before the step
/// that follows it.
struct Untold {
    /// Boxed, for it is large and nearly always told already.
    began: Option<Box<Entry>>,
    tail: Tail,
    notes: Vec<Entry>,
    /// How many of these are refusals.
    refusals: usize,
    unwritten: Unwritten,
    /// When this is told.
    at: Time,
}

impl Untold {
    fn written(&self, workflow: &Workflow) -> impl Iterator<Item = Arc<[u8]>> {
        let began = self.began.as_deref().map(Entry::written);
        let unwritten = self.unwritten.entry(self.at);
        let notes = self.notes.iter().map(Entry::written);
        let notes = notes.chain(unwritten.map(|entry| entry.written()));
        let tail = self.tail.written(workflow);
        began.into_iter().chain(tail).chain(notes)
    }

    /// Whether it says more than that the instance began.
    fn is_something(&self) -> bool {
        let is_written = self.unwritten == Unwritten::default();
        !self.notes.is_empty() || !self.tail.is_empty() || !is_written
    }

    /// What happened besides is not told, but how much it was.
    fn only_count(&mut self) {
        let notes = std::mem::take(&mut self.notes).len() as u64;
        let refusals = std::mem::take(&mut self.refusals) as u64;
        self.unwritten.add(Unwritten {
            refusals,
            ran: notes.saturating_sub(refusals),
        });
    }
}

impl Unwritten {
    const fn add(&mut self, more: Self) {
        self.refusals += more.refusals;
        self.ran += more.ran;
    }

    fn entry(self, now: Time) -> Option<Entry> {
        let Self { refusals, ran } = self;
        let what = What::Unwritten { refusals, ran };
        (self != Self::default()).then(|| Entry::new(now.0, None, what))
    }
}

pub(super) const fn time(now: Time) -> store::Time {
    store::Time(now.0)
}

#[cfg(test)]
mod tests;
