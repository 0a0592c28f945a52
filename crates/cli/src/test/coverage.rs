//! How much of a workflow was played.

use crate::simulate::{Seen, edge_name};
use interlock::workflow::Workflow;
use std::fmt;

/// How many names are told before the rest is only counted.
const MOST_NAMES: usize = 20;

/// What was seen of a workflow, and what there is.
pub(super) struct Coverage<'a> {
    pub(super) workflow: &'a Workflow,
    pub(super) seen: &'a Seen,
}

/// A share of transitions, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Percent(f64);

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let number = written.strip_suffix('%').unwrap_or(written);
        match number.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self(percent)),
            Ok(_) | Err(_) => Err("it is a number from 0 to 100".to_owned()),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Cut off, so that 99.96 is not told as 100.
        write!(f, "{}%", (self.0 * 10.0).floor() / 10.0)
    }
}

impl Coverage<'_> {
    /// Which share of the transitions was taken; all of none.
    pub(super) fn percent(&self) -> Percent {
        let all = self.workflow.edges().len();
        if all == 0 {
            return Percent(100.0);
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a file has fewer edges than a number has digits"
        )]
        let share = self.seen.edges.len() as f64 / all as f64;
        Percent(share * 100.0)
    }

    /// Whether it is at least so much.
    pub(super) fn reaches(&self, least: Percent) -> bool {
        self.percent().0 >= least.0
    }

    /// `states 5/6 (review not visited), transitions 11/14 (78.5%)`.
    pub(super) fn told(&self) -> String {
        let all = self.workflow.states();
        let count = all.len();
        let missing: Vec<_> = all
            .filter(|state| !self.seen.states.contains(state))
            .map(|state| self.workflow.state_name(state).to_owned())
            .collect();
        let missing = match missing.is_empty() {
            true => String::new(),
            false => format!(" ({} not visited)", some(&missing).join(", ")),
        };
        format!(
            "states {}/{count}{missing}, transitions {}/{} ({})",
            self.seen.states.len(),
            self.seen.edges.len(),
            self.workflow.edges().len(),
            self.percent()
        )
    }

    /// The names of the transitions that were not taken.
    pub(super) fn missing(&self) -> Vec<String> {
        let edges = self.workflow.edges();
        let missing = edges.filter(|(edge, _)| !self.seen.edges.contains(edge));
        let names: Vec<_> = missing
            .map(|(edge, _)| edge_name(self.workflow, edge))
            .collect();
        some(&names)
    }
}

/// The first few names, and how many more there are.
fn some(names: &[String]) -> Vec<String> {
    let mut told: Vec<_> = names.iter().take(MOST_NAMES).cloned().collect();
    if names.len() > MOST_NAMES {
        told.push(format!("and {} more", names.len() - MOST_NAMES));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use interlock::workflow::end;

    #[test]
    fn what_was_not_seen_is_named() {
        let flow = Workflow::builder("flow")
            .state("a", |s| {
                s.initial().tool("go", |t| t.success("b").error("c"))
            })
            .state("b", |s| s.tool("stop", |t| t.success(end("c"))))
            .build()
            .unwrap();
        let mut seen = Seen::default();
        seen.states.extend([flow.initial().state]);
        seen.edges.extend(flow.edges().next().map(|(edge, _)| edge));
        let coverage = Coverage {
            workflow: &flow,
            seen: &seen,
        };
        assert_eq!(
            coverage.told(),
            "states 1/3 (b, c not visited), transitions 1/3 (33.3%)"
        );
        assert_eq!(coverage.missing(), ["a: go (error) -> c", "b: stop -> c"]);
        assert!(coverage.reaches("33".parse().unwrap()));
        assert!(!coverage.reaches("34%".parse().unwrap()));
    }

    #[test]
    fn only_a_share_is_a_percentage() {
        for wrong in ["", "-1", "101", "NaN", "many", "%"] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
        assert_eq!("99.96".parse::<Percent>().unwrap().to_string(), "99.9%");
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names: Vec<_> = (0..25).map(|n| n.to_string()).collect();
        let told = some(&names);
        assert_eq!((told.len(), &*told[20]), (21, "and 5 more"));
    }
}
