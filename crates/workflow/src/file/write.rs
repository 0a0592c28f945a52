//! Writes a workflow as a file.

use super::{
    MAX_BYTES, bindings,
    format::{
        AlwaysItem, Approval, Approve, Binding, BindingItem, Count, Duration, Edge, EdgeItem,
        Edges, FileFormat, Guard, KindAndName, List, MemoryKey, Message, MessageItem, Pairs,
        Sampling, Scalar, SettingsFormat, State, Text, When,
    },
    read_definition,
    report::Findings,
    settings, states,
    tree::{self, Value},
    yaml,
};
use crate::{
    Artifact, Draft, DraftApproval, DraftBinding, DraftEdge, DraftMessage, DraftSampling,
    DraftState, Expression, Kind, Outcome, Settings, Target, Targets, builder::APPROVAL_EXPIRES,
    model::spelt,
};
use std::{
    collections::{HashMap, HashSet},
    num::NonZeroU32,
    time,
};

/// Why a workflow cannot be written as a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotWritable {
    /// A guard or a value is a function in Rust, and a file holds only CEL.
    #[error("{of} is the Rust function {name:?}, which no file can hold")]
    Function {
        /// The function's name.
        name: String,
        /// What it decides, in words.
        of: String,
    },
    /// A file would be longer than one that can be read.
    #[error("the file would have more than the {MAX_BYTES} bytes that are read")]
    TooLarge,
    /// Something in it is allowed in Rust and not in a file, such as a name of 200 characters.
    #[error("no file can say this: {message}")]
    Refused {
        /// What a reader would say.
        message: String,
    },
}

/// Writes a workflow as YAML: its definition, without the tools and servers of a file.
///
/// What [`read_definition`] makes of it is the same draft, but for what says nothing: bindings
/// come by kind and edges by outcome, and where the instance is on hold after an unknown outcome,
/// there are no edges for that. States that are only led to are written too.
///
/// ```
/// use interlock_workflow::{Workflow, file, to};
///
/// let flow = Workflow::builder("refund")
///     .state("new", |s| s.initial().tool("look_up", |t| t.success(to("found").set("order", "args.order"))))
///     .state("found", |s| s.tool("refund", |t| t.success("paid")))
///     .state("paid", |s| s.terminal())
///     .build()?;
/// let draft = flow.definition();
/// let text = file::write(&draft)?;
/// assert_eq!(
///     text,
///     "interlock: 1\n\
///      name: refund\n\
///      \n\
///      states:\n  \
///        new:\n    \
///          initial: true\n    \
///          tools:\n      \
///            look_up:\n        \
///              success:\n          \
///                to: found\n          \
///                set: { order: args.order }\n  \
///        found:\n    \
///          tools: { refund: paid }\n  \
///        paid: { terminal: true }\n"
/// );
/// assert_eq!(file::read_definition(text.as_bytes())?, draft);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(draft: &Draft) -> Result<String, NotWritable> {
    let json = serialise(draft)?;
    let mut findings = Findings::default();
    let root = tree::parse(&json, &mut findings);
    let text = match root.map(|root| root.value) {
        Some(Value::Map(entries)) => yaml::print(&entries),
        Some(
            Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_),
        )
        | None => String::new(),
    };
    findings.judge().map_err(refused)?;
    checked(text, draft)
}

/// As [`write()`], in JSON.
///
/// ```
/// use interlock_workflow::{Workflow, end, file};
///
/// let flow = Workflow::builder("hello")
///     .state("new", |s| s.initial().tool("greet", |t| t.success(end("new"))))
///     .build()?;
/// let text = file::write_json(&flow.definition())?;
/// assert!(text.starts_with("{\n  \"interlock\": 1,\n  \"name\": \"hello\","));
/// assert_eq!(file::read_definition(text.as_bytes())?, flow.definition());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_json(draft: &Draft) -> Result<String, NotWritable> {
    let file = file(draft)?;
    let text = serde_json::to_string_pretty(&file);
    checked(text.expect("the format has only text for keys"), draft)
}

fn serialise(draft: &Draft) -> Result<String, NotWritable> {
    let text = serde_json::to_string(&file(draft)?).expect("the format has only text for keys");
    if text.len() > MAX_BYTES {
        return Err(NotWritable::TooLarge);
    }
    Ok(text)
}

/// The text, if reading it gives back what was written.
fn checked(text: String, draft: &Draft) -> Result<String, NotWritable> {
    if text.len() > MAX_BYTES {
        return Err(NotWritable::TooLarge);
    }
    let read = read_definition(text.as_bytes()).map_err(refused)?;
    if read == in_file_order(draft) {
        Ok(text)
    } else {
        let message = "it would not be read as it was written".to_owned();
        Err(NotWritable::Refused { message })
    }
}

fn refused(invalid: crate::Invalid) -> NotWritable {
    let problem = invalid
        .errors()
        .next()
        .map(|error| error.problem.to_string());
    NotWritable::Refused {
        message: problem.unwrap_or_default(),
    }
}

/// The draft as a file would have it.
fn in_file_order(draft: &Draft) -> Draft {
    let mut draft = draft.clone();
    draft.states.extend(missing_states(&draft));
    draft.targets = Targets::Closed;
    for state in &mut draft.states {
        state.bindings.sort_by_key(|binding| binding.artifact.kind);
        for binding in &mut state.bindings {
            let hold = binding.hold;
            binding
                .edges
                .retain(|edge| !(hold && edge.outcome == Outcome::Unknown));
            binding.edges.sort_by_key(|edge| edge.outcome);
        }
        if let Some(sampling) = &mut state.sampling {
            sampling.edges.sort_by_key(|edge| edge.outcome);
        }
    }
    draft
}

/// The states that nobody defined and that are states all the same.
fn missing_states(draft: &Draft) -> Vec<DraftState> {
    match draft.targets {
        Targets::Closed => return Vec::new(),
        Targets::Open => {}
    }
    let mut known: HashSet<_> = draft.states.iter().map(|state| &*state.name).collect();
    let targets = draft.states.iter().flat_map(targets_of);
    targets
        .filter(|target| known.insert(&target.to))
        .map(|target| DraftState {
            name: target.to.clone(),
            ..DraftState::default()
        })
        .collect()
}

fn targets_of(state: &DraftState) -> impl Iterator<Item = &Target> {
    let calls = state.bindings.iter().flat_map(|binding| &binding.edges);
    let asked = state.sampling.iter().flat_map(|sampling| &sampling.edges);
    let timers = state.timers.iter().flat_map(|timer| &timer.targets);
    calls.chain(asked).map(|edge| &edge.target).chain(timers)
}

fn file(draft: &Draft) -> Result<FileFormat, NotWritable> {
    let missing = missing_states(draft);
    let states = draft.states.iter().chain(&missing).map(|state| {
        let written = Writer { state: &state.name }.state(state)?;
        Ok((state.name.clone(), written))
    });
    let states: Vec<_> = states.collect::<Result<_, _>>()?;
    let settings = settings(&draft.settings)?;
    Ok(FileFormat {
        interlock: 1,
        name: text(&draft.name),
        description: draft.description.as_deref().map(text),
        servers: None,
        tools: None,
        resources: None,
        prompts: None,
        always: list(always(draft)),
        settings,
        states: pairs(states),
    })
}

fn always(draft: &Draft) -> Vec<AlwaysItem> {
    let mut kinds: HashMap<&str, HashSet<Kind>> = HashMap::new();
    let bound = draft.states.iter().flat_map(|state| &state.bindings);
    let bound = bound.map(|binding| &binding.artifact);
    for Artifact { kind, name } in bound.chain(draft.always.iter().map(|always| &always.artifact)) {
        kinds.entry(name).or_default().insert(*kind);
    }
    let everything = draft.always_everything.then(|| AlwaysItem::Name(text("*")));
    let artifacts = draft.always.iter().map(|always| {
        let Artifact { kind, name } = &always.artifact;
        // A name alone stands for every kind that has it.
        let alone = kinds
            .get(name.as_str())
            .is_none_or(|kinds| kinds.len() == 1);
        if alone && *kind == states::plain_kind(name) && name != "*" {
            return AlwaysItem::Name(text(name));
        }
        AlwaysItem::Kind(match kind {
            Kind::Tool => KindAndName::Tool(text(name)),
            Kind::Resource => KindAndName::Resource(text(name)),
            Kind::Prompt => KindAndName::Prompt(text(name)),
        })
    });
    everything.into_iter().chain(artifacts).collect()
}

fn settings(settings: &Settings) -> Result<Option<SettingsFormat>, NotWritable> {
    let usual = Settings::default();
    if *settings == usual {
        return Ok(None);
    }
    let keep = settings.keep.iter().cloned().map(MemoryKey).collect();
    let timeout = (settings.tool_timeout != usual.tool_timeout).then_some(settings.tool_timeout);
    Ok(Some(SettingsFormat {
        scope: word(&settings::SCOPES, settings.scope, usual.scope),
        busy: word(&settings::BUSY, settings.busy, usual.busy),
        visibility: word(&settings::VISIBILITY, settings.visibility, usual.visibility),
        finish: word(&settings::FINISH, settings.finish, usual.finish),
        tool_timeout: timeout.map(duration).transpose()?,
        keep: list(keep),
    }))
}

/// The word for a choice that differs from the usual one.
fn word<T: PartialEq>(words: &[(&'static str, T)], chosen: T, usual: T) -> Option<&'static str> {
    if chosen == usual {
        return None;
    }
    let (word, _) = words.iter().find(|(_, choice)| *choice == chosen)?;
    Some(word)
}

/// Writes one state, and knows its name in case that something in it cannot be written.
struct Writer<'d> {
    state: &'d str,
}

impl Writer<'_> {
    fn state(&self, state: &DraftState) -> Result<State, NotWritable> {
        let after = state.timers.iter().map(|timer| {
            let Duration(after) = duration(timer.after)?;
            let edges = self.edges(timer.targets.iter(), &format!("the timer {after:?}"))?;
            Ok((after, edges.unwrap_or(Edges::Several(Vec::new()))))
        });
        let sampling = state.sampling.as_ref();
        Ok(State {
            initial: state.initial.then_some(true),
            terminal: state.terminal.then_some(true),
            description: state.description.as_deref().map(text),
            instructions: state.instructions.as_ref().map(|told| text(&told.text)),
            max_visits: state
                .max_visits
                .map(|visits| count(visits.most))
                .transpose()?,
            tools: self.bindings(Kind::Tool, state)?,
            resources: self.bindings(Kind::Resource, state)?,
            prompts: self.bindings(Kind::Prompt, state)?,
            after: pairs(after.collect::<Result<_, _>>()?),
            sampling: sampling
                .map(|sampling| self.sampling(sampling))
                .transpose()?,
        })
    }

    fn bindings(
        &self,
        kind: Kind,
        state: &DraftState,
    ) -> Result<Option<Pairs<BindingItem>>, NotWritable> {
        let bindings = state.bindings.iter();
        let bindings = bindings.filter(|binding| binding.artifact.kind == kind);
        let items = bindings.map(|binding| {
            let name = binding.artifact.name.clone();
            Ok((name, short(self.binding(binding)?)))
        });
        Ok(pairs(items.collect::<Result<_, _>>()?))
    }

    fn binding(&self, binding: &DraftBinding) -> Result<Binding, NotWritable> {
        let artifact = &binding.artifact;
        let edges = |outcome| self.outcome(outcome, &binding.edges, &artifact.to_string());
        let when = binding.when.as_ref();
        let when = when.map(|guard| self.scalar(guard, &format!("the guard of {artifact}")));
        let otherwise = binding.otherwise.as_ref().map(|words| text(&words.text));
        Ok(Binding {
            when: when.transpose()?.map(|condition| match otherwise {
                None => When::If(condition),
                otherwise => When::Guard(Guard {
                    condition,
                    otherwise,
                }),
            }),
            approve: binding.approval.as_ref().map(approve).transpose()?,
            success: edges(Outcome::Success)?,
            error: edges(Outcome::Error)?,
            timeout: edges(Outcome::Timeout)?,
            cancelled: edges(Outcome::Cancelled)?,
            unknown: match binding.hold {
                true => Some(Edges::One(EdgeItem::To(text(bindings::HOLD)))),
                false => edges(Outcome::Unknown)?.map(not_hold),
            },
            idempotent: binding.idempotent.then_some(true),
            deadline: binding.deadline.map(duration).transpose()?,
        })
    }

    fn sampling(&self, sampling: &DraftSampling) -> Result<Sampling, NotWritable> {
        let edges = |outcome| self.outcome(outcome, &sampling.edges, "sampling");
        let usual = sampling.max_tokens == states::MAX_TOKENS;
        Ok(Sampling {
            messages: List(sampling.messages.iter().map(message).collect()),
            system: sampling.system.as_ref().map(|system| text(&system.text)),
            max_tokens: (!usual).then(|| count(sampling.max_tokens)).transpose()?,
            success: edges(Outcome::Success)?,
            error: edges(Outcome::Error)?,
        })
    }

    fn outcome(
        &self,
        outcome: Outcome,
        edges: &[DraftEdge],
        of: &str,
    ) -> Result<Option<Edges>, NotWritable> {
        let edges = edges.iter().filter(|edge| edge.outcome == outcome);
        self.edges(
            edges.map(|edge| &edge.target),
            &format!("{outcome} of {of}"),
        )
    }

    fn edges<'t>(
        &self,
        targets: impl Iterator<Item = &'t Target>,
        of: &str,
    ) -> Result<Option<Edges>, NotWritable> {
        let edges = targets.map(|target| self.edge(target, of));
        let mut edges: Vec<_> = edges.collect::<Result<_, _>>()?;
        Ok(match edges.len() {
            0 => None,
            1 => edges.pop().map(Edges::One),
            _ => Some(Edges::Several(edges)),
        })
    }

    fn edge(&self, target: &Target, of: &str) -> Result<EdgeItem, NotWritable> {
        let Target {
            to,
            terminal,
            when,
            set,
            effects,
            place: _,
        } = target;
        if !terminal && when.is_none() && set.is_empty() && effects.is_empty() {
            return Ok(EdgeItem::To(text(to)));
        }
        let when = when.as_ref();
        let set = set.iter().map(|(key, value)| {
            let of = format!("the value of `{key}` for {of}");
            Ok((key.clone(), self.scalar(value, &of)?))
        });
        Ok(EdgeItem::Edge(Edge {
            when: when
                .map(|guard| self.scalar(guard, &format!("a guard for {of}")))
                .transpose()?,
            to: text(to),
            terminal: terminal.then_some(true),
            set: pairs(set.collect::<Result<_, _>>()?),
            effects: list(effects.iter().map(|effect| text(effect)).collect()),
        }))
    }

    fn scalar(&self, expression: &Expression, of: &str) -> Result<Scalar, NotWritable> {
        let Some(source) = expression.source() else {
            return Err(NotWritable::Function {
                name: expression.to_string(),
                of: format!("{of} in state {:?}", self.state),
            });
        };
        // A literal needs no quotes, provided that it comes back letter by letter.
        let flag = source.parse().map(Scalar::Flag).ok();
        let number = || {
            let number: i64 = source.parse().ok()?;
            (number.to_string() == source).then_some(Scalar::Number(number))
        };
        let literal = flag.or_else(number);
        Ok(literal.unwrap_or_else(|| Scalar::Cel(source.to_owned())))
    }
}

/// A binding that says nothing but which state success leads to is that state.
fn short(binding: Binding) -> BindingItem {
    match binding {
        Binding {
            when: None,
            approve: None,
            success: Some(Edges::One(EdgeItem::To(state))),
            error: None,
            timeout: None,
            cancelled: None,
            unknown: None,
            idempotent: None,
            deadline: None,
        } => BindingItem::Success(state),
        other => BindingItem::Binding(Box::new(other)),
    }
}

/// A state that happens to be called as if the instance were to wait for an operator.
fn not_hold(edges: Edges) -> Edges {
    match edges {
        Edges::One(EdgeItem::To(to)) if to.0 == bindings::HOLD => {
            Edges::One(EdgeItem::Edge(Edge {
                when: None,
                to,
                terminal: None,
                set: None,
                effects: None,
            }))
        }
        Edges::One(_) | Edges::Several(_) => edges,
    }
}

fn approve(approval: &DraftApproval) -> Result<Approve, NotWritable> {
    let message = text(&approval.message.text);
    if approval.expires == APPROVAL_EXPIRES {
        return Ok(Approve::Message(message));
    }
    let expires = Some(duration(approval.expires)?);
    Ok(Approve::Approval(Approval { message, expires }))
}

fn message(message: &DraftMessage) -> MessageItem {
    let said = text(&message.text.text);
    match message.role {
        crate::Role::User => MessageItem::User(said),
        crate::Role::Assistant => MessageItem::Message(Message {
            role: "assistant",
            text: said,
        }),
    }
}

fn text(text: &str) -> Text {
    Text(text.to_owned())
}

fn list<T>(items: Vec<T>) -> Option<List<T>> {
    (!items.is_empty()).then_some(List(items))
}

fn pairs<T>(pairs: Vec<(String, T)>) -> Option<Pairs<T>> {
    (!pairs.is_empty()).then_some(Pairs(pairs))
}

fn count(count: u32) -> Result<Count, NotWritable> {
    let message = || "a number must be 1 or more".to_owned();
    let count = NonZeroU32::new(count).map(Count);
    count.ok_or_else(|| NotWritable::Refused { message: message() })
}

/// Only whole milliseconds can be written.
fn duration(duration: time::Duration) -> Result<Duration, NotWritable> {
    let written = spelt(duration);
    match super::parse_duration(&written) {
        Ok(read) if read == duration => Ok(Duration(written)),
        Ok(_) | Err(_) => Err(NotWritable::Refused {
            message: format!("{duration:?} is not between 1ms and 365d in whole milliseconds"),
        }),
    }
}
