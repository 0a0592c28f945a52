//! A player whose calls run nothing and end as they are told.

use super::{
    line::split,
    person,
    prompt::Keyboard,
    session::{Action, Argument, End, Item, Told, of_schema, read},
};
use crate::simulate::{
    Consent, Course, Inventory, PLAIN_ANSWER, Question, Refusal, Reply, Simulator, Verdict,
    refusal_name, shortened, some, spelt, text_answer,
};
use interlock::workflow::{Call, Kind, Outcome, Role, Visibility, Workflow};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// A run on the gate itself.
pub(crate) struct Dry<'f> {
    simulator: Simulator<'f>,
    inventory: &'f Inventory<'f>,
    gated: Gated,
    /// What was said about calls to come.
    next: Next,
    /// Who is asked what was not said. Nobody, in a script: then all goes well.
    keyboard: Option<Keyboard>,
    items: Vec<Item>,
    /// Why the last step was stopped before its end, if it was.
    cut: Option<String>,
}

/// Whether the file has a workflow at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gated {
    Yes,
    No,
}

/// What was said about calls to come. Each is used by the first call that needs it.
#[derive(Default)]
struct Next {
    outcome: Option<Outcome>,
    result: Option<Value>,
    consent: Option<Consent>,
    answers: VecDeque<Reply>,
}

/// Something said about calls to come.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Prepared {
    Outcome(Outcome),
    Result(Value),
    Consent(Consent),
    Answer(Reply),
}

/// The outcome by its name, or by the beginning of it.
pub(crate) fn outcome_named(name: &str) -> Option<Outcome> {
    let mut outcomes = Outcome::ALL.into_iter();
    outcomes.find(|outcome| !name.is_empty() && outcome.to_string().starts_with(name))
}

impl<'f> Dry<'f> {
    pub(crate) fn new(
        workflow: &'f Workflow,
        inventory: &'f Inventory<'f>,
        gated: Gated,
        keyboard: Option<Keyboard>,
    ) -> Self {
        let mut dry = Self {
            simulator: Simulator::new(workflow).with(inventory),
            inventory,
            gated,
            next: Next::default(),
            keyboard,
            items: Vec::new(),
            cut: None,
        };
        dry.refresh();
        dry
    }

    pub(crate) fn state(&self) -> Option<&str> {
        match self.gated {
            Gated::Yes => Some(self.simulator.state()),
            Gated::No => None,
        }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.iter()
    }

    /// What is remembered under a key.
    pub(crate) fn remembered(&self, key: &str) -> Option<&Value> {
        self.simulator.memory().get(key)
    }

    /// What is remembered, in a line.
    pub(crate) fn memory(&self) -> String {
        let memory = Value::Object(self.simulator.memory().clone());
        format!("ctx: {memory}")
    }

    /// What else is known: when time is up, what is remembered, what stands in the way.
    pub(crate) fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if self.simulator.is_finished() {
            facts.push("finished: the workflow has ended".to_owned());
        }
        if self.simulator.visits() > 1 {
            facts.push(format!("visits: {}", self.simulator.visits()));
        }
        facts.extend(self.timer());
        facts.extend(self.held());
        if !self.simulator.memory().is_empty() {
            facts.push(shortened(&self.memory()));
        }
        facts
    }

    /// Why the last step was stopped before its end, if it was.
    pub(crate) fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    fn timer(&self) -> Option<String> {
        let (time, to) = self.simulator.timer()?;
        Some(format!("timer: in {} -> {to}", spelt(time)))
    }

    fn held(&self) -> Option<String> {
        let held = self.simulator.held()?;
        Some(format!(
            "held: nobody knows what {held} did; `settle` it with success, error, timeout or \
             cancelled"
        ))
    }

    /// Says something about calls to come.
    pub(crate) fn prepare(&mut self, prepared: &Prepared) {
        match prepared.clone() {
            Prepared::Outcome(outcome) => self.next.outcome = Some(outcome),
            Prepared::Result(result) => self.next.result = Some(result),
            Prepared::Consent(consent) => self.next.consent = Some(consent),
            Prepared::Answer(answer) => self.next.answers.push_back(answer),
        }
    }

    pub(crate) async fn perform(&mut self, action: &Action) -> Told {
        self.cut = None;
        let (kind, name, args) = match action {
            Action::Call(name, args) => (Kind::Tool, name, Value::Object(args.clone())),
            Action::Read(uri) => (Kind::Resource, uri, json!({})),
            Action::Get(name, args) => (Kind::Prompt, name, Value::Object(args.clone())),
            Action::Wait(time) => {
                let mut wait = self.simulator.begin_wait(*time);
                while self.simulator.fire(&mut wait) {
                    // Whoever wants it to end must be heard.
                    tokio::task::yield_now().await;
                }
                let course = wait.course;
                let mut told = self.moved(plain(End::Ok, "time passes"), &course);
                if course.before == course.after {
                    told.notes.extend(self.timer());
                }
                return told;
            }
            Action::Settle(outcome) => {
                return match self.simulator.settle(*outcome) {
                    Some(course) => self.moved(plain(End::Ok, "settled"), &course),
                    None => plain(End::Error, "there is nothing to settle that way"),
                };
            }
        };
        let call = Call {
            kind,
            name,
            args: &args,
            principal: &Value::Null,
        };
        let mut asked = Vec::new();
        let told = match self.pass(&call, &mut asked).await {
            Err(refusal) => refused(refusal.code, &refusal.to_string()),
            Ok(()) => self.run(&call).await,
        };
        Told { asked, ..told }
    }

    /// Whether the gate, and the person it asks, let a call run.
    async fn pass(&mut self, call: &Call<'_>, asked: &mut Vec<String>) -> Result<(), Refusal> {
        match self.simulator.judge(call) {
            Verdict::Refused(refusal) => Err(refusal),
            Verdict::Runs => Ok(()),
            Verdict::Asks(question) => match self.consent(&question, asked).await {
                Consent::Yes => Ok(()),
                Consent::No => Err(Refusal::denied(&question)),
                Consent::Later => Err(Refusal::dismissed(&question)),
            },
        }
    }

    async fn run(&mut self, call: &Call<'_>) -> Told {
        let (outcome, result) = self.outcome(call).await;
        let written = result.is_some();
        let (outcome, result) = self.simulator.ending(call, outcome, result.as_ref());
        let mut course = self.simulator.end(call, outcome, result.as_ref());
        while let Some(question) = self.simulator.question() {
            let answer = self.answer(&question).await;
            let answer = answer.as_ref();
            self.simulator.answer(answer, call.principal, &mut course);
        }
        let told = match outcome {
            Outcome::Success => came(End::Ok, result, written),
            Outcome::Error => came(End::Error, result, written),
            Outcome::Timeout => refused(1069, "it took too long"),
            Outcome::Cancelled => plain(End::Error, "(dry) cancelled"),
            Outcome::Unknown => plain(End::Error, "(dry) nobody knows what it did"),
        };
        self.moved(told, &course)
    }

    /// Adds what a course did to what is told.
    fn moved(&mut self, mut told: Told, course: &Course) -> Told {
        let workflow = self.simulator.workflow();
        let (from, to) = (course.before, course.after);
        if self.gated == Gated::Yes && from.state != to.state {
            let name = |state| workflow.state_name(state).to_owned();
            told.moved = Some((name(from.state), name(to.state)));
        }
        if workflow.settings().visibility == Visibility::Dynamic {
            told.changes = self.simulator.changes(course);
        }
        let notes = &mut told.notes;
        if let Some(end) = course.ended() {
            notes.push(format!("ended: in state {}", workflow.state_name(end)));
        }
        let remembered = course.remembered.iter().map(|(key, value)| {
            let value = shortened(&value.to_string());
            format!("remembered: {key} = {value}")
        });
        notes.extend(remembered);
        if !course.effects.is_empty() {
            notes.push(format!("effects: {}", some(&course.effects).join(", ")));
        }
        self.cut.clone_from(&course.cut);
        let faults = course.faults.iter().chain(&course.cut);
        notes.extend(faults.map(|fault| format!("fault: {fault}")));
        notes.extend(self.held());
        if from != to {
            notes.extend(self.timer());
        }
        self.refresh();
        told
    }

    /// Looks again at what is listed.
    fn refresh(&mut self) {
        let workflow = self.simulator.workflow();
        self.items = Kind::ALL
            .into_iter()
            .flat_map(|kind| {
                let own = self.inventory.names(kind).into_iter();
                let names: Vec<_> = match workflow.settings().visibility {
                    Visibility::Dynamic => {
                        let unnamed = own.filter(|name| {
                            workflow.is_always(kind, name) && !workflow.is_bound(kind, name)
                        });
                        self.simulator.callable(kind).chain(unnamed).collect()
                    }
                    Visibility::Static => {
                        let own: Vec<_> = own.collect();
                        let others = workflow.artifacts(kind).filter(|name| !own.contains(name));
                        own.iter().copied().chain(others).collect()
                    }
                };
                names.into_iter().map(move |name| (kind, name))
            })
            .map(|(kind, name)| self.item(kind, name))
            .collect();
    }

    fn item(&self, kind: Kind, name: &str) -> Item {
        let arguments = match kind {
            Kind::Tool => match self.inventory.tool(name) {
                Some(tool) => of_schema(&tool.input),
                None => Vec::new(),
            },
            Kind::Resource => Vec::new(),
            Kind::Prompt => {
                let prompt = self.inventory.prompt(name).into_iter();
                let arguments = prompt.flat_map(|prompt| &prompt.arguments);
                let arguments = arguments.map(|argument| Argument {
                    name: argument.name.clone(),
                    description: argument.description.clone(),
                    required: argument.required,
                    of: Some("string".to_owned()),
                });
                arguments.collect()
            }
        };
        Item {
            kind,
            name: name.to_owned(),
            description: self.inventory.description(kind, name).map(str::to_owned),
            arguments,
        }
    }

    /// How a call ends: as it was said, or as somebody says now.
    async fn outcome(&mut self, call: &Call<'_>) -> (Outcome, Option<Value>) {
        let said = (self.next.outcome.take(), self.next.result.take());
        let keyboard = match (said, &self.keyboard) {
            ((None, None), Some(keyboard)) if !self.inventory.answers(call.kind, call.name) => {
                keyboard.clone()
            }
            ((outcome, result), _) => return (outcome.unwrap_or(Outcome::Success), result),
        };
        let question = format!(
            "{} would run; it ends in success, error, timeout, cancelled or unknown [success]: ",
            call.name
        );
        let mut asked = question.clone();
        loop {
            let Some(typed) = keyboard.ask(&asked).await else {
                return (Outcome::Error, None);
            };
            match ending(typed.trim()) {
                Ok(ending) => return ending,
                Err(why) => asked = format!("{why}\n{question}"),
            }
        }
    }

    /// What a person says to a question: as it was said, or as somebody says now.
    async fn consent(&mut self, question: &str, asked: &mut Vec<String>) -> Consent {
        let said = match (self.next.consent.take(), &self.keyboard) {
            (Some(consent), _) => consent,
            (None, None) => Consent::Yes,
            // Whoever is asked has seen it.
            (None, Some(keyboard)) => {
                return person::asked(keyboard, question, Consent::Yes).await;
            }
        };
        asked.extend(person::told(question, person::word(said)));
        said
    }

    /// What the client's model answers: as it was said, or as somebody says now.
    async fn answer(&mut self, asked: &Question) -> Reply {
        let keyboard = match (self.next.answers.pop_front(), &self.keyboard) {
            (Some(answer), _) => return answer,
            (None, None) => return text_answer(PLAIN_ANSWER),
            (None, Some(keyboard)) => keyboard.clone(),
        };
        let mut lines: Vec<_> = asked
            .system
            .iter()
            .map(|text| format!("system: {text}"))
            .collect();
        lines.extend(asked.messages.iter().map(|(role, text)| match role {
            Role::User => format!("user: {text}"),
            Role::Assistant => format!("assistant: {text}"),
        }));
        let question = format!(
            "the client's model is asked:\n  {}\nits answer as text or JSON, or error: ",
            lines.join("\n  ")
        );
        match keyboard.ask(&question).await.as_deref().map(str::trim) {
            None | Some("error") => None,
            Some(typed) => match serde_json::from_str::<Value>(typed) {
                Ok(answer) if answer.is_object() => Some(answer),
                Ok(_) | Err(_) => text_answer(typed),
            },
        }
    }
}

/// `success`, or `success {"content": []}`.
fn ending(typed: &str) -> Result<(Outcome, Option<Value>), String> {
    if typed.is_empty() {
        return Ok((Outcome::Success, None));
    }
    let (word, json) = split(typed);
    let outcome = outcome_named(word).ok_or_else(|| {
        format!(
            "`{}` is no outcome: type success, error, timeout, cancelled or unknown",
            shortened(word)
        )
    })?;
    let result = match json {
        "" => None,
        json => Some(serde_json::from_str(json).map_err(|error| {
            format!("what stands behind `{word}` is the result and must be JSON, but {error}")
        })?),
    };
    Ok((outcome, result))
}

fn plain(end: End, text: &str) -> Told {
    Told {
        asked: Vec::new(),
        end,
        text: text.to_owned(),
        structured: None,
        moved: None,
        changes: Vec::new(),
        notes: Vec::new(),
    }
}

fn refused(code: u16, text: &str) -> Told {
    let end = End::Refused {
        code: code.into(),
        name: refusal_name(code).to_owned(),
    };
    plain(end, text)
}

/// What a call came to. A result that holds no text is told as it was written.
fn came(end: End, result: Option<Value>, written: bool) -> Told {
    let Some(result) = result else {
        return plain(end, "(dry) no result");
    };
    let mut told = read(&Ok(result.clone()));
    if told.text.is_empty() && written {
        told.structured = None;
        told.text = result.to_string();
    }
    Told { end, ..told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_known_by_its_beginning() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome_named(&outcome.to_string()), Some(outcome));
        }
        assert_eq!(outcome_named("t"), Some(Outcome::Timeout));
        assert_eq!(outcome_named(""), None);
        assert_eq!(outcome_named("successful"), None);
    }

    #[test]
    fn an_ending_is_an_outcome_and_what_it_comes_to() {
        assert_eq!(ending(""), Ok((Outcome::Success, None)));
        assert_eq!(ending("err"), Ok((Outcome::Error, None)));
        assert_eq!(
            ending("success {\"a\": 1}"),
            Ok((Outcome::Success, Some(json!({"a": 1}))))
        );
        assert!(ending("success {").unwrap_err().contains("must be JSON"));
        assert!(ending("perhaps").unwrap_err().contains("type success"));
    }

    #[test]
    fn a_result_without_text_is_told_as_it_was_written() {
        let told = came(End::Ok, Some(json!({"structuredContent": {"a": 1}})), true);
        assert_eq!(told.text, r#"{"structuredContent":{"a":1}}"#);
        let told = came(
            End::Ok,
            Some(json!({"content": [{"type": "text", "text": "x"}]})),
            true,
        );
        assert_eq!(told.text, "x");
    }
}
