//! The signals that end a running call early.

use interlock_proto::invocation::Input;
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};
use tokio::sync::Notify;

/// Why a call should end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The client has cancelled the call.
    Cancel,
    /// The server shuts down and does not wait any longer.
    ShutDown,
}

/// A set of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SignalSet(u8);

impl SignalSet {
    const fn add(&mut self, signal: Signal) {
        self.0 |= bit(signal);
    }

    const fn has(self, signal: Signal) -> bool {
        self.0 & bit(signal) != 0
    }
}

const fn bit(signal: Signal) -> u8 {
    match signal {
        Signal::Cancel => 1,
        Signal::ShutDown => 2,
    }
}

/// What both ends share. A signal that was sent stays.
#[derive(Debug, Default)]
struct Sent {
    signals: AtomicU8,
    added: Notify,
}

/// The end that sends signals to a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignalSender(Arc<Sent>);

impl SignalSender {
    pub(crate) fn send(&self, signal: Signal) {
        self.0.signals.fetch_or(bit(signal), Ordering::AcqRel);
        self.0.added.notify_one();
    }

    /// The end that receives them.
    pub(crate) fn receiver(&self) -> Signals {
        Signals {
            sent: Arc::clone(&self.0),
            received: SignalSet::default(),
        }
    }
}

/// The end on which a call receives each signal once.
#[derive(Debug)]
pub(crate) struct Signals {
    sent: Arc<Sent>,
    received: SignalSet,
}

impl Signals {
    /// Whether the call has received [`Signal::Cancel`].
    pub(crate) const fn is_cancelled(&self) -> bool {
        self.received.has(Signal::Cancel)
    }

    /// Whether the call has received [`Signal::ShutDown`].
    pub(crate) const fn is_shutting_down(&self) -> bool {
        self.received.has(Signal::ShutDown)
    }

    /// The next signal, if one has been sent.
    pub(crate) fn ready(&mut self) -> Option<Input> {
        let sent = SignalSet(self.sent.signals.load(Ordering::Acquire));
        for (signal, input) in [
            (Signal::Cancel, Input::Cancel),
            (Signal::ShutDown, Input::Shutdown),
        ] {
            if sent.has(signal) && !self.received.has(signal) {
                self.received.add(signal);
                return Some(input);
            }
        }
        None
    }

    /// Waits for the next signal. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Input {
        loop {
            if let Some(input) = self.ready() {
                return input;
            }
            self.sent.added.notified().await;
        }
    }
}
