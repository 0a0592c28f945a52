//! The calls of one session that have not ended.

use crate::context::cancellation::{Signal, SignalSender, Signals};
use foldhash::fast::RandomState;
use interlock_proto::{CallId, connection::Key};
use std::collections::HashMap;
use tokio::task::AbortHandle;

#[derive(Default)]
pub(super) struct Calls {
    /// Calls whose first poll is under way: one for each thread that serves the session. Most end
    /// with it and never become tasks.
    starting: Vec<(Key, SignalSender)>,
    running: HashMap<Key, RunningCall, RandomState>,
    last_id: u64,
}

struct RunningCall {
    signals: SignalSender,
    task: AbortHandle,
}

impl Calls {
    pub(super) const fn next_id(&mut self) -> CallId {
        self.last_id += 1;
        CallId(self.last_id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.starting.is_empty() && self.running.is_empty()
    }

    /// Registers a call. From now on it can be cancelled.
    pub(super) fn start(&mut self, key: Key) -> Signals {
        let signals = SignalSender::default();
        let receiver = signals.receiver();
        self.starting.push((key, signals));
        receiver
    }

    /// A starting call becomes a task. `false` if the session has aborted all calls meanwhile.
    pub(super) fn become_task(&mut self, key: &Key, spawn: impl FnOnce() -> AbortHandle) -> bool {
        let Some((key, signals)) = self.take_starting(key) else {
            return false;
        };
        let task = spawn();
        self.running.insert(key, RunningCall { signals, task });
        true
    }

    pub(super) fn signal(&self, key: &Key, signal: Signal) {
        let starting = self.starting.iter().find(|(starting, _)| starting == key);
        let starting = starting.map(|(_, signals)| signals);
        let signals = starting.or_else(|| Some(&self.running.get(key)?.signals));
        if let Some(signals) = signals {
            signals.send(signal);
        }
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if self.take_starting(key).is_none() && !self.running.is_empty() {
            self.running.remove(key);
        }
    }

    /// Removes all calls. The caller aborts their tasks without the session's lock.
    pub(super) fn take_running(&mut self) -> Vec<AbortHandle> {
        self.starting.clear();
        self.running.drain().map(|(_, call)| call.task).collect()
    }

    pub(super) fn shrink(&mut self) {
        self.starting.shrink_to_fit();
        self.running.shrink_to_fit();
    }

    fn take_starting(&mut self, key: &Key) -> Option<(Key, SignalSender)> {
        let at = self
            .starting
            .iter()
            .position(|(starting, _)| starting == key)?;
        Some(self.starting.swap_remove(at))
    }
}
