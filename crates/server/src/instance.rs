//! Workflow instances: where each stands, whose turn it is, and what the store knows of it.
//!
//! The store is the truth; the snapshot here is what was last seen of it. A call that can move an
//! instance first takes its turn and writes "running call N" by compare-and-swap, so that a
//! process that dies leaves a trace of what it was doing.
//!
//! A server to which no store was given keeps its instances in memory that nobody else has and that
//! dies with it. There a session's instance is the truth itself: a call that is over at once leaves
//! no such trace, and a step changes nothing but what is in memory. Record and journal follow when an
//! operator looks at them, and before the instance leaves memory. Nobody can tell the difference, but
//! an operator who looks at the very moment in which such a call runs, or too seldom: entries that are
//! older than the journal is long are counted instead of numbered.
//!
//! | File | Holds |
//! |---|---|
//! | `turn.rs` | whoever may move an instance, and how it is moved |
//! | `at_once.rs` | the same for calls that need not wait |
//! | `keeping.rs` | writing and reading, with the journal |
//! | `tail.rs` | the end of a journal that is not stored yet |
//! | `known.rs` | what is known of an instance, and shown without its lock |
//! | `stored.rs` | the record as it is stored |
//! | `effects.rs` | what a step sets off |
//! | `approving.rs` | what operators are asked about calls |
//! | `asking.rs` | what a state asks the client's model |
//! | `operating.rs` | what operators see and decide |
//! | `alarms.rs` | the one task that looks after what is due |
//! | `leased.rs` | instances that belong to no session |

mod alarms;
mod approving;
mod asking;
mod at_once;
mod effects;
mod keeping;
mod known;
mod leased;
mod operating;
mod stored;
mod tail;
mod turn;

pub(crate) use alarms::{Alarms, Swept};
pub(crate) use asking::Asker;
pub(crate) use at_once::{Brief, Judged};
pub(crate) use keeping::{Books, KeepError};
pub(crate) use leased::Lease;
pub(crate) use operating::{Decision, Disobeyed, Found, Order, key_of, look_up};
pub(crate) use stored::Made;
pub(crate) use turn::{Held, Marked, Moved, Turn};

use crate::{
    approval::ApprovalRequest,
    baton::{Baton, Bears, Grip, Lone},
    journal::{Entry, What},
    note::News,
    peer::Peer,
    route::lock,
    standing::Named,
};
use interlock_proto::{Time, refusal::shortened};
use interlock_store::{self as store, Key, Version};
use interlock_workflow::{
    Busy, Call, Instance as Run, Kind, Pass, Position, Refused, Visibility, Workflow,
};
use known::{Known, Shown};
use std::sync::{Arc, Mutex, Weak};
use stored::{Running, Text};
use tail::Tail;

/// Under which kind instances are stored.
pub(crate) const KIND: store::Kind = store::Kind::from_static("instance");

/// How many calls that did not run wait to be written down. Whoever is refused faster than that is
/// counted.
const MOST_REFUSALS: usize = 64;

/// How much waits in all, with the calls that moved nothing. What ends faster than that is counted.
const MOST_RUNS: usize = 1_024;

/// One run through a workflow.
#[derive(Debug)]
pub(crate) struct Instance {
    named: Named,
    key: Key,
    /// Which one it is for those who look after what is due.
    number: u64,
    turn: Baton<Self>,
    /// Held while something is written, so that the journal is in order.
    pen: Arc<Lone>,
    seen: Mutex<Seen>,
    /// What is shown of it to those who need not lock it.
    shown: Arc<Shown>,
    watchers: Mutex<Vec<Weak<Peer>>>,
    alarms: Arc<Alarms>,
    /// For whom it is kept, if it is behind a handle.
    lease: Option<Lease>,
}

/// What was last seen of the record, and what is not written yet.
#[derive(Debug)]
struct Seen {
    known: Known,
    /// The record that says so, as it was written here.
    text: Option<Text>,
    version: Option<Version>,
    /// The record says less than what is known here, and follows: see [`Instance::write_record`].
    is_behind: bool,
    calls: u64,
    /// Another number whenever it has changed: each call that begins and each step that is taken
    /// counts on from one that no other server begins with, so that none comes again.
    edition: u64,
    /// What operators are asked about its calls, as it is.
    asked: Vec<ApprovalRequest>,
    /// How many journal entries have been stored since it was last made as short as it is to be.
    unpruned: u64,
    /// When what the journal told last happened.
    told_at: u64,
    /// When it began, until that is written down.
    began: Option<u64>,
    /// A call that had its turn here and never ended: its task was dropped.
    lost: Option<Running>,
    /// A call that somebody else wrote down and has not ended yet.
    elsewhere: Option<Running>,
    /// The end of the journal, of which the store does not know yet.
    tail: Tail,
    /// What happened besides and changed nothing: refusals, calls that could not move it or paused,
    /// effects.
    notes: Vec<Entry>,
    /// How many of these tell of calls that did not run.
    refusals: usize,
    unwritten: Unwritten,
    /// Whoever has the turn is no call.
    attended: bool,
    /// When somebody looks after it, if that is arranged.
    armed: Option<u64>,
    /// It has been forgotten with its session.
    ended: bool,
}

/// How much happened that is not written down: there was no room for it, or the store had failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unwritten {
    refusals: u64,
    ran: u64,
    others: u64,
}

impl Instance {
    /// A new one, whoever else has one of this id.
    #[cfg(test)]
    pub(crate) fn new(
        id: impl Into<Arc<str>>,
        workflow: &Workflow,
        alarms: &Arc<Alarms>,
        now: Time,
    ) -> Arc<Self> {
        let instance = Self::with_lease(id.into(), workflow, alarms, now, None);
        alarms.live.enter(&instance);
        instance
    }

    /// The one of this id, or a new one at the beginning if nobody has it in memory: calls of one
    /// instance take turns, whoever came by it in whatever way. Its id must be hard to guess unless
    /// everybody shares it.
    pub(crate) fn shared(
        id: impl Into<Arc<str>>,
        workflow: &Workflow,
        alarms: &Arc<Alarms>,
        now: Time,
    ) -> Arc<Self> {
        let instance = Self::with_lease(id.into(), workflow, alarms, now, None);
        alarms.live.share(instance)
    }

    /// The one behind a handle, or a new one if nobody has it in memory.
    pub(crate) fn behind_handle(
        id: &str,
        workflow: &Workflow,
        alarms: &Arc<Alarms>,
        now: Time,
        lease: Lease,
    ) -> Arc<Self> {
        let instance = Self::with_lease(id.into(), workflow, alarms, now, Some(lease));
        alarms.live.share(instance)
    }

    fn with_lease(
        id: Arc<str>,
        workflow: &Workflow,
        alarms: &Arc<Alarms>,
        now: Time,
        lease: Option<Lease>,
    ) -> Arc<Self> {
        let key = Key::new(KIND, Arc::clone(&id)).expect("our own ids are short and printable");
        let known = Known::new(workflow.start(now.0));
        Arc::new(Self {
            named: Named::new(id),
            key,
            number: alarms.number(),
            turn: Baton::default(),
            pen: Arc::default(),
            shown: Arc::clone(known.shown()),
            seen: Mutex::new(Seen {
                known,
                text: None,
                version: None,
                is_behind: false,
                calls: 0,
                edition: alarms.server(),
                asked: Vec::new(),
                unpruned: 0,
                told_at: 0,
                began: Some(now.0),
                lost: None,
                elsewhere: None,
                tail: Tail::default(),
                notes: Vec::new(),
                refusals: 0,
                unwritten: Unwritten::default(),
                attended: false,
                armed: None,
                ended: false,
            }),
            watchers: Mutex::default(),
            alarms: Arc::clone(alarms),
            lease,
        })
    }

    /// The one of this id, if it is in memory.
    pub(crate) fn live(id: &str, alarms: &Alarms) -> Option<Arc<Self>> {
        alarms.live.get(id)
    }

    pub(crate) const fn id(&self) -> &Arc<str> {
        &self.named.id
    }

    pub(crate) const fn named(&self) -> &Named {
        &self.named
    }

    pub(crate) fn position(&self) -> Position {
        self.shown.position()
    }

    /// When the call must be over that runs elsewhere, if one does.
    pub(crate) fn busy_until(&self) -> Option<Time> {
        let seen = lock(&self.seen);
        seen.elsewhere.as_ref().map(|running| Time(running.until))
    }

    /// What the model has to know of a call that may have taken effect: it is told once.
    pub(crate) fn tell_unclear(&self) -> Option<String> {
        if !self.shown.is_unclear() {
            return None;
        }
        let unclear = lock(&self.seen).known.set_unclear(None)?;
        Some(unclear.told())
    }

    /// All there is to know about it, as it is now.
    pub(crate) fn run(&self) -> Arc<Run> {
        Arc::clone(lock(&self.seen).known.run())
    }

    /// Whether a call may run as things stand. What the state does not bind is refused without a
    /// look at the memory, and so is nothing that no guard has a say in.
    pub(crate) fn judge<'w>(
        &self,
        workflow: &'w Workflow,
        call: &Call<'_>,
    ) -> Result<Pass<'w>, Refused<'w>> {
        match workflow.admit(self.position(), call.kind, call.name)? {
            Pass::Bound(binding) if binding.is_conditional() => workflow.judge(&self.run(), call),
            pass @ (Pass::Bound(_) | Pass::Always) => Ok(pass),
        }
    }

    /// Waits for its turn, or takes no for an answer. `None`: another call holds the instance.
    pub(crate) async fn turn(self: Arc<Self>, busy: Busy) -> Option<Held> {
        let leaves = Leaves(Some(Arc::clone(&self)));
        let grip = match busy {
            Busy::Wait => Grip::take(&self).await,
            Busy::Refuse => {
                let (grip, attended) = {
                    let seen = lock(&self.seen);
                    (Grip::try_take(&self), seen.attended)
                };
                match grip {
                    Some(grip) => grip,
                    // No call holds it, and whoever does is done soon.
                    None if attended => Grip::take(&self).await,
                    None => return None,
                }
            }
        };
        leaves.stay();
        grip.keep();
        Some(Held::new(self))
    }

    /// The turn for whoever looks after the instance, unless a call has it.
    fn turn_to_attend(self: &Arc<Self>) -> Option<Held> {
        // Whoever finds the turn taken finds out by whom at the same moment.
        let mut seen = lock(&self.seen);
        let is_ours = self.turn.try_take();
        seen.attended |= is_ours;
        drop(seen);
        is_ours.then(|| Held::new(Arc::clone(self)))
    }

    /// Remembers that a call was refused.
    pub(crate) fn refused(
        self: &Arc<Self>,
        now: Time,
        kind: Kind,
        name: &str,
        (code, why): (u16, &str),
    ) {
        self.did_not_run(now, || What::Refused {
            kind,
            name: shortened(name),
            code,
            why: why.chars().take(MOST_WORDS).collect(),
        });
    }

    /// Remembers that a call was taken back before it ran.
    pub(crate) fn taken_back(self: &Arc<Self>, now: Time, kind: Kind, name: &str) {
        self.did_not_run(now, || What::TakenBack {
            kind,
            name: shortened(name),
        });
    }

    /// Remembers that a handler paused which could not move it, until somebody writes it down. Nobody
    /// waits for that.
    pub(crate) fn paused(self: &Arc<Self>, now: Time, paused: What) {
        {
            let mut seen = lock(&self.seen);
            if seen.notes.len() >= MOST_RUNS {
                seen.unwritten.others += 1;
                return;
            }
            let at = seen.now_or_later(now);
            seen.notes.push(Entry::new(at, None, paused));
        }
        self.arm();
    }

    /// Remembers that a call did not run, until somebody writes it down. Nobody waits for that.
    fn did_not_run(self: &Arc<Self>, now: Time, what: impl FnOnce() -> What) {
        {
            let mut seen = lock(&self.seen);
            if seen.refusals >= MOST_REFUSALS || seen.notes.len() >= MOST_RUNS {
                seen.unwritten.refusals += 1;
                return;
            }
            seen.refusals += 1;
            let at = seen.now_or_later(now);
            seen.notes.push(Entry::new(at, None, what()));
        }
        self.arm();
    }

    /// From now on, the client hears of lists that others change.
    pub(crate) fn watch(&self, peer: &Arc<Peer>) {
        let mut watchers = lock(&self.watchers);
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Arc::downgrade(peer));
    }

    /// Tells every client but the caller.
    pub(crate) fn tell_others(
        &self,
        caller: Option<&Arc<Peer>>,
        kinds: impl Iterator<Item = Kind> + Clone,
    ) {
        let watchers: Vec<_> = {
            let watchers = lock(&self.watchers);
            watchers.iter().filter_map(Weak::upgrade).collect()
        };
        let others = watchers
            .iter()
            .filter(|peer| !caller.is_some_and(|caller| Arc::ptr_eq(peer, caller)));
        for peer in others {
            for kind in kinds.clone() {
                peer.hear(&News::List(kind.into()));
            }
        }
    }

    /// Tells every client of the lists that changed without a caller.
    pub(crate) fn tell_all(&self, workflow: &Workflow, before: Position, after: Position) {
        if workflow.settings().visibility == Visibility::Dynamic {
            let kinds = workflow.lists_differ(before, after);
            self.tell_others(None, kinds.collect::<Vec<_>>().into_iter());
        }
    }
}

impl Bears for Instance {
    fn baton(&self) -> &Baton<Self> {
        &self.turn
    }
}

impl Seen {
    /// Which call the next one is.
    const fn next_call(&self) -> u64 {
        self.calls.saturating_add(1)
    }
}

/// Somebody who waits for its turn. If it goes away just when it was its turn, whoever looked after
/// what is due may have found the instance taken: it is told that the instance is free again.
struct Leaves(Option<Arc<Instance>>);

impl Leaves {
    fn stay(mut self) {
        self.0 = None;
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(instance) = &self.0 {
            instance.arm();
        }
    }
}

/// How many characters of a refusal the journal keeps.
const MOST_WORDS: usize = 256;

impl Drop for Instance {
    fn drop(&mut self) {
        if lock(&self.seen).armed.is_some() {
            self.alarms.clear(self.number);
        }
        self.alarms.live.leave(self.id());
    }
}
