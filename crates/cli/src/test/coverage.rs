//! How much of a workflow was played.

use crate::simulate::{Seen, binding_of, edge_name, some};
use interlock::workflow::{EdgeId, Workflow};
use std::fmt;

/// What was seen of a workflow, and what there is.
pub(super) struct Coverage<'a> {
    pub(super) workflow: &'a Workflow,
    pub(super) seen: &'a Seen,
}

/// How many decimals a share may be written with.
const MOST_DECIMALS: usize = 12;

/// A share of transitions in percent, as it was written: a whole number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Percent {
    digits: u64,
    decimals: usize,
}

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        Self::read(written).ok_or_else(|| {
            format!("it is a number from 0 to 100, with at most {MOST_DECIMALS} decimals")
        })
    }
}

impl Percent {
    fn read(written: &str) -> Option<Self> {
        let number = written.strip_suffix('%').unwrap_or(written);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() || !is_number(whole) || !is_number(fraction) {
            return None;
        }
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        if whole.len() > 3 || fraction.len() > MOST_DECIMALS {
            return None;
        }
        let percent = Self {
            digits: format!("0{whole}{fraction}").parse().ok()?,
            decimals: fraction.len(),
        };
        (percent.digits <= 100 * percent.one()).then_some(percent)
    }

    /// How many parts one percent has.
    fn one(self) -> u64 {
        let decimals = u32::try_from(self.decimals).unwrap_or_default();
        10_u64.saturating_pow(decimals)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.digits / self.one(), self.digits % self.one());
        match parts {
            0 => write!(f, "{whole}%"),
            parts => write!(f, "{whole}.{parts:0width$}%", width = self.decimals),
        }
    }
}

impl Coverage<'_> {
    /// The guards of transitions that were taken only as if they were true: none of these did.
    pub(super) fn assumed(&self, really: &Seen) -> Vec<String> {
        let workflow = self.workflow;
        let of = |id: &EdgeId| binding_of(workflow, workflow.edge(*id));
        let mut assumed = Vec::new();
        for id in &self.seen.edges {
            let binding = of(id).and_then(|binding| Some((binding, binding.when()?)));
            if let Some((binding, when)) = binding {
                let same = |id: &EdgeId| of(id).is_some_and(|of| of.id() == binding.id());
                let state = workflow.state_name(workflow.edge(*id).from);
                let told = format!("{state}: {} when {when}", binding.artifact().name);
                if !really.edges.iter().any(same) && !assumed.contains(&told) {
                    assumed.push(told);
                }
            }
            if workflow.edge(*id).when.is_some() && !really.edges.contains(id) {
                assumed.push(edge_name(workflow, *id));
            }
        }
        some(&assumed)
    }

    /// How many transitions were taken, and how many there are.
    fn counts(&self) -> (u64, u64) {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        (
            count(self.seen.edges.len()),
            count(self.workflow.edges().len()),
        )
    }

    /// Which share of the transitions was taken; all of none. Cut off, so that 99.96 is not told
    /// as 100, nor what is too little as what would do.
    pub(super) fn percent(&self) -> Percent {
        let (taken, all) = self.counts();
        let tenths = taken.saturating_mul(1000).checked_div(all);
        Percent {
            digits: tenths.unwrap_or(1000),
            decimals: 1,
        }
    }

    /// Whether it is at least so much.
    pub(super) fn reaches(&self, least: Percent) -> bool {
        let (taken, all) = self.counts();
        let parts = |count: u64, each: u64| u128::from(count) * u128::from(each);
        parts(taken, 100 * least.one()) >= parts(all, least.digits)
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
    fn shares_are_compared_as_they_are_written() {
        let flow = Workflow::builder("flow").state("a", |mut s| {
            s = s.initial();
            for at in 0..50 {
                s = s.tool(format!("t{at}"), |t| t.success(end("b")));
            }
            s
        });
        let flow = flow.build().unwrap();
        let mut seen = Seen::default();
        seen.edges
            .extend(flow.edges().take(29).map(|(edge, _)| edge));
        let coverage = Coverage {
            workflow: &flow,
            seen: &seen,
        };
        assert_eq!(coverage.percent().to_string(), "58%");
        assert!(coverage.reaches("58".parse().unwrap()));
        assert!(coverage.reaches("58.000".parse().unwrap()));
        assert!(!coverage.reaches("58.000000000001".parse().unwrap()));
    }

    #[test]
    fn only_a_share_is_a_percentage() {
        for wrong in [
            "",
            "-1",
            "101",
            "100.1",
            "NaN",
            "1e1",
            "many",
            "%",
            ".",
            "0.0000000000001",
        ] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
        for (written, told) in [
            ("99.96", "99.96%"),
            ("58.0%", "58%"),
            (".50", "0.5%"),
            ("5.05", "5.05%"),
            ("007.", "7%"),
            ("100", "100%"),
            ("0", "0%"),
        ] {
            assert_eq!(written.parse::<Percent>().unwrap().to_string(), told);
        }
    }
}
