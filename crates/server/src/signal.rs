//! What a connection tells a call that runs.

use interlock_proto::invocation::Input;
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};
use tokio::sync::Notify;

/// The client takes the call back.
const CANCEL: u8 = 1;
/// The server ends and waits no longer.
const SHUTDOWN: u8 = 2;

/// What a call has been told. It cannot be taken back.
#[derive(Debug, Default)]
struct Told {
    things: AtomicU8,
    more: Notify,
}

/// The end that tells a call something.
#[derive(Clone, Debug)]
pub(crate) struct Teller(Arc<Told>);

impl Teller {
    /// The client takes the call back.
    pub(crate) fn cancel(&self) {
        self.tell(CANCEL);
    }

    /// The server ends and waits no longer.
    pub(crate) fn shut_down(&self) {
        self.tell(SHUTDOWN);
    }

    fn tell(&self, thing: u8) {
        self.0.things.fetch_or(thing, Ordering::AcqRel);
        self.0.more.notify_one();
    }
}

/// What a call hears of its connection: each thing once, the earlier first.
#[derive(Debug)]
pub(crate) struct Signals {
    told: Arc<Told>,
    heard: u8,
}

impl Signals {
    /// Both ends: whoever has the first can tell the call, which has the second.
    pub(crate) fn channel() -> (Teller, Self) {
        let told = Arc::<Told>::default();
        let teller = Teller(Arc::clone(&told));
        (teller, Self { told, heard: 0 })
    }

    /// Whether the call knows that its client has taken it back.
    pub(crate) const fn has_heard_cancel(&self) -> bool {
        self.heard & CANCEL != 0
    }

    /// What has been said and not been heard.
    pub(crate) fn ready(&mut self) -> Option<Input> {
        let new = self.told.things.load(Ordering::Acquire) & !self.heard;
        if new & CANCEL != 0 {
            self.heard |= CANCEL;
            return Some(Input::Cancel);
        }
        if new & SHUTDOWN != 0 {
            self.heard |= SHUTDOWN;
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
            self.told.more.notified().await;
        }
    }
}
