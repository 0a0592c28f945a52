//! The trace of a machine's transition.

use interlock_proto::machine::Machine;
use tracing::level_filters::LevelFilter;

/// A transition, if transitions are traced. It is traced once no lock is held, because a subscriber
/// of traces may use the server.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "every transition is traced"]
pub(crate) struct Transition(Option<Names>);

#[derive(Clone, Copy, Debug)]
struct Names {
    machine: &'static str,
    from: &'static str,
    event: &'static str,
    to: &'static str,
}

impl Transition {
    /// A machine gets an input.
    pub(crate) fn by<M: Machine>(from: &M::State, input: &M::Input) -> Self {
        let is_traced = LevelFilter::current() >= LevelFilter::DEBUG;
        Self(is_traced.then(|| Names {
            machine: M::NAME,
            from: M::state_name(from),
            event: M::input_name(input),
            to: "",
        }))
    }

    /// The state that the input has led to.
    pub(crate) fn to<M: Machine>(mut self, to: &M::State) -> Self {
        if let Some(names) = &mut self.0 {
            names.to = M::state_name(to);
        }
        self
    }

    pub(crate) fn trace(self) {
        if let Some(names) = self.0 {
            names.trace();
        }
    }
}

impl Names {
    #[cold]
    fn trace(self) {
        let Self {
            machine,
            from,
            event,
            to,
        } = self;
        tracing::debug!(machine, from, event, to);
    }
}
