//! Plays scenarios and generated paths, and says what was not as expected.

use super::scenario::{Action, Ended, Expect, Scenario, Step};
use crate::simulate::{
    Came, Course, Inventory, Refusal, Seen, Simulator, edge_name, same, shortened,
};
use interlock::workflow::{Call, Cause, Leg, Outcome, Workflow};
use serde_json::Value;
use std::collections::BTreeSet;

/// How many legs the name of a path tells.
const LEGS_TOLD: usize = 6;

/// How many names a failure tells of a list.
const MOST_LISTED: usize = 50;

/// How many notes a case has.
const MOST_NOTES: usize = 20;

/// How a scenario or a path went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: String,
    /// Where it went wrong, and how.
    pub(super) failure: Option<String>,
    /// What could not be worked out on the way.
    pub(super) notes: Vec<String>,
}

/// Plays one scenario until it ends or something is not as expected.
pub(super) fn scenario(
    workflow: &Workflow,
    inventory: &Inventory<'_>,
    scenario: &Scenario,
    seen: &mut Seen,
) -> Case {
    let mut simulator = Simulator::new(workflow).with(inventory);
    let mut failure = None;
    let mut notes = Vec::new();
    for (at, step) in scenario.steps.iter().enumerate() {
        let happened = perform(&mut simulator, step, &scenario.principal);
        let wrong = judge(&simulator, &step.expect, &happened);
        let place = format!("step {} ({}, line {})", at + 1, step.action, step.line);
        let faults = happened.course().map_or(&[][..], |course| &course.faults);
        let room = MOST_NOTES.saturating_sub(notes.len());
        let faults = faults.iter().take(room);
        notes.extend(faults.map(|fault| format!("{place}: {fault}")));
        if !wrong.is_empty() {
            failure = Some(format!("{place}: {}", wrong.join("; ")));
            break;
        }
    }
    seen.add(simulator.seen());
    Case {
        name: scenario.name.clone(),
        failure,
        notes,
    }
}

/// What came of a step.
enum Happened {
    Refused(Refusal),
    Ran {
        outcome: Outcome,
        approved: Option<String>,
        course: Course,
    },
    /// Time passed, or an operator decided.
    Moved(Course),
    /// There was nothing to decide about.
    NotHeld,
}

impl Happened {
    /// What it did to the instance, if it did anything.
    fn course(&self) -> Option<&Course> {
        match self {
            Self::Ran { course, .. } | Self::Moved(course) => Some(course),
            Self::Refused(_) | Self::NotHeld => None,
        }
    }
}

fn perform(simulator: &mut Simulator<'_>, step: &Step, principal: &Value) -> Happened {
    match &step.action {
        Action::Call {
            kind,
            name,
            args,
            stub,
        } => {
            let call = Call {
                kind: *kind,
                name,
                args,
                principal,
            };
            match simulator.call(&call, stub) {
                Came::Refused(refusal) => Happened::Refused(refusal),
                Came::Ran {
                    outcome,
                    approved,
                    course,
                } => Happened::Ran {
                    outcome,
                    approved,
                    course,
                },
            }
        }
        Action::Wait(time) => Happened::Moved(simulator.wait(*time)),
        Action::Settle(outcome) => match simulator.settle(*outcome) {
            Some(course) => Happened::Moved(course),
            None => Happened::NotHeld,
        },
    }
}

/// Everything that is not as expected.
fn judge(simulator: &Simulator<'_>, expect: &Expect, happened: &Happened) -> Vec<String> {
    let mut wrong = Vec::new();
    wrong.extend(judge_refusal(expect, happened));
    let course = happened.course();
    // Where it would have led is not known.
    wrong.extend(course.and_then(|course| course.cut.clone()));
    wrong.extend(expect.state.as_deref().and_then(|expected| {
        let state = simulator.state();
        (state != expected).then(|| format!("expected state {expected}, but it is {state}"))
    }));
    wrong.extend(judge_end(simulator, expect, course));
    for (kind, expected) in &expect.lists {
        let callable: BTreeSet<_> = simulator.callable(*kind).map(str::to_owned).collect();
        if callable != *expected {
            wrong.push(format!(
                "expected the {kind}s {}, but callable are {}",
                listed(expected),
                listed(&callable)
            ));
        }
    }
    wrong.extend(judge_memory(simulator, expect));
    let effects = course.map_or(&[][..], |course| &course.effects);
    if let Some(expected) = expect
        .effects
        .as_ref()
        .filter(|expected| *expected != effects)
    {
        wrong.push(format!(
            "expected the effects {}, but they are {}",
            listed(expected),
            listed(effects)
        ));
    }
    wrong.extend(judge_text(expect, happened));
    wrong
}

fn judge_text(expect: &Expect, happened: &Happened) -> Option<String> {
    let expected = expect.text.as_ref()?;
    let text = match happened {
        Happened::Refused(refusal) => Some(match &refusal.asked {
            Some(asked) => format!("{asked} {refusal}"),
            None => refusal.to_string(),
        }),
        Happened::Ran { approved, .. } => approved.clone(),
        Happened::Moved(_) | Happened::NotHeld => None,
    };
    match text {
        Some(text) if text.contains(expected) => None,
        Some(text) => Some(format!(
            "expected a text with `{}`, but it is `{}`",
            shortened(expected),
            shortened(&text)
        )),
        None => Some(format!(
            "expected a text with `{}`, but nothing was refused and nobody was asked",
            shortened(expected)
        )),
    }
}

fn judge_refusal(expect: &Expect, happened: &Happened) -> Option<String> {
    match (expect.refused, happened) {
        (None, Happened::Refused(refusal)) => {
            Some(format!("it was refused {}: {refusal}", refusal.code))
        }
        (None, Happened::NotHeld) => Some("there is nothing to settle".to_owned()),
        (Some(expected), Happened::Refused(refusal)) => (refusal.code != expected).then(|| {
            let code = refusal.code;
            format!("expected refused {expected}, but it was refused {code}: {refusal}")
        }),
        (Some(expected), Happened::Ran { outcome, .. }) => Some(format!(
            "expected refused {expected}, but it ran and ended in {outcome}"
        )),
        (Some(expected), Happened::Moved(_) | Happened::NotHeld) => Some(format!(
            "expected refused {expected}, but nothing was called"
        )),
        (None, Happened::Ran { .. } | Happened::Moved(_)) => None,
    }
}

fn judge_end(
    simulator: &Simulator<'_>,
    expect: &Expect,
    course: Option<&Course>,
) -> Option<String> {
    let ended = course.and_then(Course::ended);
    let ended = ended.map(|state| simulator.workflow().state_name(state));
    match (expect.ended.as_ref()?, ended) {
        (Ended::No, None) | (Ended::Anywhere, Some(_)) => None,
        (Ended::No, Some(state)) => Some(format!("expected no end, but it ended in {state}")),
        (Ended::Anywhere, None) => Some("expected an end, but it did not end".to_owned()),
        (Ended::In(expected), Some(state)) => (state != expected)
            .then(|| format!("expected an end in {expected}, but it ended in {state}")),
        (Ended::In(expected), None) => {
            Some(format!("expected an end in {expected}, but it did not end"))
        }
    }
}

fn judge_memory(simulator: &Simulator<'_>, expect: &Expect) -> Vec<String> {
    let memory = simulator.memory();
    let wrong = expect.ctx.iter().filter_map(|(key, expected)| {
        let found = memory.get(key).unwrap_or(&Value::Null);
        (!same(found, expected)).then(|| {
            let expected = shortened(&expected.to_string());
            match memory.get(key) {
                Some(found) => {
                    let found = shortened(&found.to_string());
                    format!("expected ctx.{key} to be {expected}, but it is {found}")
                }
                None => format!("expected ctx.{key} to be {expected}, but nothing is remembered"),
            }
        })
    });
    wrong.collect()
}

fn listed<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let mut names = names.into_iter();
    let mut told: Vec<_> = names
        .by_ref()
        .take(MOST_LISTED)
        .map(|name| shortened(name))
        .collect();
    let more = names.count();
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    format!("[{}]", told.join(", "))
}

/// Plays a generated path. Guards are taken to be true.
pub(super) fn path(workflow: &Workflow, number: usize, legs: &[Leg], seen: &mut Seen) -> Case {
    let mut simulator = Simulator::new(workflow);
    let mut failure = None;
    for (at, leg) in legs.iter().enumerate() {
        let followed = match leg {
            Leg::Edge(edge) => simulator.follow(*edge),
            Leg::Stay(_) => simulator.stay(),
        };
        if let Err(why) = followed {
            failure = Some(format!("step {} ({}): {why}", at + 1, told(workflow, *leg)));
            break;
        }
    }
    seen.add(simulator.seen());
    let told: Vec<_> = legs
        .iter()
        .take(LEGS_TOLD)
        .map(|leg| short(workflow, *leg))
        .collect();
    let more = match legs.len() > LEGS_TOLD {
        true => format!(", and on to step {}", legs.len()),
        false => String::new(),
    };
    Case {
        name: format!("path {number}: {}{more}", told.join(", ")),
        failure,
        // Nobody says with what such a path is called, so what cannot be worked out says nothing.
        notes: Vec::new(),
    }
}

fn told(workflow: &Workflow, leg: Leg) -> String {
    match leg {
        Leg::Edge(edge) => edge_name(workflow, edge),
        Leg::Stay(outcome) => format!("model ({outcome})"),
    }
}

/// What happens, without from where to where.
fn short(workflow: &Workflow, leg: Leg) -> String {
    match leg {
        Leg::Stay(outcome) => format!("model ({outcome})"),
        Leg::Edge(edge) => match &workflow.edge(edge).cause {
            Cause::Call {
                artifact,
                outcome: Outcome::Success,
            } => artifact.name.clone(),
            Cause::Call { artifact, outcome } => format!("{} ({outcome})", artifact.name),
            Cause::Time { after } => format!("after {}", crate::simulate::spelt(*after)),
            Cause::Sampling { outcome } => format!("model ({outcome})"),
        },
    }
}
