//! The state of a session, behind its lock.

use crate::{
    session::{
        calls::Calls, handshake::Handshake, profile::Profile, questions::Questions,
        subscriptions::Subscriptions,
    },
    wire::Transition,
};
use interlock_proto::{
    Refusal, Time,
    connection::{self, Connection, Effect, Input, Ledger, State},
    machine::Step,
};

pub(super) struct SessionState {
    pub(super) connection: State,
    pub(super) ledger: Ledger,
    /// Once closed: until when what is left may be written.
    close_by: Time,
    pub(super) handshake: Handshake,
    pub(super) profile: Profile,
    pub(super) calls: Calls,
    pub(super) questions: Questions,
    pub(super) subscriptions: Subscriptions,
}

/// Whether a session has ended, and when it needs attention.
pub(crate) struct SessionStatus {
    /// Closed, and no call is left.
    pub(crate) is_done: bool,
    /// Closed, and the time to write what is left has passed.
    pub(crate) is_overdue: bool,
    /// When the session needs a tick, if nothing else happens.
    pub(crate) wake_at: Option<Time>,
}

impl SessionState {
    pub(super) fn new(rules: &connection::Rules, now: Time) -> Self {
        Self {
            connection: rules.first(now),
            ledger: Ledger::default(),
            close_by: now,
            handshake: Handshake::new(),
            profile: Profile::default(),
            calls: Calls::default(),
            questions: Questions::default(),
            subscriptions: Subscriptions::default(),
        }
    }

    pub(super) fn status(&self, rules: &connection::Rules, now: Time) -> SessionStatus {
        let is_closed = self.connection == State::Closed;
        SessionStatus {
            is_done: is_closed && self.calls.is_empty(),
            is_overdue: is_closed && now >= self.close_by,
            wake_at: self.wake_at(rules),
        }
    }

    pub(super) fn wake_at(&self, rules: &connection::Rules) -> Option<Time> {
        if self.connection == State::Closed {
            return Some(self.close_by);
        }
        let connection = self.connection.wake_at(rules, &self.ledger);
        let others = [self.handshake.state.wake_at(), self.subscriptions.wake_at()];
        connection
            .into_iter()
            .chain(others.into_iter().flatten())
            .min()
    }

    /// Lets the connection machine take a step, and brings the ledger up to date. The transition is
    /// to be traced after the lock is released; a refusal makes none.
    pub(super) fn step(
        &mut self,
        rules: &connection::Rules,
        input: Input,
        now: Time,
    ) -> Result<(Step<State, Effect>, Transition), Refusal> {
        let transition = Transition::by::<Connection>(&self.connection, &input);
        let step = connection::step(rules, &self.connection, &self.ledger, input, now)?;
        let transition = transition.to::<Connection>(&step.state);
        self.ledger.apply(&step.effects, now);
        if step.state == State::Closed && self.connection != State::Closed {
            self.close_by = now + rules.drain;
        }
        self.connection = step.state;
        Ok((step, transition))
    }
}
