//! The sections `states` and `always`.

use super::{
    reader::{Reader, Shape},
    report::FileProblem,
    tree::{Entry, Key, Node, Value},
};
use crate::{
    Artifact, Catalogue, DraftAlways, DraftMessage, DraftSampling, DraftState, DraftTimer,
    DraftVisits, Kind, Outcome, Role, Span,
};
use std::collections::HashSet;

pub(super) const ALWAYS: Shape = Shape {
    what: "an item of `always`",
    keys: &["tool", "resource", "prompt"],
};

pub(super) const STATE: Shape = Shape {
    what: "a state",
    keys: &[
        "initial",
        "terminal",
        "description",
        "instructions",
        "max_visits",
        "tools",
        "resources",
        "prompts",
        "after",
        "sampling",
    ],
};

pub(super) const SAMPLING: Shape = Shape {
    what: "sampling",
    keys: &["messages", "system", "max_tokens", "success", "error"],
};

pub(super) const MESSAGE: Shape = Shape {
    what: "a message",
    keys: &["role", "text"],
};

/// The words for who says a message, which the writer uses too.
pub(super) const ROLES: [(&str, Role); 2] = [("user", Role::User), ("assistant", Role::Assistant)];

/// How long the answer of the client's model may be, unless the file says otherwise.
pub(super) const MAX_TOKENS: u32 = 1_000;

/// What `always` holds.
#[derive(Debug, Default)]
pub(super) struct Always {
    pub(super) artifacts: Vec<DraftAlways>,
    /// It holds `"*"`.
    pub(super) everything: bool,
}

/// What a name in `always` can stand for.
pub(super) enum Known<'c> {
    /// What the file declares, and what begins with the prefix of a server.
    Declared {
        catalogue: &'c Catalogue,
        prefixes: &'c [String],
    },
    /// Anything: nobody knows what there is.
    Anything,
}

impl Known<'_> {
    /// The kinds of thing that the name alone stands for.
    fn kinds(&self, name: &str) -> Vec<Kind> {
        let declared = match self {
            Self::Declared { catalogue, .. } => {
                let kinds = Kind::ALL.into_iter();
                kinds.filter(|kind| catalogue.has(*kind, name)).collect()
            }
            Self::Anything => Vec::new(),
        };
        let guess = plain_kind(name);
        match declared[..] {
            [] if self.may_have(guess, name) => vec![guess],
            [] | [_, ..] => declared,
        }
    }

    fn may_have(&self, kind: Kind, name: &str) -> bool {
        match self {
            Self::Declared {
                catalogue,
                prefixes,
            } => {
                catalogue.has(kind, name)
                    || match kind {
                        Kind::Tool | Kind::Prompt => prefixes
                            .iter()
                            .any(|prefix| name.starts_with(prefix.as_str())),
                        Kind::Resource => !prefixes.is_empty(),
                    }
            }
            Self::Anything => true,
        }
    }

    /// All names of these kinds.
    fn names(&self, kinds: &[Kind]) -> Vec<&str> {
        match self {
            Self::Declared { catalogue, .. } => {
                let kinds = kinds.iter();
                kinds.flat_map(|kind| catalogue.names(*kind)).collect()
            }
            Self::Anything => Vec::new(),
        }
    }
}

/// What a name is taken for where nothing else is known: what has a scheme is a resource.
pub(super) fn plain_kind(name: &str) -> Kind {
    if name.contains(':') {
        Kind::Resource
    } else {
        Kind::Tool
    }
}

impl Reader<'_> {
    /// Each name stands for every tool, resource and prompt that is called so.
    pub(super) fn always(&mut self, node: &Node, known: &Known<'_>) -> Always {
        let mut always = Always::default();
        let mut seen = HashSet::new();
        for item in self.list("always", node).unwrap_or_default() {
            if item.value.written() == Some("*") {
                always.everything = true;
                continue;
            }
            let before = always.artifacts.len();
            let (artifacts, span) = self.always_item(item, known);
            let named = artifacts.first().map(|artifact| artifact.name.clone());
            for artifact in artifacts {
                if seen.insert(artifact.clone()) {
                    let place = span.into();
                    always.artifacts.push(DraftAlways { artifact, place });
                }
            }
            if let Some(name) = named
                && always.artifacts.len() == before
            {
                self.error(span, FileProblem::ListedTwice { name });
            }
        }
        always
    }

    /// A name, or a kind and a name where the name alone would say too little or too much; and
    /// where the name stands.
    fn always_item(&mut self, item: &Node, known: &Known<'_>) -> (Vec<Artifact>, Span) {
        let Value::Map(entries) = &item.value else {
            let Some(name) = self.text("always", item) else {
                return (Vec::new(), item.span);
            };
            let kinds = known.kinds(name);
            if kinds.is_empty() {
                self.unknown_name(item, None, name, known);
            }
            let artifacts = kinds.into_iter().map(|kind| Artifact::new(kind, name));
            return (artifacts.collect(), item.span);
        };
        let [Entry { key, value }] = &entries[..] else {
            self.error(item.span, FileProblem::NotOneKind);
            return (Vec::new(), item.span);
        };
        let artifact = self.always_kind(key, value, known);
        (artifact.into_iter().collect(), value.span)
    }

    fn always_kind(&mut self, key: &Key, value: &Node, known: &Known<'_>) -> Option<Artifact> {
        let kind = match key.text.as_str() {
            "tool" => Kind::Tool,
            "resource" => Kind::Resource,
            "prompt" => Kind::Prompt,
            _ => {
                self.stray(&ALWAYS, key);
                return None;
            }
        };
        let name = self.text(&key.text, value)?;
        if !known.may_have(kind, name) {
            self.unknown_name(value, Some(kind), name, known);
            return None;
        }
        Some(Artifact::new(kind, name))
    }

    fn unknown_name(&mut self, node: &Node, kind: Option<Kind>, name: &str, known: &Known<'_>) {
        let kinds = kind.as_ref().map_or(&Kind::ALL[..], std::slice::from_ref);
        let help = self.meant(name, known.names(kinds).into_iter());
        let name = name.to_owned();
        self.error(node.span, FileProblem::UnknownName { kind, name, help });
    }

    pub(super) fn states(&mut self, entries: &[Entry]) -> Vec<DraftState> {
        entries.iter().map(|entry| self.state(entry)).collect()
    }

    fn state(&mut self, Entry { key, value }: &Entry) -> DraftState {
        self.free_name(STATE.what, &key.text, key.span);
        let mut state = DraftState {
            name: key.text.clone(),
            place: key.span.into(),
            ..DraftState::default()
        };
        for Entry { key, value } in self.map(&key.text, value).unwrap_or_default() {
            match key.text.as_str() {
                "initial" => state.initial = self.flag("initial", value).unwrap_or_default(),
                "terminal" => state.terminal = self.flag("terminal", value).unwrap_or_default(),
                "description" => state.description = self.owned("description", value),
                "instructions" => state.instructions = self.placed("instructions", value),
                "max_visits" => {
                    let place = value.span.into();
                    let most = self.count("max_visits", value);
                    state.max_visits = most.map(|most| DraftVisits { most, place });
                }
                "tools" => self.bindings(Kind::Tool, key, value, &mut state.bindings),
                "resources" => self.bindings(Kind::Resource, key, value, &mut state.bindings),
                "prompts" => self.bindings(Kind::Prompt, key, value, &mut state.bindings),
                "after" => state.timers = self.timers(value),
                "sampling" => state.sampling = self.sampling(key, value),
                _ => self.stray(&STATE, key),
            }
        }
        // The order of the sections says nothing.
        state.bindings.sort_by_key(|binding| binding.artifact.kind);
        state
    }

    fn timers(&mut self, node: &Node) -> Vec<DraftTimer> {
        let (mut timers, mut seen) = (Vec::new(), HashSet::new());
        for Entry { key, value } in self.map("after", node).unwrap_or_default() {
            let after = self.duration_text(&key.text, key.span);
            let targets = self.targets(&key.text, value);
            let Some(after) = after else { continue };
            if !seen.insert(after) {
                let written = key.text.clone();
                self.error(key.span, FileProblem::SameTime { written });
                continue;
            }
            timers.push(DraftTimer {
                after,
                targets,
                place: key.span.into(),
            });
        }
        timers
    }

    fn sampling(&mut self, key: &Key, node: &Node) -> Option<DraftSampling> {
        let entries = self.map("sampling", node)?;
        self.require(&SAMPLING, key.span, entries, &["messages"]);
        let mut sampling = DraftSampling {
            messages: Vec::new(),
            system: None,
            max_tokens: MAX_TOKENS,
            edges: Vec::new(),
            place: key.span.into(),
        };
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "messages" => sampling.messages = self.messages(value),
                "system" => sampling.system = self.placed("system", value),
                "max_tokens" => {
                    let most = self.count("max_tokens", value);
                    sampling.max_tokens = most.unwrap_or(MAX_TOKENS);
                }
                "success" => self.edges(Outcome::Success, key, value, &mut sampling.edges),
                "error" => self.edges(Outcome::Error, key, value, &mut sampling.edges),
                _ => self.stray(&SAMPLING, key),
            }
        }
        sampling.edges.sort_by_key(|edge| edge.outcome);
        Some(sampling)
    }

    fn messages(&mut self, node: &Node) -> Vec<DraftMessage> {
        let items = self.list("messages", node).unwrap_or_default();
        items.iter().filter_map(|item| self.message(item)).collect()
    }

    /// A text is what the person says.
    fn message(&mut self, node: &Node) -> Option<DraftMessage> {
        let Value::Map(entries) = &node.value else {
            let text = self.placed("messages", node)?;
            let role = Role::User;
            return Some(DraftMessage { role, text });
        };
        self.require(&MESSAGE, node.span, entries, &["role", "text"]);
        let (mut role, mut text) = (None, None);
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "role" => role = self.choice("role", value, &ROLES),
                "text" => text = self.placed("text", value),
                _ => self.stray(&MESSAGE, key),
            }
        }
        Some(DraftMessage {
            role: role?,
            text: text?,
        })
    }
}
