//! How often an instance has come to its states.

use crate::StateId;

/// A workflow of so many states counts the visits of all of them. One that has more counts where
/// somebody asks, so that what an instance is kept as does not grow with every state it comes to.
pub(crate) const COUNTS_ALL: usize = 64;

/// How often an instance has come to its states: those that are counted, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Visits(Vec<(StateId, u32)>);

impl Visits {
    pub(crate) fn of(&self, state: StateId) -> u32 {
        self.place(state).map_or(0, |at| self.0[at].1)
    }

    /// One more.
    pub(crate) fn add(&mut self, state: StateId) {
        let visits = self.of(state).saturating_add(1);
        self.set(state, visits);
    }

    pub(crate) fn set(&mut self, state: StateId, visits: u32) {
        match self.place(state) {
            Ok(at) => self.0[at].1 = visits,
            Err(at) => self.0.insert(at, (state, visits)),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StateId, u32)> {
        self.0.iter().copied()
    }

    fn place(&self, state: StateId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&state, |(state, _)| *state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_are_counted_by_state_in_order() {
        let mut visits = Visits::default();
        for state in [3, 1, 2, 3, 1, 3] {
            visits.add(StateId::at(state));
        }
        let counted: Vec<_> = visits.iter().map(|(_, visits)| visits).collect();
        assert_eq!(counted, [2, 1, 3]);
        assert_eq!(visits.of(StateId::at(3)), 3);
        assert_eq!(visits.of(StateId::at(4)), 0);
        visits.set(StateId::at(4), u32::MAX);
        visits.add(StateId::at(4));
        assert_eq!(visits.of(StateId::at(4)), u32::MAX);
        visits.clear();
        assert_eq!(visits, Visits::default());
    }
}
