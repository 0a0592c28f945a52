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
    /// Whether it comes to its state with that, and the time that it has there begins.
    pub(super) enters: bool,
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
            enters: false,
            calls,
            running: None,
            what: None,
            asking: Asking::Stays,
        }
    }

    /// What it says did not happen before that: a journal's times never run backwards, and other
    /// things may have happened since this was decided.
    pub(super) fn not_before(&mut self, workflow: &Workflow, then: u64) {
        if let Some(what) = self.what.take_if(|what| what.at() < then) {
            self.what = Some(what.happened(then));
            if self.enters {
                Arc::make_mut(&mut self.run).came_later(workflow, then);
            }
        }
    }
}

/// What is about to be committed, and what is known once it is.
struct Draft {
    record: NewRecord,
    entries: Vec<store::Entry>,
    told: Untold,
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

    fn is_stored(&self) -> Stored {
        Stored {
            entries: self.entries.len() as u64,
            is_cut: self.told.tail.is_cut(),
        }
    }
}

/// What has been written of a journal.
#[derive(Clone, Copy)]
struct Stored {
    entries: u64,
    /// What is older is of no use any more.
    is_cut: bool,
}

impl Instance {
    /// One commit of how the instance stands and of everything that its journal has to say.
    pub(super) async fn write(
        &self,
        books: &Books<'_>,
        mut writing: Writing<'_>,
    ) -> Result<(), KeepError> {
        let _pen = Grip::take(&self.pen).await;
        let draft = self.draft(books, &mut writing)?;
        let (changes, now) = (draft.changes(), time(books.now));
        let committed = books.store.commit(changes, &draft.entries, now).await;
        let stored = draft.is_stored();
        self.committed(writing, draft, committed)?;
        self.prune(books, stored).await;
        Ok(())
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
        let mut writing = Writing::unmoved(&run, calls);
        let draft = self.draft(books, &mut writing)?;
        let (changes, now) = (draft.changes(), time(books.now));
        let versions = books.store.commit(changes, &draft.entries, now).await?;
        let stored = draft.is_stored();
        {
            // A call may have begun meanwhile: this is about what is stored alone.
            let mut seen = lock(&self.seen);
            seen.text = Some(draft.record.text);
            seen.version = versions.first().copied();
            seen.is_behind = false;
            seen.has_told(&draft.told, stored.entries);
            seen.began = None;
        }
        self.prune(books, stored).await;
        Ok(())
    }

    /// As [`write`](Self::write), if nobody has to wait for anything. `None`: somebody would, and
    /// nothing is done.
    pub(super) fn write_at_once(
        &self,
        books: &Books<'_>,
        mut writing: Writing<'_>,
    ) -> Option<Result<(), KeepError>> {
        let _pen = Grip::try_take(&self.pen)?;
        if lock(&self.seen).is_to_be_pruned(books) {
            return None;
        }
        let draft = match self.draft(books, &mut writing) {
            Ok(draft) => draft,
            Err(error) => return Some(Err(error)),
        };
        let (changes, now) = (draft.changes(), time(books.now));
        let committed = books.store.commit_at_once(changes, &draft.entries, now)?;
        Some(self.committed(writing, draft, committed))
    }

    /// Whether it is in memory for as long as anybody can reach it, and is written down before it
    /// leaves.
    pub(super) fn lives_here(&self, books: &Books<'_>) -> bool {
        let is_sessions = books.workflow.settings().scope == Scope::Session && !self.is_leased();
        books.is_ours_alone() && is_sessions
    }

    fn draft(&self, books: &Books<'_>, writing: &mut Writing<'_>) -> Result<Draft, KeepError> {
        let (edition, asked, told, last) = {
            let mut seen = lock(&self.seen);
            if !Arc::ptr_eq(writing.known, seen.known.run()) {
                // Somebody has read what others wrote, and knows a version that the writer does not.
                let key = self.key.clone();
                return Err(StoreError::Conflict { key }.into());
            }
            let untold = seen.untold(books);
            writing.not_before(books.workflow, untold.at);
            let (edition, asked) = seen.asking(&writing.asking);
            let last = seen.last(&writing.run);
            (edition, asked, untold, last)
        };
        let own = writing
            .what
            .as_ref()
            .map(|what| what.written(books.workflow));
        let entries = self.entries(books, &told, own);
        let besides = Besides {
            calls: writing.calls,
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
        let versions = committed?;
        let mut seen = lock(&self.seen);
        seen.stands(writing, (draft.edition, draft.asked));
        seen.has_told(&draft.told, draft.entries.len() as u64);
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
        let mut told = {
            let mut seen = lock(&self.seen);
            if seen.ended {
                // Its journal is closed.
                return Ok(());
            }
            seen.untold(books)
        };
        if !told.is_something() {
            return Ok(());
        }
        if is_there {
            told.began = None;
        }
        let entries = self.entries(books, &told, None);
        let committed = books.store.commit(&[], &entries, time(books.now)).await;
        if let Err(error) = committed {
            // Entries alone could be written twice, and what changed nothing is not worth that.
            lock(&self.seen).only_count(&told);
            return Err(error.into());
        }
        let stored = Stored {
            entries: entries.len() as u64,
            is_cut: told.tail.is_cut(),
        };
        {
            let mut seen = lock(&self.seen);
            seen.has_told(&told, stored.entries);
            if told.began.is_some() {
                seen.began = None;
            }
        }
        self.prune(books, stored).await;
        Ok(())
    }

    /// Whether others have written about it, of which nothing has been read here: then it has begun
    /// already, and only who has the turn may take over what they wrote.
    async fn is_there(&self, books: &Books<'_>) -> Result<bool, KeepError> {
        let is_known = {
            let seen = lock(&self.seen);
            seen.version.is_some() || seen.began.is_none() || !seen.has_notes()
        };
        if is_known {
            return Ok(false);
        }
        let record = books.store.load(&self.key, time(books.now)).await?;
        Ok(record.is_some())
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
            // Of one that never moved there may be a journal alone. Where that outlives its instance,
            // it does not tell.
            let has_begun =
                books.is_ours_alone() && books.store.journal_end(&self.key).await? != Seq::START;
            let mut seen = lock(&self.seen);
            seen.version = None;
            seen.elsewhere = None;
            if has_begun {
                seen.came_back();
            }
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
            (seen.version, seen.untold(&books))
        };
        let is_kept = books.journal_limit.is_none();
        let ended = Entry::new(untold.at, None, What::Ended);
        let has_begun = version.is_some() || untold.began.is_none();
        let entries = match has_begun || untold.is_something() {
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

    /// With the pen in hand: drops what is older than what was let go of, and now and then the oldest
    /// entries. If that fails, what was written is written.
    async fn prune(&self, books: &Books<'_>, stored: Stored) {
        let most = match lock(&self.seen).is_to_be_pruned(books) {
            // It begins with how much was left out.
            _ if stored.is_cut => Some(stored.entries),
            true => books.journal_limit,
            false => None,
        };
        let Some(most) = most else { return };
        let pruned = async {
            let end = books.store.journal_end(&self.key).await?;
            let up_to = Seq(end.0.saturating_sub(most));
            books.store.prune(&self.key, up_to).await
        };
        match pruned.await {
            Ok(()) => lock(&self.seen).unpruned = 0,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "a journal could not be shortened");
            }
        }
    }
}

impl Books<'_> {
    /// Whether nobody else has the store and it dies with us, so that what is written there is for
    /// nobody but us.
    pub(super) const fn is_ours_alone(&self) -> bool {
        self.journal_limit.is_some()
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

    /// The journal says so by now, in so many entries. What has happened since waits behind it.
    fn has_told(&mut self, told: &Untold, entries: u64) {
        self.unpruned = self.unpruned.saturating_add(entries);
        self.tail = Tail::default();
        self.notes.drain(..told.notes.len());
        self.refusals -= told.refusals;
        self.unwritten.remove(told.unwritten);
    }

    /// What happened besides is not told, but how much it was.
    fn only_count(&mut self, told: &Untold) {
        self.refusals -= told.refusals;
        for note in self.notes.drain(..told.notes.len()) {
            if note.what.is_unrun() {
                self.unwritten.refusals += 1;
            } else if matches!(note.what, What::Ran { .. }) {
                self.unwritten.ran += 1;
            } else {
                self.unwritten.others += 1;
            }
        }
    }

    /// Whether what is written next makes the journal longer than it is to be.
    fn is_to_be_pruned(&self, books: &Books<'_>) -> bool {
        const NOW_AND_THEN: u64 = 256;
        books.is_ours_alone() && (self.unpruned >= NOW_AND_THEN || self.tail.is_cut())
    }

    /// It had begun before it was loaded here, and nobody knows how long its journal is.
    const fn came_back(&mut self) {
        self.began = None;
        self.unpruned = u64::MAX;
    }

    /// Whether something happened besides of which the journal does not tell.
    pub(super) fn has_notes(&self) -> bool {
        !self.notes.is_empty() || self.unwritten != Unwritten::default()
    }

    /// Puts what happened besides where the journal's other entries wait.
    #[cold]
    pub(super) fn tell_notes(&mut self, now: u64, most: u64) {
        let notes = std::mem::take(&mut self.notes);
        let unwritten = std::mem::take(&mut self.unwritten);
        self.refusals = 0;
        for note in notes.iter().chain(&unwritten.entry(now)) {
            self.tail.push(note.told(), most);
        }
    }

    /// When something happened of which the journal tells next: a call that is over at once is told of
    /// as of the time it came, and others may have ended meanwhile.
    pub(super) fn now_or_later(&mut self, now: Time) -> u64 {
        self.told_at = self.told_at.max(now.0);
        self.told_at
    }

    /// What the journal does not say yet. It stays until it is stored, for whoever writes may be dropped.
    fn untold(&mut self, books: &Books<'_>) -> Untold {
        let started = || What::Started {
            workflow: books.workflow.name().to_owned(),
            fingerprint: books.workflow.fingerprint().0,
        };
        let at = self.now_or_later(books.now);
        Untold {
            began: self
                .began
                .map(|at| Box::new(Entry::new(at, None, started()))),
            // While somebody has the pen nothing is added to it.
            tail: self.tail.clone(),
            notes: self.notes.clone(),
            refusals: self.refusals,
            unwritten: self.unwritten,
            at,
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
        self.came_back();
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
    /// When this is told: nothing of it happened later.
    at: u64,
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
}

impl Unwritten {
    const fn remove(&mut self, told: Self) {
        self.refusals -= told.refusals;
        self.ran -= told.ran;
        self.others -= told.others;
    }

    fn entry(self, now: u64) -> Option<Entry> {
        let what = What::Unwritten {
            refusals: self.refusals,
            ran: self.ran,
            others: self.others,
        };
        (self != Self::default()).then(|| Entry::new(now, None, what))
    }
}

pub(super) const fn time(now: Time) -> store::Time {
    store::Time(now.0)
}

#[cfg(test)]
mod tests;
