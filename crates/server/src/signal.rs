//! What a connection tells a call that runs.

use interlock_proto::invocation::Input;
use tokio::sync::watch;

/// What a connection tells a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signal {
    /// The client takes it back.
    pub(crate) cancel: bool,
    /// The server ends and waits no longer.
    pub(crate) shutdown: bool,
}

/// What a call hears of its connection: each thing once, the earlier first.
#[derive(Debug)]
pub(crate) struct Signals {
    signals: watch::Receiver<Signal>,
    heard: Signal,
}

impl Signals {
    /// Both ends: whoever has the first can tell the call, which has the second.
    pub(crate) fn channel() -> (watch::Sender<Signal>, Self) {
        let (signal, signals) = watch::channel(Signal::default());
        let heard = Signal::default();
        (signal, Self { signals, heard })
    }

    /// Whether the call knows that its client has taken it back.
    pub(crate) const fn has_heard_cancel(&self) -> bool {
        self.heard.cancel
    }

    /// What has been said and not been heard.
    pub(crate) fn ready(&mut self) -> Option<Input> {
        let now = *self.signals.borrow_and_update();
        if now.cancel && !self.heard.cancel {
            self.heard.cancel = true;
            return Some(Input::Cancel);
        }
        if now.shutdown && !self.heard.shutdown {
            self.heard.shutdown = true;
            return Some(Input::Shutdown);
        }
        None
    }

    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Input {
        loop {
            if let Some(input) = self.ready() {
                return input;
            }
            if self.signals.changed().await.is_err() {
                // The connection is gone, and with it whoever could say anything.
                std::future::pending::<()>().await;
            }
        }
    }
}
