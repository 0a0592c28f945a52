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
        match self.place(state) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(1),
            Err(at) => self.0.insert(at, (state, 1)),
        }
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
    use crate::{StateBuilder, Workflow, end, rust, to};
    use std::time::Duration;

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

    /// Something of a state that may ask how often an instance has come there.
    type Asks = fn(StateBuilder) -> StateBuilder;

    #[test]
    fn of_many_states_those_are_counted_of_which_anything_asks_for_it() {
        let asking: [(&str, Asks); 11] = [
            ("guard", |s| s.tool("ask", |t| t.when("visits < 9"))),
            ("rust", |s| s.tool("ask", |t| t.when(rust("any", |_| true)))),
            ("set", |s| {
                s.tool("ask", |t| t.error(to("new").set("n", "1 + visits")))
            }),
            ("edge", |s| {
                s.tool("ask", |t| {
                    t.success(to("new").when("[visits].all(v, v > 1)"))
                        .success("new")
                })
            }),
            ("timer", |s| {
                s.after(Duration::from_secs(1), to("new").set("n", "visits"))
            }),
            ("approval", |s| {
                s.tool("ask", |t| t.success("new").approve("Go, {{ visits }}?"))
            }),
            ("instructions", |s| s.instructions("{{visits}}")),
            ("message", |s| {
                s.sampling(1, |m| m.user("{{visits}}").success("new").error("new"))
            }),
            ("system", |s| {
                let m = |m: crate::SamplingBuilder| m.system("{{visits}}").user("?");
                s.sampling(1, |asked| m(asked).success("new").error("new"))
            }),
            ("answer", |s| {
                let set = to("new").set("n", "visits");
                s.sampling(1, |m| m.user("?").success("new").error(set))
            }),
            ("most", |s| s.max_visits(3)),
        ];
        let out = |s: StateBuilder| s.tool("go", |t| t.success("new"));
        let mut flow = Workflow::builder("w").state("new", |s| {
            s.initial().tool("end", |t| t.success(end("new")))
        });
        for n in 0..COUNTS_ALL {
            flow = flow.state(format!("other {n}"), out);
        }
        for (name, asks) in asking {
            flow = flow.state(name, |s| asks(out(s)));
        }
        let flow = flow.build().unwrap();
        let mut instance = flow.start(0);
        let mut visits = |name: &str| {
            let state = flow.state_id(name).unwrap();
            for _ in 0..2 {
                instance.apply(&flow, &flow.put(&instance, state), 0);
            }
            instance.visits(state)
        };
        for (name, _) in asking {
            assert_eq!(visits(name), 2, "{name}");
        }
        assert_eq!(visits("other 1"), 0);
    }
}
