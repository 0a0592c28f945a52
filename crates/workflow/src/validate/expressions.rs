//! Guards, values to remember and texts: whether they are sound, and what they look at.

use super::Judge;
use crate::{
    DraftText, Expression, Outcome, Part, Place, Problem, Rule, Settings, Severity, Spot,
    expression::Body,
    guard::{Fault, Flaw, Program, Root},
    template::Text,
};
use std::{ops::Range, sync::Arc};

/// What an expression may look at.
pub(super) type Allowed = &'static [Root];

pub(super) const BEFORE_CALL: Allowed = &[
    Root::Args,
    Root::Ctx,
    Root::Principal,
    Root::State,
    Root::Visits,
];
const WITH_RESULT: Allowed = &[
    Root::Args,
    Root::Result,
    Root::Ctx,
    Root::Principal,
    Root::State,
    Root::Visits,
];
const WITH_ANSWER: Allowed = &[
    Root::Result,
    Root::Ctx,
    Root::Principal,
    Root::State,
    Root::Visits,
];
pub(super) const IN_STATE: Allowed = &[Root::Ctx, Root::Principal, Root::State, Root::Visits];
/// Nobody calls when a timer fires.
pub(super) const ON_TIME: Allowed = &[Root::Ctx, Root::State, Root::Visits];

/// Only a call that came to its end has a result.
pub(super) fn after_call(outcome: Outcome) -> Allowed {
    match outcome {
        Outcome::Success | Outcome::Error => WITH_RESULT,
        Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => BEFORE_CALL,
    }
}

/// Only a success has an answer.
pub(super) fn after_sampling(outcome: Outcome) -> Allowed {
    match outcome {
        Outcome::Success => WITH_ANSWER,
        Outcome::Error | Outcome::Timeout | Outcome::Cancelled | Outcome::Unknown => IN_STATE,
    }
}

/// A key of the memory that something looks at.
pub(super) struct Mention {
    key: Arc<str>,
    at: Option<Range<usize>>,
    place: Place,
    spot: Spot,
    part: Part,
}

impl Judge {
    pub(super) fn guard(
        &mut self,
        spot: &Spot,
        when: &Expression,
        allowed: Allowed,
    ) -> Option<Rule> {
        self.rule(spot, &Part::When, when, allowed)
    }

    pub(super) fn values(
        &mut self,
        spot: &Spot,
        set: &[(String, Expression)],
        allowed: Allowed,
    ) -> Vec<(Arc<str>, Rule)> {
        let mut values = Vec::with_capacity(set.len());
        for (key, value) in set {
            let name: Arc<str> = key.as_str().into();
            self.set.insert(name.clone());
            let part = Part::Set { key: key.clone() };
            if let Some(rule) = self.rule(spot, &part, value, allowed) {
                values.push((name, rule));
            }
        }
        values
    }

    fn rule(
        &mut self,
        spot: &Spot,
        part: &Part,
        expression: &Expression,
        allowed: Allowed,
    ) -> Option<Rule> {
        let place = expression.place;
        let source = match &expression.body {
            Body::Cel(source) => source,
            Body::Rust(function) => return Some(Rule::rust(function.clone())),
        };
        match Program::compile(source, allowed) {
            Ok(program) => {
                let mentioned = program.keys(Root::Ctx).map(|key| Mention {
                    key: key.name.into(),
                    at: key.at.clone(),
                    place,
                    spot: spot.clone(),
                    part: part.clone(),
                });
                self.mentioned.extend(mentioned);
                Some(Rule::cel(program, place))
            }
            Err(flaws) => {
                for flaw in flaws {
                    let problem = Problem::Expression {
                        spot: spot.clone(),
                        part: part.clone(),
                        message: flaw.to_string(),
                        help: quotes_missing(part, &flaw)
                            .or_else(|| finished(part, &flaw))
                            .or_else(|| flaw.help()),
                        at: flaw.at.clone(),
                        severity: Severity::Error,
                    };
                    self.find(place, problem);
                }
                None
            }
        }
    }

    /// Checks what the `{{…}}` of a text stand for.
    pub(super) fn text(&mut self, spot: &Spot, draft: &DraftText, allowed: Allowed) -> Text {
        let text = Text::new(&draft.text);
        for slot in text.slots() {
            let mention = |key: &str| Mention {
                key: key.into(),
                at: Some(slot.at.clone()),
                place: draft.place,
                spot: spot.clone(),
                part: Part::Text,
            };
            match slot.root() {
                Some(Root::Ctx) if slot.is_path() => {
                    self.mentioned.extend(slot.key().map(mention));
                }
                Some(root) if allowed.contains(&root) && slot.is_path() => {}
                Some(_) | None => {
                    let problem = Problem::Expression {
                        spot: spot.clone(),
                        part: Part::Text,
                        message: format!("`{{{{{}}}}}` stands for nothing", slot.path),
                        help: Some(slot.help(allowed)),
                        at: Some(slot.at.clone()),
                        severity: Severity::Error,
                    };
                    self.find(draft.place, problem);
                }
            }
        }
        if let Some(at) = text.unclosed() {
            let problem = Problem::Expression {
                spot: spot.clone(),
                part: Part::Text,
                message: "`{{` is never closed".to_owned(),
                help: Some("close it with `}}`".to_owned()),
                at: Some(at),
                severity: Severity::Error,
            };
            self.find(draft.place, problem);
        }
        text
    }

    /// Compares what is looked at with what is ever remembered.
    pub(super) fn memory(&mut self, settings: &Settings) {
        let mut keys: Vec<_> = self.set.iter().cloned().collect();
        keys.sort_unstable();
        for mention in std::mem::take(&mut self.mentioned) {
            if self.set.contains(&mention.key) {
                continue;
            }
            let nearest = self
                .nearest
                .find(&mention.key, keys.iter().map(|key| &**key));
            let problem = Problem::UnknownMemory {
                spot: mention.spot,
                part: mention.part,
                key: mention.key,
                nearest,
                at: mention.at,
            };
            self.find(mention.place, problem);
        }
        for key in &settings.keep {
            if !self.set.contains(key.as_str()) {
                let nearest = self.nearest.find(key, keys.iter().map(|key| &**key));
                let key = key.clone();
                self.find(Place::default(), Problem::NeverSet { key, nearest });
            }
        }
    }
}

/// What the whole line may look like of an expression that ends too early.
fn finished(part: &Part, flaw: &Flaw) -> Option<String> {
    let line = match (part, &flaw.fault) {
        (Part::When, Fault::Empty | Fault::Unfinished { .. }) => "when: args.amount > 0".to_owned(),
        (Part::Set { key }, Fault::Empty | Fault::Unfinished { .. }) => {
            format!("{key}: args.{key}")
        }
        _ => return None,
    };
    Some(format!("finish it, such as `{line}`"))
}

/// A bare word as a value is more often a text than a name.
fn quotes_missing(part: &Part, flaw: &Flaw) -> Option<String> {
    let (Part::Set { .. }, Fault::UnknownName { name, nearest, .. }) = (part, &flaw.fault) else {
        return None;
    };
    let quoted = || format!("write `'\"{name}\"'` for a text");
    nearest.is_none().then(quoted)
}
