//! The one task that looks after instances: timers that are due, calls that were lost, journal
//! entries that are not written, handles that have expired.

use crate::{
    clock, engine::Shared, error::EngineError, instance::Instance, lock, state::State, turn::Turn,
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use interlock_proto::Time;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::Notify;

/// How many instances are looked after at once: a store that is slow for one is slow for few.
const AT_ONCE: usize = 64;

/// How long an instance waits that could not be looked after, in milliseconds.
const PAUSE: u64 = 1_000;

/// When which instance has to be looked after.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: Mutex<Queue>,
    changed: Notify,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    /// By time, then by the instance's number.
    due: BTreeMap<(u64, u64), Weak<Instance>>,
    times: HashMap<u64, u64>,
    /// When to look for handles that have expired.
    sweep: Option<u64>,
    /// Somebody looks for them now and then.
    sweeps: bool,
    /// The task runs.
    runs: bool,
    /// The engine is gone, and the task ends.
    closed: bool,
}

impl Queue {
    fn clear(&mut self, number: u64) {
        if let Some(at) = self.times.remove(&number) {
            self.due.remove(&(at, number));
        }
    }

    fn next(&self) -> Option<Time> {
        let first = self.due.keys().next().map(|(at, _)| *at);
        first.into_iter().chain(self.sweep).min().map(Time)
    }

    /// What is due now, but no more of it than that.
    fn take(&mut self, now: Time, most: usize) -> Vec<Work> {
        let mut work = Vec::new();
        if most > 0 && self.sweep.is_some_and(|at| at <= now.0) {
            self.sweep = None;
            work.push(Work::Sweep);
        }
        while work.len() < most
            && let Some(first) = self.due.first_entry()
            && first.key().0 <= now.0
        {
            let ((_, number), instance) = first.remove_entry();
            self.times.remove(&number);
            if instance.strong_count() > 0 {
                work.push(Work::Instance(instance));
            }
        }
        work
    }
}

enum Work {
    Instance(Weak<Instance>),
    /// Remove handles that have expired.
    Sweep,
}

impl Timers {
    /// A number for one more instance.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn clear(&self, number: u64) {
        lock(&self.queue).clear(number);
    }

    fn is_closed(&self) -> bool {
        lock(&self.queue).closed
    }

    /// The engine is gone.
    pub(crate) fn close(&self) {
        lock(&self.queue).closed = true;
        self.changed.notify_one();
    }
}

impl Shared {
    fn set_timer(self: &Arc<Self>, instance: &Arc<Instance>, at: u64) {
        {
            let mut queue = lock(&self.timers.queue);
            let number = instance.number;
            queue.clear(number);
            queue.times.insert(number, at);
            queue.due.insert((at, number), Arc::downgrade(instance));
        }
        self.wake_timers();
    }

    /// From then on, handles that have expired are removed now and then.
    pub(crate) fn sweep_from(self: &Arc<Self>, at: Time) {
        {
            let mut queue = lock(&self.timers.queue);
            if queue.sweeps {
                return;
            }
            queue.sweeps = true;
            queue.sweep = Some(at.0);
        }
        self.wake_timers();
    }

    /// Wakes the task, or starts it if it does not run and there is a runtime.
    fn wake_timers(self: &Arc<Self>) {
        self.timers.changed.notify_one();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        {
            let mut queue = lock(&self.timers.queue);
            if queue.runs || queue.closed {
                return;
            }
            queue.runs = true;
        }
        // Without the lock: a runtime that shuts down drops the task at once.
        let task = Task {
            shared: Arc::clone(self),
            is_done: false,
        };
        runtime.spawn(task.run());
    }

    async fn sweep_now(self: Arc<Self>) {
        let pause = match self.sweep().await {
            Ok(gone) if gone < Self::SWEPT_AT_ONCE => self.sweep_pause(),
            // There may be more.
            Ok(_) => 0,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not remove expired handles");
                self.sweep_pause()
            }
        };
        let again = self.now().0.saturating_add(pause);
        lock(&self.timers.queue).sweep = Some(again);
    }
}

/// The task, until it is done, its engine is gone, or it is dropped with its runtime.
struct Task {
    shared: Arc<Shared>,
    is_done: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_done {
            let mut queue = lock(&self.shared.timers.queue);
            queue.runs = false;
            queue.sweeps = false;
        }
    }
}

impl Task {
    async fn run(mut self) {
        let mut working = FuturesUnordered::new();
        loop {
            let shared = &self.shared;
            if shared.timers.is_closed() {
                // What has begun is finished: a journal entry may be on its way.
                while working.next().await.is_some() {}
                return;
            }
            let next = {
                let mut queue = lock(&shared.timers.queue);
                for work in queue.take(shared.now(), AT_ONCE - working.len()) {
                    working.push(perform(Arc::clone(shared), work));
                }
                let next = queue.next();
                if next.is_none() && working.is_empty() {
                    // Under the lock: the next to set a timer starts the task again.
                    queue.runs = false;
                    drop(queue);
                    self.is_done = true;
                    return;
                }
                next
            };
            let is_full = working.len() >= AT_ONCE;
            tokio::select! {
                Some(()) = working.next(), if !working.is_empty() => {}
                () = shared.timers.changed.notified(), if !is_full => {}
                () = clock::sleep_until(&*shared.clock, next), if !is_full => {}
            }
        }
    }
}

async fn perform(shared: Arc<Shared>, work: Work) {
    match work {
        Work::Instance(instance) => {
            if let Some(instance) = instance.upgrade() {
                instance.attend().await;
            }
        }
        Work::Sweep => shared.sweep_now().await,
    }
}

/// Whether an instance was looked after.
enum Attended {
    Done,
    /// A call has the turn. It lets the timers know when it is free again.
    Taken,
}

impl Instance {
    /// Does for the instance what is to be done.
    async fn attend(self: Arc<Self>) {
        {
            let mut state = lock(&self.state);
            state.armed = None;
            if state.ended {
                return;
            }
        }
        match self.look_after().await {
            Ok(Attended::Taken) => {}
            Ok(Attended::Done) => self.arm(),
            Err(error) => {
                complain(&error);
                let again = self.shared.now().0.saturating_add(PAUSE);
                let alarm = lock(&self.state).arm_at(again);
                self.set_alarm(alarm);
            }
        }
    }

    async fn look_after(self: &Arc<Self>) -> Result<Attended, EngineError> {
        let (has_notes, is_due) = {
            let state = lock(&self.state);
            let now = self.shared.now().0;
            let is_due = state.wakes_at().is_some_and(|at| at <= now);
            (state.journal.has_notes(), is_due)
        };
        if has_notes {
            self.write_journal().await?;
        }
        if is_due {
            let Some(turn) = self.turn_to_attend() else {
                return Ok(Attended::Taken);
            };
            if self.shared.effects.is_some() {
                // Effects take their time, and other instances are not to wait for them.
                tokio::spawn(catch_up(turn));
                return Ok(Attended::Taken);
            }
            turn.catch_up().await?;
        }
        Ok(Attended::Done)
    }

    /// Lets the timers look after it when something is to be done.
    pub(crate) fn arm(self: &Arc<Self>) {
        let alarm = lock(&self.state).rearm();
        if let Some(alarm) = alarm {
            self.set_alarm(alarm);
        }
    }

    pub(crate) fn set_alarm(self: &Arc<Self>, Alarm(mut at): Alarm) {
        // Another alarm may have been set in between, and the last one counts.
        loop {
            match at {
                Some(at) => self.shared.set_timer(self, at),
                None => self.shared.timers.clear(self.number),
            }
            let armed = lock(&self.state).armed;
            if armed == at {
                return;
            }
            at = armed;
        }
    }
}

/// Lets an instance catch up in a task of its own.
async fn catch_up(turn: Turn) {
    match turn.catch_up().await {
        Ok(_) => {
            let instance = Arc::clone(&turn.instance);
            drop(turn);
            instance.arm();
        }
        Err(error) => {
            // An instance that is free again would be tried at once, and again.
            complain(&error);
            let again = turn.instance.shared.now().0.saturating_add(PAUSE);
            turn.give_up(again);
        }
    }
}

fn complain(error: &EngineError) {
    if !matches!(error, EngineError::RunningElsewhere) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, "could not look after an instance");
    }
}

/// When an instance is to be looked after, or that it need not be. It is new, and has to be set.
pub(crate) struct Alarm(Option<u64>);

impl State {
    /// When the instance is to be looked after, if that is not what is set.
    pub(crate) fn rearm(&mut self) -> Option<Alarm> {
        let at = match self.journal.has_notes() {
            true => Some(0),
            false => self.wakes_at(),
        };
        let is_new = self.armed != at;
        self.armed = at;
        is_new.then_some(Alarm(at))
    }

    /// The instance is looked after then, whatever is due before.
    pub(crate) const fn arm_at(&mut self, at: u64) -> Alarm {
        self.armed = Some(at);
        Alarm(Some(at))
    }
}

#[cfg(test)]
mod tests;
