//! The file as a whole: which sections it has, and how they make a workflow.

use super::{
    File, MAX_BYTES,
    reader::{Place, Reader},
    report::{FileProblem, Findings},
    tree::{self, Entry, Key, Node, Value},
};
use crate::{
    Busy, Catalogue, Draft, Finding, Finish, Invalid, Kind, Problem, Scope, Settings, Span,
    Targets, Visibility, Workflow,
};
use std::collections::HashMap;

const FILE: Place = Place {
    what: "the file",
    keys: &[
        "interlock",
        "name",
        "description",
        "tools",
        "resources",
        "prompts",
        "always",
        "settings",
        "states",
    ],
    later: &[(
        "servers",
        "only what the file itself holds is served in this version",
    )],
};

const SETTINGS: Place = Place {
    what: "the settings",
    keys: &["scope", "busy", "visibility", "finish", "tool_timeout"],
    later: &[(
        "keep",
        "instances remember nothing but their state in this version",
    )],
};

pub(super) fn read(text: &[u8]) -> Result<File, Invalid> {
    let mut findings = Findings::default();
    if text.len() > MAX_BYTES {
        let bytes = text.len();
        findings.error(tree::place("", 0, 0), FileProblem::TooLarge { bytes });
        return Err(findings.into());
    }
    let text = match str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let good = error.valid_up_to();
            let before = str::from_utf8(&text[..good]).unwrap_or_default();
            findings.error(tree::place(before, good, good), FileProblem::NotUtf8);
            return Err(findings.into());
        }
    };
    let Some(root) = tree::parse(text, &mut findings) else {
        return Err(findings.into());
    };
    let mut reader = Reader::new(text, findings);
    let Some(sections) = reader.sections(&root) else {
        return Err(reader.findings.into());
    };
    let file = reader.file(&sections);
    let warnings = reader.findings.judge()?;
    Ok(File { warnings, ..file })
}

/// The sections of a file of version 1.
struct Sections<'n> {
    entries: &'n [Entry],
    /// Where a file begins that lacks something.
    span: Span,
}

impl<'n> Sections<'n> {
    fn find(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| entry.key.text == key)
    }
}

impl Reader<'_> {
    /// Says `None` where nothing else that could be said would make sense.
    fn sections<'n>(&mut self, root: &'n Node) -> Option<Sections<'n>> {
        let span = root.span;
        let entries = match &root.value {
            Value::Map(entries) => entries,
            Value::Null => {
                self.error(span, FileProblem::Empty);
                return None;
            }
            Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
                let found = root.value.kind();
                self.error(span, FileProblem::NotAMap { found });
                return None;
            }
        };
        let sections = Sections { entries, span };
        if let Some(Entry { value, .. }) = sections.find("interlock") {
            match value.value.written() {
                Some("1") => {}
                Some(other) => {
                    self.bad_value("interlock", "1", value.span, other);
                    return None;
                }
                None => return self.wrong_type("interlock", value, "1"),
            }
        }
        Some(sections)
    }

    fn file(&mut self, sections: &Sections<'_>) -> File {
        let mut declared = Declared::default();
        let mut section = |reader: &mut Self, kind, key| {
            let entries = sections
                .find(key)
                .map(|entry| reader.map(key, &entry.value));
            let entries = entries.flatten().unwrap_or_default();
            declared.add(kind, entries);
            entries
        };
        let tools = section(self, Kind::Tool, "tools");
        let resources = section(self, Kind::Resource, "resources");
        let prompts = section(self, Kind::Prompt, "prompts");
        let always = sections
            .find("always")
            .map(|entry| self.always(&entry.value, &declared.catalogue))
            .unwrap_or_default();
        let states = sections.find("states").and_then(|Entry { key, value }| {
            let entries = self.map("states", value)?;
            Some((key, self.states(entries)))
        });
        // What was not understood up to here may be just what the graph lacks.
        let graph = match self.findings.count() {
            0 => Graph::AsWritten,
            _ => Graph::InPieces,
        };

        self.require(
            &FILE,
            sections.span,
            sections.entries,
            &["interlock", "name"],
        );
        for Entry { key, .. } in sections.entries {
            if !FILE.keys.contains(&key.text.as_str()) {
                self.stray(&FILE, key);
            }
        }
        let mut file = File {
            name: self.file_name(sections).unwrap_or_default(),
            description: sections
                .find("description")
                .and_then(|entry| self.owned("description", &entry.value)),
            workflow: None,
            settings: self.settings(sections),
            tools: self.tools(tools),
            resources: self.resources(resources),
            prompts: self.prompts(prompts),
            warnings: Vec::new(),
            places: declared.places(),
        };
        if let Some((key, states)) = states {
            let draft = Draft {
                name: file.name.clone(),
                description: file.description.clone(),
                states,
                always: always.artifacts,
                always_everything: always.everything,
                settings: file.settings.clone(),
                targets: Targets::Closed,
            };
            file.workflow = self.judge(draft, graph, key, &declared);
        }
        file
    }

    fn file_name(&mut self, sections: &Sections<'_>) -> Option<String> {
        let entry = sections.find("name")?;
        let name = self.text("name", &entry.value)?;
        self.free_name("a workflow", name, entry.value.span);
        Some(name.to_owned())
    }

    fn settings(&mut self, sections: &Sections<'_>) -> Settings {
        let mut settings = Settings::default();
        let Some(Entry { value, .. }) = sections.find("settings") else {
            return settings;
        };
        for Entry { key, value } in self.map("settings", value).unwrap_or_default() {
            match key.text.as_str() {
                "scope" => self.scope(value, &mut settings),
                "busy" => {
                    let choices = [("wait", Busy::Wait), ("refuse", Busy::Refuse)];
                    set(&mut settings.busy, self.choice("busy", value, &choices));
                }
                "visibility" => {
                    let choices = [
                        ("dynamic", Visibility::Dynamic),
                        ("static", Visibility::Static),
                    ];
                    let chosen = self.choice("visibility", value, &choices);
                    set(&mut settings.visibility, chosen);
                }
                "finish" => {
                    let choices = [("restart", Finish::Restart), ("stay", Finish::Stay)];
                    set(&mut settings.finish, self.choice("finish", value, &choices));
                }
                "tool_timeout" => {
                    let chosen = self.duration("tool_timeout", value);
                    set(&mut settings.tool_timeout, chosen);
                }
                _ => self.stray(&SETTINGS, key),
            }
        }
        settings
    }

    fn scope(&mut self, node: &Node, settings: &mut Settings) {
        if let Some(later @ ("handle" | "principal")) = node.value.written() {
            let key = format!("scope: {later}");
            let reason = "an instance belongs to a `session`, or is `global`, in this version";
            self.error(node.span, FileProblem::NotYet { key, reason });
            return;
        }
        let choices = [("session", Scope::Session), ("global", Scope::Global)];
        set(&mut settings.scope, self.choice("scope", node, &choices));
    }

    fn judge(
        &mut self,
        draft: Draft,
        graph: Graph,
        states: &Key,
        declared: &Declared,
    ) -> Option<Workflow> {
        let (workflow, mut findings) = match draft.build(Some(&declared.catalogue)) {
            Ok(workflow) => {
                let warnings = workflow.warnings().to_vec();
                (Some(workflow), warnings)
            }
            Err(invalid) => (None, invalid.findings),
        };
        match graph {
            Graph::AsWritten => {}
            Graph::InPieces => findings.retain(|finding| is_local(&finding.problem)),
        }
        for Finding { problem, span } in &mut findings {
            span.get_or_insert_with(|| declared.span_of(problem).unwrap_or(states.span));
        }
        self.findings.extend(findings);
        workflow
    }
}

/// How much of the workflow could be read.
#[derive(Clone, Copy)]
enum Graph {
    /// All of it.
    AsWritten,
    /// Some of it is missing, so it makes no sense to say what is missing from it.
    InPieces,
}

/// Whether a problem stays one however much of the workflow is missing.
fn is_local(problem: &Problem) -> bool {
    match problem {
        Problem::File { .. }
        | Problem::SeveralInitialStates { .. }
        | Problem::DuplicateState { .. }
        | Problem::UnknownTarget { .. }
        | Problem::TwoEdges { .. }
        | Problem::BoundAndAlways { .. }
        | Problem::UnknownArtifact { .. } => true,
        Problem::NoStates
        | Problem::NoInitialState
        | Problem::NoReachableEnd { .. }
        | Problem::UnreachableState { .. }
        | Problem::Trap { .. }
        | Problem::BindingsAfterEnd { .. }
        | Problem::NoOutcome { .. }
        | Problem::BoundNowhere { .. }
        | Problem::NotThereYet { .. } => false,
    }
}

/// What the file declares, well or badly, and where.
struct Declared<'n> {
    catalogue: Catalogue,
    spans: HashMap<(Kind, &'n str), Span>,
}

impl Default for Declared<'_> {
    fn default() -> Self {
        Self {
            catalogue: Catalogue::closed(),
            spans: HashMap::new(),
        }
    }
}

impl<'n> Declared<'n> {
    fn add(&mut self, kind: Kind, entries: &'n [Entry]) {
        for Entry { key, .. } in entries {
            self.catalogue.insert(kind, key.text.as_str());
            self.spans.insert((kind, &key.text), key.span);
        }
    }

    fn places(&self) -> HashMap<(Kind, String), Span> {
        let spans = self.spans.iter();
        spans
            .map(|(&(kind, name), &span)| ((kind, name.to_owned()), span))
            .collect()
    }

    fn span_of(&self, problem: &Problem) -> Option<Span> {
        let Problem::BoundNowhere { artifact } = problem else {
            return None;
        };
        self.spans
            .get(&(artifact.kind, artifact.name.as_str()))
            .copied()
    }
}

fn set<T>(setting: &mut T, chosen: Option<T>) {
    if let Some(chosen) = chosen {
        *setting = chosen;
    }
}
