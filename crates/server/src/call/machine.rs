//! The invocation machine of one call, with the orders that it has given.

use crate::wire::Transition;
use interlock_proto::{
    Time,
    invocation::{self, Effect, Input, Invocation, State},
    machine::Orders,
};

/// The machine's state, and what it has ordered that is not done yet.
pub(super) struct Machine {
    state: State,
    orders: Orders<Effect>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            state: State::Idle,
            orders: Orders::default(),
        }
    }
}

impl Machine {
    pub(super) const fn state(&self) -> &State {
        &self.state
    }

    /// Lets the machine decide.
    pub(super) fn step(&mut self, input: Input, now: Time) {
        let transition = Transition::by::<Invocation>(&self.state, &input);
        let step = invocation::step(&self.state, input, now);
        transition.to::<Invocation>(&step.state).trace();
        self.state = step.state;
        self.orders = step.effects.into_iter();
    }

    pub(super) fn next_order(&mut self) -> Option<Effect> {
        self.orders.next()
    }

    /// The order after the one that is being done.
    pub(super) fn peek(&self) -> Option<&Effect> {
        self.orders.peek()
    }
}
