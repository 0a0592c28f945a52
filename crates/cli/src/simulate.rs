//! One run of a workflow on the gate itself, against outcomes that somebody makes up.
//!
//! Nothing is called and nobody waits: time passes when it is told to. A call is
//! [judged](Simulator::judge), then it [ends](Simulator::end), then the client's model
//! [answers](Simulator::answer) what states on the way ask it; [`Simulator::call`] does all three
//! with answers that are known beforehand.

mod course;
mod follow;
mod inventory;
mod refusal;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use course::{Course, Move, Wait};
pub(crate) use inventory::Inventory;
pub(crate) use refusal::Refusal;
pub(crate) use words::{
    binding_of, edge_name, nearest, refusal_name, same, shortened, some, spelt, text_answer,
};

use interlock::workflow::{
    Call, EdgeId, End, Fault, Instance, Kind, Outcome, Pass, Role, Sampling, StateId, Step,
    Workflow,
};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, time::Duration};

/// How often the client's model is asked within one call: as often as a server asks it.
const MOST_QUESTIONS: usize = Sampling::MOST_IN_ONE_CALL;

/// How many timers fire in one wait. A year of a timer that goes round every millisecond would
/// take a while.
const MOST_TIMERS: usize = 10_000;

/// How many timers fire in one run, however it waits.
const MOST_TIMERS_IN_ALL: usize = 100_000;

/// What the client's model answers if nobody says what.
pub(crate) const PLAIN_ANSWER: &str = "(dry) answer";

/// A run of a workflow, and what has been seen of it.
pub(crate) struct Simulator<'w> {
    workflow: &'w Workflow,
    inventory: Option<&'w Inventory<'w>>,
    instance: Instance,
    /// Milliseconds since the run began.
    now: u64,
    /// The client's model is to answer next.
    asking: bool,
    /// How often it was asked since the call began.
    questions: usize,
    /// How many timers have fired.
    fired: usize,
    seen: Seen,
}

/// Which parts of a workflow were used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) edges: BTreeSet<EdgeId>,
    pub(crate) states: BTreeSet<StateId>,
}

impl Seen {
    pub(crate) fn add(&mut self, other: &Self) {
        self.edges.extend(&other.edges);
        self.states.extend(&other.states);
    }
}

/// What the gate says to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Refused(Refusal),
    /// A person must agree to this first.
    Asks(String),
    Runs,
}

/// What is made up about a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stub {
    /// How it ends: well, if nobody says.
    pub(crate) outcome: Option<Outcome>,
    /// What it comes to; something plain if nobody says.
    pub(crate) result: Option<Value>,
    pub(crate) consent: Consent,
    /// What the client's model answers, one question after the other. The last one answers those
    /// that follow, and nothing is a plain success.
    pub(crate) answers: Vec<Reply>,
}

/// What a person says who is asked to approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Consent {
    #[default]
    #[serde(alias = "true")]
    Yes,
    #[serde(alias = "false")]
    No,
    Later,
}

/// What the client's model answers: something, or nothing because it failed.
pub(crate) type Reply = Option<Value>;

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Came {
    Refused(Refusal),
    Ran {
        outcome: Outcome,
        /// What a person agreed to before.
        approved: Option<String>,
        course: Course,
    },
}

/// How a list differs from what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) appeared: Vec<String>,
    pub(crate) gone: Vec<String>,
}

/// What a state asks the client's model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) system: Option<String>,
    pub(crate) messages: Vec<(Role, String)>,
}

impl<'w> Simulator<'w> {
    /// A new run.
    pub(crate) fn new(workflow: &'w Workflow) -> Self {
        let instance = workflow.start(0);
        let states = BTreeSet::from([instance.position().state]);
        Self {
            workflow,
            inventory: None,
            instance,
            now: 0,
            asking: false,
            questions: 0,
            fired: 0,
            seen: Seen {
                states,
                ..Seen::default()
            },
        }
    }

    /// Checks arguments against what the file says of its tools, and answers with its texts.
    pub(crate) fn with(mut self, inventory: &'w Inventory<'w>) -> Self {
        self.inventory = Some(inventory);
        self
    }

    /// Whether a call may run, and what a person is asked before.
    pub(crate) fn judge(&self, call: &Call<'_>) -> Verdict {
        if let Err(refused) = self.admit(call) {
            return Verdict::Refused(refused);
        }
        match self.workflow.judge(&self.instance, call) {
            Err(refused) => Verdict::Refused(refused.into()),
            Ok(Pass::Always) => Verdict::Runs,
            Ok(Pass::Bound(binding)) => match binding.approval() {
                None => Verdict::Runs,
                Some(approval) => {
                    let facts = self
                        .workflow
                        .facts(&self.instance, call.args, call.principal);
                    Verdict::Asks(approval.question(&facts))
                }
            },
        }
    }

    /// What comes before the guard: that there is such a thing, the state, and the shape of the
    /// arguments.
    fn admit(&self, call: &Call<'_>) -> Result<(), Refusal> {
        let Call {
            kind, name, args, ..
        } = *call;
        let known = self
            .inventory
            .is_none_or(|inventory| inventory.may_have(self.workflow, kind, name));
        if !known {
            return Err(Refusal::unknown(kind, name));
        }
        let at = self.instance.position();
        let admitted = self.workflow.admit(at, kind, name);
        admitted.map_err(Refusal::from)?;
        match self.inventory {
            None => Ok(()),
            Some(inventory) => inventory
                .check(kind, name, args)
                .map_err(|why| Refusal::wrong_arguments(kind, why)),
        }
    }

    /// Ends a call that the gate lets run.
    pub(crate) fn end(
        &mut self,
        call: &Call<'_>,
        outcome: Outcome,
        result: Option<&Value>,
    ) -> Course {
        let mut course = self.course();
        self.asking = false;
        self.questions = 0;
        let workflow = self.workflow;
        // A guard could only say something else now if somebody else had moved the instance.
        if let Ok(Pass::Bound(binding)) = workflow.judge(&self.instance, call) {
            let end = End {
                outcome,
                result,
                args: call.args,
                principal: call.principal,
            };
            let step = workflow.step(&self.instance, binding, &end);
            self.take(&step, &mut course);
        }
        course
    }

    /// What the client's model is asked now, if it is asked.
    pub(crate) fn question(&self) -> Option<Question> {
        let state = self.instance.position().state;
        let sampling = self.workflow.state(state).sampling()?;
        let facts = self
            .workflow
            .facts(&self.instance, &Value::Null, &Value::Null);
        let messages = sampling.messages().iter();
        self.asking.then(|| Question {
            system: sampling.system().map(|text| text.fill(&facts)),
            messages: messages
                .map(|message| (message.role, message.text.fill(&facts)))
                .collect(),
        })
    }

    /// Goes on with what the client's model answers.
    pub(crate) fn answer(
        &mut self,
        answer: Option<&Value>,
        principal: &Value,
        course: &mut Course,
    ) {
        self.asking = false;
        self.questions += 1;
        let workflow = self.workflow;
        if let Some(step) = workflow.sampled(&self.instance, answer, principal) {
            self.take(&step, course);
        }
        if self.asking && self.questions == MOST_QUESTIONS {
            self.asking = false;
            course.cut = Some(format!(
                "the client's model was asked {MOST_QUESTIONS} times in one call, and is not asked again"
            ));
        }
    }

    /// Makes a call of which everything is known beforehand.
    pub(crate) fn call(&mut self, call: &Call<'_>, stub: &Stub) -> Came {
        let approved = match self.judge(call) {
            Verdict::Refused(refusal) => return Came::Refused(refusal),
            Verdict::Runs => None,
            Verdict::Asks(question) => match stub.consent {
                Consent::Yes => Some(question),
                Consent::No => return Came::Refused(Refusal::denied(&question)),
                Consent::Later => return Came::Refused(Refusal::pending(&question)),
            },
        };
        let outcome = stub.outcome.unwrap_or(Outcome::Success);
        let (outcome, result) = self.ending(call, outcome, stub.result.as_ref());
        let mut course = self.end(call, outcome, result.as_ref());
        let mut answers = stub.answers.iter();
        let mut last = &text_answer(PLAIN_ANSWER);
        while self.question().is_some() {
            last = answers.next().unwrap_or(last);
            self.answer(last.as_ref(), call.principal, &mut course);
        }
        Came::Ran {
            outcome,
            approved,
            course,
        }
    }

    /// How a call ends for which somebody made this up. What the file answers itself, and a plain
    /// result otherwise, is taken where nobody said what the call comes to.
    pub(crate) fn ending(
        &self,
        call: &Call<'_>,
        outcome: Outcome,
        result: Option<&Value>,
    ) -> (Outcome, Option<Value>) {
        let result = match result {
            Some(result) => Some(result.clone()),
            None => self
                .inventory
                .and_then(|inventory| inventory.text(call, outcome))
                .or_else(|| words::plain_result(call, outcome)),
        };
        let is_error = |result: &Value| result["isError"] == true;
        let failed = call.kind == Kind::Tool && result.as_ref().is_some_and(is_error);
        match outcome {
            Outcome::Success if failed => (Outcome::Error, result),
            Outcome::Success
            | Outcome::Error
            | Outcome::Timeout
            | Outcome::Cancelled
            | Outcome::Unknown => (outcome, result),
        }
    }

    /// Lets time pass. Timers that fall due in it fire one after the other, each at its time.
    pub(crate) fn wait(&mut self, time: Duration) -> Course {
        let mut wait = self.begin_wait(time);
        while self.fire(&mut wait) {}
        wait.course
    }

    /// An operator says how the call ended that nobody knew the end of. Nothing if no call is.
    pub(crate) fn settle(&mut self, outcome: Outcome) -> Option<Course> {
        let mut course = self.course();
        let workflow = self.workflow;
        let step = workflow.settle(&self.instance, outcome, None)?;
        self.take(&step, &mut course);
        // Nobody is there whose model could answer.
        self.asking = false;
        let mut wait = self.wait_until(self.now, course);
        while self.fire(&mut wait) {}
        Some(wait.course)
    }

    /// Begins to let time pass; nothing has happened yet.
    pub(crate) fn begin_wait(&self, time: Duration) -> Wait {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.wait_until(self.now.saturating_add(time), self.course())
    }

    fn wait_until(&self, until: u64, course: Course) -> Wait {
        Wait {
            until,
            left: MOST_TIMERS,
            course,
        }
    }

    /// Fires the next timer that falls due, if one does; otherwise the wait is over.
    pub(crate) fn fire(&mut self, wait: &mut Wait) -> bool {
        let workflow = self.workflow;
        let due = self.instance.due().filter(|due| *due <= wait.until);
        let at = due.map(|due| due.max(self.now));
        let step = at.and_then(|at| Some((at, workflow.expire(&self.instance, at)?)));
        let Some((at, step)) = step else {
            self.now = wait.until;
            return false;
        };
        let why = match (wait.left, self.fired) {
            (0, _) => format!("{MOST_TIMERS} timers fired in one wait, and no more will"),
            (_, MOST_TIMERS_IN_ALL) => {
                format!("{MOST_TIMERS_IN_ALL} timers have fired, and no more will")
            }
            (_, _) => {
                wait.left -= 1;
                self.fired += 1;
                self.now = at;
                self.take(&step, &mut wait.course);
                return true;
            }
        };
        wait.course.cut = Some(why);
        false
    }

    fn course(&self) -> Course {
        Course::from(self.instance.position())
    }

    /// The only place where the instance changes.
    fn take(&mut self, step: &Step<'_>, course: &mut Course) {
        self.instance.apply(self.workflow, step, self.now);
        self.asking = step.asks;
        self.seen.edges.extend(step.taken);
        self.seen.states.extend([step.to, step.after.state]);
        course.after = self.instance.position();
        course.moves.push(Move {
            from: step.from,
            to: step.to,
            terminal: step.terminal,
        });
        course.keep(step.effects);
        course.remember(step);
        for fault in &step.faults {
            course.note(self.fault(fault));
        }
    }

    fn fault(&self, fault: &Fault) -> String {
        match fault {
            Fault::Guard { edge, failed } => format!(
                "the guard of `{}` has no answer: {failed}",
                edge_name(self.workflow, *edge)
            ),
            Fault::Set { edge, key, failed } => format!(
                "`{key}` is not remembered by `{}`: {failed}",
                edge_name(self.workflow, *edge)
            ),
        }
    }

    /// The name of the state.
    pub(crate) fn state(&self) -> &'w str {
        self.workflow.state_name(self.instance.position().state)
    }

    /// Where the instance is, in words.
    fn place(&self) -> String {
        words::place(self.workflow, self.instance.position())
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.instance.position().finished
    }

    /// How often the instance has come to where it is.
    pub(crate) fn visits(&self) -> u32 {
        self.instance.visits(self.instance.position().state)
    }

    /// What is remembered.
    pub(crate) fn memory(&self) -> &Map<String, Value> {
        self.instance.memory()
    }

    /// The call of which nobody knows what it did.
    pub(crate) fn held(&self) -> Option<String> {
        self.instance.held().map(|held| held.artifact.to_string())
    }

    /// In what time the instance goes on by itself, and to which state as things are. One that is
    /// held does not.
    pub(crate) fn timer(&self) -> Option<(Duration, &'w str)> {
        let workflow = self.workflow;
        let due = self.instance.due()?;
        let step = workflow.expire(&self.instance, due)?;
        let time = Duration::from_millis(due.saturating_sub(self.now));
        Some((time, workflow.state_name(step.to)))
    }

    /// What is callable here, guards or not.
    pub(crate) fn callable(&self, kind: Kind) -> impl Iterator<Item = &'w str> {
        self.workflow.visible(self.instance.position(), kind)
    }

    /// How the lists changed on a course.
    pub(crate) fn changes(&self, course: &Course) -> Vec<Change> {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let changes = Kind::ALL.into_iter().map(|kind| {
            let difference = self.workflow.difference(course.before, course.after, kind);
            Change {
                kind,
                appeared: owned(difference.appears),
                gone: owned(difference.gone),
            }
        });
        changes
            .filter(|change| !change.appeared.is_empty() || !change.gone.is_empty())
            .collect()
    }

    pub(crate) fn workflow(&self) -> &'w Workflow {
        self.workflow
    }

    /// Which parts of the workflow this run has used.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }
}
