//! The one task of a server that looks after its instances: what is due, what was lost, what is
//! not written down yet.

use super::{Held, Instance, KeepError, operating::Live};
use crate::{clock, route::lock, server::Inner};
use futures_util::{StreamExt, stream::FuturesUnordered};
use interlock_proto::Time;
use std::{
    collections::{BTreeMap, HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hasher},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// How many instances are looked after at once: a store that is slow for one is slow for few.
const AT_ONCE: usize = 64;

/// How long an instance waits that could not be looked after, in milliseconds.
const PATIENCE: u64 = 1_000;

/// When which instance has to be looked after.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    owner: OnceLock<Weak<Inner>>,
    book: Mutex<Book>,
    changed: Notify,
    next: AtomicU64,
    pub(super) live: Live,
    server: Nonce,
}

/// A number that no other server has.
#[derive(Debug)]
struct Nonce(u64);

impl Default for Nonce {
    fn default() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }
}

#[derive(Debug, Default)]
struct Book {
    /// By time, then by the instance's number.
    queue: BTreeMap<(u64, u64), Weak<Instance>>,
    times: HashMap<u64, u64>,
    /// When to look for handles that have expired.
    sweep: Option<u64>,
    /// Somebody does so now and then.
    sweeps: bool,
    /// Somebody looks after it.
    attended: bool,
}

impl Book {
    fn clear(&mut self, number: u64) {
        if let Some(at) = self.times.remove(&number) {
            self.queue.remove(&(at, number));
        }
    }

    /// When the next thing is to be done.
    fn next(&self) -> Option<Time> {
        let first = self.queue.keys().next().map(|(at, _)| *at);
        first.into_iter().chain(self.sweep).min().map(Time)
    }

    /// What is to be done now, but no more of it than that.
    fn work(&mut self, now: Time, most: usize) -> Vec<Work> {
        let mut work = Vec::new();
        if most > 0 && self.sweep.is_some_and(|at| at <= now.0) {
            self.sweep = None;
            work.push(Work::Sweep);
        }
        let due = self.due(now, most - work.len()).into_iter();
        work.extend(due.filter_map(|one| one.upgrade().map(Work::Instance)));
        work
    }

    /// The instances whose time has come.
    fn due(&mut self, now: Time, most: usize) -> Vec<Weak<Instance>> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some(first) = self.queue.first_entry()
            && first.key().0 <= now.0
        {
            let ((_, number), instance) = first.remove_entry();
            self.times.remove(&number);
            due.push(instance);
        }
        due
    }
}

/// Something to be looked after.
enum Work {
    Instance(Arc<Instance>),
    /// The handles that have expired.
    Sweep,
}

impl Alarms {
    /// Whose instances they are.
    pub(super) fn owner(&self) -> Weak<Inner> {
        self.owner.get().cloned().unwrap_or_default()
    }

    /// Says whose instances they are.
    pub(crate) fn belong_to(&self, owner: Weak<Inner>) {
        let _ = self.owner.set(owner);
    }

    /// A number for the server, as long as it runs.
    pub(super) const fn server(&self) -> u64 {
        self.server.0
    }

    /// A number for one more instance.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn clear(&self, number: u64) {
        lock(&self.book).clear(number);
    }

    fn set(&self, instance: &Arc<Instance>, at: u64) {
        let begin = {
            let mut book = lock(&self.book);
            let number = instance.number;
            book.clear(number);
            book.times.insert(number, at);
            book.queue.insert((at, number), Arc::downgrade(instance));
            !std::mem::replace(&mut book.attended, true)
        };
        self.changed.notify_one();
        if begin {
            self.attend();
        }
    }

    /// From then on, somebody looks now and then for handles that have expired.
    pub(crate) fn sweep_from(&self, at: Time) {
        let begin = {
            let mut book = lock(&self.book);
            if book.sweeps {
                return;
            }
            book.sweeps = true;
            book.sweep = Some(at.0);
            !std::mem::replace(&mut book.attended, true)
        };
        self.changed.notify_one();
        if begin {
            self.attend();
        }
    }

    /// Lets somebody look after it for as long as there is anything to look after.
    fn attend(&self) {
        let owner = self.owner();
        let inner = owner.upgrade();
        let runtime = tokio::runtime::Handle::try_current();
        match (inner, runtime) {
            (Some(inner), Ok(runtime)) => {
                let attendance = Attendance {
                    alarms: Arc::clone(&inner.alarms),
                    is_done: false,
                };
                runtime.spawn(attend(attendance, owner));
            }
            // The server is gone, or nobody runs anything.
            (Some(_) | None, Ok(_) | Err(_)) => lock(&self.book).attended = false,
        }
    }

    /// The server is gone, and so is whoever looks after its instances.
    pub(crate) fn close(&self) {
        self.changed.notify_one();
    }
}

/// Somebody who looks after things, until it is done or dropped with its runtime.
struct Attendance {
    alarms: Arc<Alarms>,
    is_done: bool,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if !self.is_done {
            let mut book = lock(&self.alarms.book);
            book.attended = false;
            book.sweeps = false;
        }
    }
}

async fn attend(mut attendance: Attendance, owner: Weak<Inner>) {
    let alarms = Arc::clone(&attendance.alarms);
    let mut working = FuturesUnordered::new();
    loop {
        let Some(inner) = owner.upgrade() else {
            return;
        };
        let clock = Arc::clone(&inner.clock);
        let next = {
            let mut book = lock(&alarms.book);
            let most = AT_ONCE - working.len();
            for work in book.work(clock.now(), most) {
                working.push(look_to(Arc::clone(&inner), work));
            }
            let next = book.next();
            if next.is_none() && working.is_empty() {
                // With the book in hand: whoever comes next finds nobody, and calls somebody.
                book.attended = false;
                attendance.is_done = true;
                return;
            }
            next
        };
        // Whoever is waited for must not keep the server.
        drop(inner);
        let is_full = working.len() >= AT_ONCE;
        tokio::select! {
            Some(()) = working.next(), if !working.is_empty() => {}
            () = alarms.changed.notified(), if !is_full => {}
            () = clock::sleep_until(&*clock, next), if !is_full => {}
        }
    }
}

async fn look_to(inner: Arc<Inner>, work: Work) {
    match work {
        Work::Instance(instance) => look_after(inner, instance).await,
        Work::Sweep => sweep(&inner).await,
    }
}

/// Removes some handles that have expired, and arranges when to look again: at once if there may be
/// more.
async fn sweep(inner: &Inner) {
    let pause = match inner.sweep_handles().await {
        Ok(Swept::Some) => 0,
        Ok(Swept::All) => inner.sweep_pause(),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "handles that have expired could not be removed");
            inner.sweep_pause()
        }
    };
    let again = inner.clock.now().0.saturating_add(pause);
    lock(&inner.alarms.book).sweep = Some(again);
}

/// What is left of the handles that have expired.
pub(crate) enum Swept {
    /// Nothing.
    All,
    /// Perhaps more.
    Some,
}

/// Does for an instance what is to be done.
async fn look_after(inner: Arc<Inner>, instance: Arc<Instance>) {
    {
        let mut seen = lock(&instance.seen);
        seen.armed = None;
        if seen.ended {
            return;
        }
    }
    let looked_after = instance.look_after(&inner).await;
    look_again(&inner, &instance, looked_after);
}

/// Arranges when an instance is looked after the next time.
fn look_again(inner: &Inner, instance: &Arc<Instance>, looked_after: Result<Turned, KeepError>) {
    match looked_after {
        // Whoever has the turn says so when it is free again.
        Ok(Turned::Taken) => {}
        Ok(Turned::Done) => instance.arm(),
        Err(error) => {
            complain(&error);
            instance.arm_at(inner.clock.now().0.saturating_add(PATIENCE));
        }
    }
}

fn complain(error: &KeepError) {
    if !matches!(error, KeepError::RunningElsewhere) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, "an instance could not be looked after");
    }
}

/// Lets an instance catch up in a task of its own.
async fn catch_up(inner: Arc<Inner>, instance: Arc<Instance>, held: Held) {
    let Some(workflow) = &inner.workflow else {
        return;
    };
    match held.catch_up(inner.books(workflow)).await {
        Ok(_) => {
            drop(held);
            look_again(&inner, &instance, Ok(Turned::Done));
        }
        Err(error) => {
            // Whoever is told that the instance is free would try at once, and again.
            complain(&error);
            held.give_up(inner.clock.now().0.saturating_add(PATIENCE));
        }
    }
}

enum Turned {
    Done,
    /// Somebody else has the turn.
    Taken,
}

impl Instance {
    async fn look_after(self: &Arc<Self>, inner: &Arc<Inner>) -> Result<Turned, KeepError> {
        let Some(workflow) = &inner.workflow else {
            return Ok(Turned::Done);
        };
        let books = inner.books(workflow);
        let (has_notes, moves) = {
            let seen = lock(&self.seen);
            let due = seen.wakes_at().is_some_and(|at| at <= books.now.0);
            (seen.has_notes(), due)
        };
        if has_notes {
            self.write_untold(&books).await?;
        }
        if moves {
            let Some(held) = self.turn_to_attend() else {
                return Ok(Turned::Taken);
            };
            if inner.effects.is_some() {
                // Effects take their time, and nobody else is to wait for them.
                tokio::spawn(catch_up(Arc::clone(inner), Arc::clone(self), held));
                return Ok(Turned::Taken);
            }
            held.catch_up(books).await?;
        }
        Ok(Turned::Done)
    }

    /// Lets somebody look after it when something is to be done.
    pub(super) fn arm(self: &Arc<Self>) {
        let change = lock(&self.seen).rearm();
        if let Some(change) = change {
            self.arrange(change);
        }
    }

    pub(super) fn arrange(self: &Arc<Self>, Arranged(mut at): Arranged) {
        // Somebody else may have arranged something in between, and what was arranged last counts.
        loop {
            match at {
                Some(at) => self.alarms.set(self, at),
                None => self.alarms.clear(self.number),
            }
            let armed = lock(&self.seen).armed;
            if armed == at {
                return;
            }
            at = armed;
        }
    }

    pub(super) fn arm_at(self: &Arc<Self>, at: u64) {
        lock(&self.seen).armed = Some(at);
        self.alarms.set(self, at);
    }
}

/// When somebody is to look after an instance, be it never, and that this is new.
pub(super) struct Arranged(Option<u64>);

impl super::Seen {
    /// When somebody is to look after it, if that is not what is arranged. Whoever asks arranges it.
    pub(super) fn rearm(&mut self) -> Option<Arranged> {
        let at = if self.has_notes() {
            Some(0)
        } else {
            self.wakes_at()
        };
        let is_new = self.armed != at;
        self.armed = at;
        is_new.then_some(Arranged(at))
    }

    /// When the instance moves by itself.
    fn wakes_at(&self) -> Option<u64> {
        if self.ended {
            return None;
        }
        if self.lost.is_some() {
            return Some(0);
        }
        if let Some(elsewhere) = &self.elsewhere {
            return Some(elsewhere.until);
        }
        let run = self.known.run();
        run.due().filter(|_| run.held().is_none())
    }
}
