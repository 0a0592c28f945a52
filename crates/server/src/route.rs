//! Where messages for a client go, and in which bounds.
//!
//! On stdio everything shares one [`Outlet`]; over HTTP each request has a stream of its own. What
//! is answered to a member of a batch is gathered until the batch is complete.

use crate::{
    bell::{Bell, Ear},
    http::{exchange::Exchange, feed::Feed},
    note::Note,
    outbox::Outbox,
};
use interlock_proto::{RpcCode, batch::Answers};
use std::{
    collections::BTreeSet,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// Where the messages of a request go.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// To the one stream that all requests of a connection share.
    Shared(Arc<Outlet>),
    /// To a stream that many messages share and that no answer ends.
    Feed(Arc<Feed>),
    /// To a stream of its own.
    Own(Arc<Exchange>),
    /// To the same place as its batch; the answer waits for the others.
    Batch(Arc<Gathering>),
}

/// What an answer is besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// A result.
    Result,
    /// An error with this code.
    Error(RpcCode),
}

impl Route {
    /// Writes the one answer to a request.
    pub(crate) fn answer(&self, tone: Tone, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Shared(outlet) => outlet.append(write),
            Self::Feed(feed) => feed.answer(line(write)),
            Self::Own(exchange) => exchange.answer(tone, line(write)),
            Self::Batch(gathering) => gathering.answered(&line(write)),
        }
    }

    /// As [`answer`](Self::answer), with a line that is written already.
    pub(crate) fn answer_with(&self, tone: Tone, written: Vec<u8>) {
        match self {
            Self::Own(exchange) => exchange.answer(tone, without_end(written)),
            Self::Shared(_) | Self::Feed(_) | Self::Batch(_) => {
                self.answer(tone, |out| out.extend(written));
            }
        }
    }

    /// The request gets no answer: its client took it back.
    pub(crate) fn silent(&self) {
        match self {
            Self::Shared(outlet) => outlet.wake(),
            Self::Feed(_) => {}
            Self::Own(exchange) => exchange.end(),
            Self::Batch(gathering) => gathering.suppressed(),
        }
    }

    /// Makes whoever writes look again.
    pub(crate) fn wake(&self) {
        match self {
            Self::Shared(outlet) => outlet.wake(),
            Self::Feed(_) | Self::Own(_) | Self::Batch(_) => {}
        }
    }

    /// Writes something that is no answer. Over HTTP it may be let go of if nobody reads.
    pub(crate) fn say(&self, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Shared(outlet) => outlet.append(write),
            Self::Feed(feed) => feed.say(line(write)),
            Self::Own(exchange) => exchange.say(line(write)),
            Self::Batch(gathering) => gathering.to.say(write),
        }
    }

    /// Writes something that is no answer and that somebody waits for: it stays until it is read.
    pub(crate) fn insist(&self, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Shared(outlet) => outlet.append(write),
            Self::Feed(feed) => feed.insist(line(write)),
            Self::Own(exchange) => exchange.insist(line(write)),
            Self::Batch(gathering) => gathering.to.insist(write),
        }
    }

    /// Tells of a change, once, however often it happens before the client reads.
    pub(crate) fn note(&self, note: Note) {
        match self {
            Self::Shared(outlet) => outlet.note(note),
            Self::Feed(feed) => feed.note(note),
            Self::Own(exchange) => exchange.note(note),
            Self::Batch(gathering) => gathering.to.note(note),
        }
    }

    /// Does not tell of a change if that has not been done yet.
    pub(crate) fn take_back(&self, note: &Note) {
        match self {
            Self::Shared(outlet) => {
                lock(&outlet.inside).notes.remove(note);
            }
            Self::Feed(feed) => feed.take_back(note),
            Self::Own(exchange) => exchange.take_back(note),
            Self::Batch(gathering) => gathering.to.take_back(note),
        }
    }

    /// Sends the client away for a while, where it can come back for the rest.
    pub(crate) fn hang_up(&self) {
        match self {
            Self::Own(exchange) => exchange.hang_up(),
            Self::Shared(_) | Self::Feed(_) | Self::Batch(_) => {}
        }
    }

    /// Waits until there is room for more.
    pub(crate) async fn room(&self) {
        let direct = match self {
            Self::Batch(gathering) => &gathering.to,
            Self::Shared(_) | Self::Feed(_) | Self::Own(_) => self,
        };
        match direct {
            Self::Shared(outlet) => outlet.room().await,
            Self::Feed(feed) => feed.room().await,
            Self::Own(exchange) => exchange.room().await,
            // There are no batches of batches.
            Self::Batch(_) => {}
        }
    }
}

fn line(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut line = Vec::new();
    write(&mut line);
    without_end(line)
}

/// Over HTTP a message needs no line's end.
fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    while line.last().is_some_and(u8::is_ascii_whitespace) {
        line.pop();
    }
    line
}

/// The answers to a batch, until they are complete.
#[derive(Debug)]
pub(crate) struct Gathering {
    answers: Mutex<Option<Answers>>,
    to: Route,
}

impl Gathering {
    /// Where the members of a batch are answered, if any of them is.
    pub(crate) fn route(answers: Answers, to: Route) -> Option<Route> {
        if answers.is_complete() {
            return None;
        }
        Some(Route::Batch(Arc::new(Self {
            answers: Mutex::new(Some(answers)),
            to,
        })))
    }

    fn answered(&self, message: &[u8]) {
        self.change(|answers| answers.answered(message));
    }

    fn suppressed(&self) {
        self.change(Answers::suppressed);
    }

    fn change(&self, change: impl FnOnce(&mut Answers)) {
        let complete = {
            let mut answers = lock(&self.answers);
            if let Some(answers) = answers.as_mut() {
                change(answers);
            }
            answers.take_if(|answers| answers.is_complete())
        };
        let Some(complete) = complete else { return };
        match complete.finish() {
            Some(line) => self.to.answer(Tone::Result, |out| {
                out.extend(line);
                out.push(b'\n');
            }),
            None => self.to.silent(),
        }
    }
}

/// What everybody on a connection writes to, and one loop takes from.
#[derive(Debug, Default)]
pub(crate) struct Outlet {
    inside: Mutex<Inside>,
    /// There is no room, as whoever changed that saw it last.
    is_full: AtomicBool,
    /// The loop is at work, and looks before it waits again. It says so without the lock, and takes
    /// it back under it: whoever appends under the lock and finds it so has done that before the look.
    attended: AtomicBool,
    /// There is something to take, or to look at.
    bell: Arc<Bell>,
    /// There is room again.
    room: Notify,
}

#[derive(Debug, Default)]
struct Inside {
    lines: Vec<u8>,
    notes: BTreeSet<Note>,
    /// How much the loop has taken and not yet written.
    unwritten: usize,
    /// Nobody reads any more.
    gone: bool,
}

impl Inside {
    fn has_room(&self) -> bool {
        self.gone || self.lines.len() + self.unwritten < Outbox::ENOUGH
    }
}

impl Outlet {
    fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut inside = lock(&self.inside);
        if !inside.gone {
            write(&mut inside.lines);
        }
        let attended = self.attended.load(Ordering::Relaxed);
        self.keep_in_mind(&inside);
        drop(inside);
        if !attended {
            self.bell.ring();
        }
    }

    fn note(&self, note: Note) {
        let mut inside = lock(&self.inside);
        if !inside.gone {
            inside.notes.insert(note);
        }
        drop(inside);
        self.bell.ring();
    }

    /// Makes the loop look again.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    /// For the loop, which hears when somebody wrote something or woke it.
    pub(crate) fn ear(&self) -> Ear {
        Ear::of(Arc::clone(&self.bell))
    }

    /// The loop is at work: it need not be woken until it has [taken](Self::take) what is there.
    pub(crate) fn attend(&self) {
        self.attended.store(true, Ordering::Relaxed);
    }

    /// Hands everything to the loop that writes it, unless that has something left to write: then
    /// it stays where it is, and nothing is copied. Whether nothing stays.
    pub(crate) fn take(&self, outbox: &mut Outbox) -> bool {
        let mut inside = lock(&self.inside);
        self.attended.store(false, Ordering::Relaxed);
        if !outbox.is_empty() {
            return false;
        }
        let had_room = inside.has_room();
        mem::swap(outbox.lines(), &mut inside.lines);
        if outbox.has_room() {
            for note in mem::take(&mut inside.notes) {
                note.write(outbox.lines());
            }
        }
        // What is little is mostly written at once; if not, the loop says how much is left.
        inside.unwritten = if had_room { 0 } else { outbox.len() };
        self.keep_in_mind(&inside);
        if !had_room && inside.has_room() {
            self.room.notify_waiters();
        }
        inside.notes.is_empty()
    }

    /// So much of what the loop took is left to be written.
    pub(crate) fn left(&self, unwritten: usize) {
        let mut inside = lock(&self.inside);
        let had_room = inside.has_room();
        inside.unwritten = unwritten;
        self.keep_in_mind(&inside);
        if !had_room && inside.has_room() {
            self.room.notify_waiters();
        }
    }

    /// Whether more may be taken in, which may lead to more lines.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Acquire)
    }

    fn keep_in_mind(&self, inside: &Inside) {
        let is_full = !inside.has_room();
        if self.is_full.load(Ordering::Relaxed) != is_full {
            self.is_full.store(is_full, Ordering::Release);
        }
    }

    /// Whether everything has been handed over.
    pub(crate) fn is_empty(&self) -> bool {
        let inside = lock(&self.inside);
        inside.lines.is_empty() && inside.notes.is_empty()
    }

    /// From now on everything is thrown away: nobody reads.
    pub(crate) fn give_up(&self) {
        let mut inside = lock(&self.inside);
        *inside = Inside {
            gone: true,
            ..Inside::default()
        };
        self.keep_in_mind(&inside);
        drop(inside);
        self.room.notify_waiters();
        self.bell.ring();
    }

    async fn room(&self) {
        loop {
            let room = self.room.notified();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }
}

/// A panic while the lock was held left plain data behind, and it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
