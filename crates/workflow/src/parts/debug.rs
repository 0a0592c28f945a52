//! The parts of a workflow in a line each, for whoever prints them.

use crate::{Binding, Cause, Edge, State, Timer, model::spelt};
use std::fmt;

/// What it is called and what it is, without what is bound in it.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("State");
        told.field("name", &self.name());
        if self.terminal {
            told.field("terminal", &true);
        }
        if let Some(most) = self.max_visits() {
            told.field("max_visits", &most);
        }
        if !self.timers().is_empty() {
            told.field("timers", &self.timers());
        }
        told.finish_non_exhaustive()
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&spelt(self.after))
    }
}

/// What is bound, where, and what is asked of its calls.
impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Binding");
        told.field("artifact", &format_args!("{}", self.artifact()));
        told.field("state", &self.state);
        if let Some(when) = self.when() {
            told.field("when", &format_args!("{when}"));
        }
        if let Some(approval) = self.approval() {
            told.field("approval", &approval.message.written());
        }
        if self.hold {
            told.field("hold", &true);
        }
        told.finish_non_exhaustive()
    }
}

/// `success of tool "pay": StateId(1) -> StateId(2) (terminal), when args.n == 1, set paid: true`.
impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} -> {:?}", self.cause, self.from, self.to)?;
        if self.terminal {
            f.write_str(" (terminal)")?;
        }
        if let Some(when) = &self.when {
            write!(f, ", when {when}")?;
        }
        for (key, rule) in &self.set {
            write!(f, ", set {key}: {rule}")?;
        }
        for effect in &self.effects {
            write!(f, ", effect {effect:?}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { artifact, outcome } => write!(f, "{outcome} of {artifact}"),
            Self::Time { after } => write!(f, "after {}", spelt(*after)),
            Self::Sampling { outcome } => write!(f, "{outcome} of sampling"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Workflow, end, to};
    use std::time::Duration;

    #[test]
    fn parts_are_told_in_a_line_each() {
        let flow = Workflow::builder("till")
            .state("open", |s| {
                let second = Duration::from_secs(1);
                s.initial()
                    .max_visits(3)
                    .after(second, end("open"))
                    .tool("pay", |t| {
                        t.when("args.n > 0")
                            .approve("Pay {{args.n}}?")
                            .hold()
                            .success(
                                to("open")
                                    .when("result.part")
                                    .set("n", "args.n")
                                    .effect("note"),
                            )
                            .success(end("open"))
                    })
            })
            .build()
            .unwrap();
        let state = flow.state(flow.initial().state);
        assert_eq!(
            format!("{state:?}"),
            "State { name: \"open\", max_visits: 3, timers: [1s], .. }"
        );
        let binding = &flow.bindings(flow.initial().state)[0];
        assert_eq!(
            format!("{binding:?}"),
            "Binding { artifact: tool \"pay\", state: StateId(0), when: args.n > 0, \
             approval: \"Pay {{args.n}}?\", hold: true, .. }"
        );
        let edges: Vec<_> = flow.edges().map(|(_, edge)| format!("{edge:?}")).collect();
        assert_eq!(
            edges,
            [
                "success of tool \"pay\": StateId(0) -> StateId(0), when result.part, \
                 set n: args.n, effect \"note\"",
                "success of tool \"pay\": StateId(0) -> StateId(0) (terminal)",
                "after 1s: StateId(0) -> StateId(0) (terminal)",
            ]
        );
        assert_eq!(
            format!("{flow:?}"),
            "Workflow { name: \"till\", states: [\"open\"], .. }"
        );
    }
}
