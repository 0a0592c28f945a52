//! Workflows that `echo` can put in front of its tools, for whoever wants to know what they cost.
//!
//! The states form a ring. Each binds `echo` and its share of the other tools, so that the lists
//! of two neighbours differ.

use interlock::{
    Workflow,
    workflow::{Settings, Visibility, end},
};

/// What calling `echo` does to the workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing.
    Stay,
    /// It goes on to the next state, and lists always hold everything.
    Move,
    /// It goes on to the next state, and lists follow.
    Dynamic,
    /// As `Move`, if a guard says that it may.
    Guard,
}

impl Gate {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "stay" => Some(Self::Stay),
            "move" => Some(Self::Move),
            "dynamic" => Some(Self::Dynamic),
            "guard" => Some(Self::Guard),
            _ => None,
        }
    }

    /// A ring of so many states around so many tools, the first of which is `echo`.
    pub(crate) fn workflow(self, states: usize, tools: usize) -> Workflow {
        let others = tools.saturating_sub(1);
        let share = others.min(states).max(1);
        let visibility = match self {
            Self::Dynamic => Visibility::Dynamic,
            Self::Stay | Self::Move | Self::Guard => Visibility::Static,
        };
        let settings = Settings {
            visibility,
            ..Settings::default()
        };
        let mut builder = Workflow::builder("ring").settings(settings);
        for at in 0..states {
            let next = match self {
                Self::Stay => name(at),
                Self::Move | Self::Dynamic | Self::Guard => name((at + 1) % states),
            };
            builder = builder.state(name(at), |mut state| {
                if at == 0 {
                    state = state.initial();
                }
                state = state.tool("echo", |echo| match self {
                    Self::Guard => echo.when("args.text != \"\"").success(next),
                    Self::Stay | Self::Move | Self::Dynamic => echo.success(next),
                });
                for number in (1..=others).filter(|number| number % share == at % share) {
                    let after = if number == others {
                        end(name(0))
                    } else {
                        name(at).into()
                    };
                    state = state.tool(format!("tool_{number:02}"), |tool| tool.success(after));
                }
                state
            });
        }
        builder
            .build()
            .expect("a ring with a way out is a workflow")
    }
}

fn name(state: usize) -> String {
    format!("state_{state:05}")
}
