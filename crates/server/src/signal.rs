//! What a connection tells a call that runs.

use interlock_proto::invocation::Input;
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};
use tokio::sync::Notify;

/// One thing that a call can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The client takes the call back.
    Cancel,
    /// The server ends and waits no longer.
    ShutDown,
}

/// Several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said(u8);

impl Said {
    pub(crate) const fn add(&mut self, signal: Signal) {
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

/// What a call has been told. It cannot be taken back.
#[derive(Debug)]
struct Told {
    things: AtomicU8,
    more: Notify,
}

/// The end that tells a call something.
#[derive(Clone, Debug)]
pub(crate) struct Teller(Arc<Told>);

impl Teller {
    pub(crate) fn tell(&self, signal: Signal) {
        self.0.things.fetch_or(bit(signal), Ordering::AcqRel);
        self.0.more.notify_one();
    }
}

/// What a call hears of its connection: each thing once, the earlier first. Nobody tells it anything
/// until it has to wait for something.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    told: Option<Arc<Told>>,
    heard: Said,
}

impl Signals {
    /// Both ends: whoever has the first can tell the call, which has the second. Some things may
    /// have been said already.
    pub(crate) fn channel(said: Said) -> (Teller, Self) {
        let told = Arc::new(Told {
            things: AtomicU8::new(said.0),
            more: Notify::new(),
        });
        let signals = Self {
            told: Some(Arc::clone(&told)),
            heard: Said::default(),
        };
        (Teller(told), signals)
    }

    /// Whether the call knows that its client has taken it back.
    pub(crate) const fn has_heard_cancel(&self) -> bool {
        self.heard.has(Signal::Cancel)
    }

    /// Whether the call knows that the server waits no longer.
    pub(crate) const fn has_heard_shut_down(&self) -> bool {
        self.heard.has(Signal::ShutDown)
    }

    /// What has been said and not been heard.
    pub(crate) fn ready(&mut self) -> Option<Input> {
        let told = Said(self.told.as_ref()?.things.load(Ordering::Acquire));
        for (signal, input) in [
            (Signal::Cancel, Input::Cancel),
            (Signal::ShutDown, Input::Shutdown),
        ] {
            if told.has(signal) && !self.heard.has(signal) {
                self.heard.add(signal);
                return Some(input);
            }
        }
        None
    }

    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Input {
        loop {
            if let Some(input) = self.ready() {
                return input;
            }
            match &self.told {
                Some(told) => told.more.notified().await,
                None => std::future::pending().await,
            }
        }
    }
}
