//! What is known about a client, behind the peer's lock.

use super::Arrived;
use crate::{
    ask::AskError,
    audience::Seat,
    caller::Client,
    model::JsonObject,
    route::Route,
    signal::{Said, Teller},
    wire::Transition,
};
use foldhash::fast::RandomState;
use interlock_proto::{
    AskId, Refusal, Time,
    connection::{self, Connection, Effect, Input, Key, Ledger, State},
    machine::Step,
    negotiation, subscription,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tokio::{sync::oneshot, task::AbortHandle};

/// What is known about a client.
pub(super) struct Book {
    pub(super) state: State,
    pub(super) ledger: Ledger,
    pub(super) negotiation: negotiation::State,
    /// The `initialize` that is being negotiated, and where it is answered.
    pub(super) initialize: Option<Box<(Key, Route)>>,
    pub(super) client: Arc<Client>,
    /// Calls that begin right now and may end before anybody could speak to them.
    pub(super) beginning: Vec<Beginning>,
    /// Calls that have to wait for something.
    pub(super) calls: HashMap<Key, Running, RandomState>,
    pub(super) asks: BTreeMap<AskId, oneshot::Sender<Result<Value, AskError>>>,
    pub(super) listens: BTreeMap<Key, (Route, Seat)>,
    pub(super) subscriptions: BTreeMap<Arc<str>, subscription::State>,
    /// What handlers let it remember, if they do.
    pub(super) data: Option<Box<JsonObject>>,
    pub(super) next_call: u64,
    pub(super) next_ask: u64,
    /// Once closed: until when what is left may be written.
    pub(super) close_by: Time,
    pub(super) seat: Option<Seat>,
}

/// A call that begins, and what it is to be told if it does not end at once.
pub(super) struct Beginning {
    pub(super) key: Key,
    pub(super) said: Said,
}

/// A call that waits for something.
pub(super) struct Running {
    pub(super) teller: Teller,
    /// The task it runs as, once there is one.
    pub(super) task: Option<AbortHandle>,
}

impl Book {
    /// What is known of a request that is to be served, and what has to be known if it is a call:
    /// from now on it may be taken back. The book is at hand, and need not be opened again.
    pub(super) fn let_in(&mut self, effects: &[Effect], arrived: &mut Arrived<'_>) {
        let served = effects.iter().find_map(|effect| match effect {
            Effect::Serve(key) => Some(key),
            Effect::Negotiate(..)
            | Effect::Activate
            | Effect::Cancel(_)
            | Effect::Abandon(..)
            | Effect::Settle(_)
            | Effect::AbandonAsk(_)
            | Effect::Ignore(_)
            | Effect::Close
            | Effect::Forget(_)
            | Effect::SendAsk(_)
            | Effect::Subscribe(_)
            | Effect::Unsubscribe(_) => None,
        });
        let Some((key, method)) = served.zip(arrived.method) else {
            return;
        };
        if arrived.modern.is_none() {
            arrived.allowed = Some(self.negotiation.allows(method));
        }
        if method.is_call() {
            self.beginning.push(Beginning {
                key: key.clone(),
                said: Said::default(),
            });
        }
    }

    /// Takes a call out of those that begin.
    pub(super) fn begun(&mut self, key: &Key) -> Option<Beginning> {
        let mut beginning = self.beginning.iter();
        let at = beginning.position(|beginning| beginning.key == *key)?;
        Some(self.beginning.swap_remove(at))
    }

    pub(super) fn forget(&mut self, key: &Key) {
        if self.begun(key).is_none() && !self.calls.is_empty() {
            self.calls.remove(key);
        }
    }

    /// Lets the connection machine take a step, and brings the ledger up to date. The transition
    /// is traced by whoever holds the book, as soon as it does not; of a refusal there is none.
    pub(super) fn step(
        &mut self,
        rules: &connection::Rules,
        input: Input,
        now: Time,
        transition: &mut Transition,
    ) -> Result<Step<State, Effect>, Refusal> {
        *transition = Transition::by::<Connection>(&self.state, &input);
        let stepped = connection::step(rules, &self.state, &self.ledger, input, now);
        if let Ok(step) = &stepped {
            *transition = transition.to::<Connection>(&step.state);
            self.ledger.apply(&step.effects, now);
            if step.state == State::Closed && self.state != State::Closed {
                self.close_by = now + rules.drain;
            }
            self.state = step.state;
        }
        stepped
    }
}
