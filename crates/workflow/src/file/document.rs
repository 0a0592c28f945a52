//! The file as a whole: which sections it has, and how they make a workflow.

use super::{
    CommandTool, File, MAX_BYTES, Upstream,
    artifacts::any_object,
    narrow,
    reader::{Reader, Shape},
    report::{FileProblem, Findings, MAX_FINDINGS},
    states::Known,
    tree::{self, Entry, Key, Node, Value},
};
use crate::{
    About, Catalogue, Draft, Finding, Invalid, Kind, Problem, Settings, Span, Targets, Workflow,
};
use std::collections::HashMap;

pub(super) const FILE: Shape = Shape {
    what: "the file",
    keys: &[
        "interlock",
        "name",
        "description",
        "servers",
        "tools",
        "resources",
        "prompts",
        "always",
        "settings",
        "states",
    ],
};

pub(super) fn read(text: &[u8]) -> Result<File, Invalid> {
    let (file, findings) = with_sections(text, |reader, sections| reader.file(sections));
    let warnings = findings.judge()?;
    let file = file.expect("what cannot be read at all has an error");
    Ok(File { warnings, ..file })
}

pub(super) fn inspect(text: &[u8]) -> (Option<File>, Vec<Finding>) {
    let (file, findings) = with_sections(text, |reader, sections| reader.file(sections));
    (file, Invalid::from(findings).findings)
}

/// Reads the workflow alone: nobody asks whether there is what it names.
pub(super) fn read_definition(text: &[u8]) -> Result<Draft, Invalid> {
    let (draft, findings) = with_sections(text, |reader, sections| {
        reader.check_keys(sections);
        let always = sections
            .find("always")
            .map(|entry| reader.always(&entry.value, &Known::Anything))
            .unwrap_or_default();
        let states = sections.find("states").and_then(|entry| {
            let entries = reader.map("states", &entry.value)?;
            Some(reader.states(entries))
        });
        Draft {
            name: reader.file_name(sections).unwrap_or_default(),
            description: reader.description(sections),
            states: states.unwrap_or_default(),
            always: always.artifacts,
            always_everything: always.everything,
            settings: reader.settings_of(sections),
            targets: Targets::Closed,
        }
    });
    findings.judge()?;
    Ok(draft.expect("what cannot be read at all has an error"))
}

/// Reads what a text holds, as far as it can be read, and says what is wrong with it.
fn with_sections<T>(
    text: &[u8],
    take: impl FnOnce(&mut Reader<'_>, &Sections<'_>) -> T,
) -> (Option<T>, Findings) {
    let mut findings = Findings::default();
    if text.len() > MAX_BYTES {
        findings.error(tree::place("", 0, 0), FileProblem::TooLarge);
        return (None, findings);
    }
    let text = match str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let good = error.valid_up_to();
            let before = str::from_utf8(&text[..good]).unwrap_or_default();
            findings.error(tree::place(before, good, good), FileProblem::NotUtf8);
            return (None, findings);
        }
    };
    let Some(root) = tree::parse(text, &mut findings) else {
        return (None, findings);
    };
    let mut reader = Reader::new(text, findings);
    let sections = reader.sections(&root);
    let taken = sections.map(|sections| take(&mut reader, &sections));
    (taken, reader.findings)
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
            let entries = reader.entries(sections, key);
            declared.add(kind, entries);
            entries
        };
        let tools = section(self, Kind::Tool, "tools");
        let resources = section(self, Kind::Resource, "resources");
        let prompts = section(self, Kind::Prompt, "prompts");
        let servers = self.entries(sections, "servers");
        // A mistake in a server is no reason to doubt the states, which name only its tools.
        let before_servers = self.findings.count();
        let servers = self.servers(servers);
        let in_servers = self.findings.count() - before_servers;
        declared.expect(&servers);
        let always = sections
            .find("always")
            .map(|entry| self.always(&entry.value, &declared.known()))
            .unwrap_or_default();
        let states = sections.find("states").and_then(|Entry { key, value }| {
            let entries = self.map("states", value)?;
            Some((key, self.states(entries)))
        });
        // What was not understood up to here may be just what the graph lacks.
        let graph = match self.findings.count() - in_servers {
            0 => Graph::AsWritten,
            _ => Graph::InPieces,
        };

        self.check_keys(sections);
        let mut file = File {
            name: self.file_name(sections).unwrap_or_default(),
            description: self.description(sections),
            workflow: None,
            settings: self.settings_of(sections),
            servers,
            tools: self.tools(tools),
            resources: self.resources(resources),
            prompts: self.prompts(prompts),
            warnings: Vec::new(),
            places: declared.places(),
        };
        declared.describe(&file.tools);
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
            declared.keep(sections);
            file.workflow = self.judge(draft, graph, key, &declared);
        }
        file
    }

    fn entries<'n>(&mut self, sections: &Sections<'n>, key: &str) -> &'n [Entry] {
        let entry = sections.find(key);
        let entries = entry.and_then(|entry| self.map(key, &entry.value));
        entries.unwrap_or_default()
    }

    fn check_keys(&mut self, sections: &Sections<'_>) {
        let required = ["interlock", "name"];
        self.require(&FILE, sections.span, sections.entries, &required);
        for Entry { key, .. } in sections.entries {
            if !FILE.keys.contains(&key.text.as_str()) {
                self.stray(&FILE, key);
            }
        }
    }

    fn file_name(&mut self, sections: &Sections<'_>) -> Option<String> {
        let entry = sections.find("name")?;
        let name = self.text("name", &entry.value)?;
        self.free_name("a workflow", name, entry.value.span);
        Some(name.to_owned())
    }

    fn description(&mut self, sections: &Sections<'_>) -> Option<String> {
        let entry = sections.find("description")?;
        self.owned("description", &entry.value)
    }

    fn settings_of(&mut self, sections: &Sections<'_>) -> Settings {
        let entry = sections.find("settings");
        let settings = entry.map(|entry| self.settings(&entry.value));
        settings.unwrap_or_default()
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
        for (at, Finding { problem, span }) in findings.iter_mut().enumerate() {
            let place = declared.span_of(problem).unwrap_or(states.span);
            let whole = span.unwrap_or(place);
            // Nobody reads on that far, and each costs a look at the text.
            let exact = at < MAX_FINDINGS;
            let part = exact.then(|| narrow::to_the_part(self.text, whole, problem));
            *span = Some(part.unwrap_or(whole));
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
        | Problem::UnknownTarget { .. }
        | Problem::TwoEdges { .. }
        | Problem::NeverTaken { .. }
        | Problem::NoLastResort { .. }
        | Problem::Expression { .. }
        | Problem::TooMany { .. }
        | Problem::SaidTwice { .. }
        | Problem::BadTimeout
        | Problem::BadDuration { .. }
        | Problem::NoVisits { .. }
        | Problem::NoPlaceForHandle { .. }
        | Problem::HandleArgumentTaken { .. }
        | Problem::BoundAndAlways { .. }
        | Problem::UnknownArtifact { .. } => true,
        // The edge that sets it may be just what was not understood.
        Problem::UnknownMemory { .. }
        | Problem::NoStates
        | Problem::NoInitialState
        | Problem::NoReachableEnd { .. }
        | Problem::UnreachableState { .. }
        | Problem::Trap { .. }
        | Problem::BindingsAfterEnd { .. }
        | Problem::NoOutcome { .. }
        | Problem::NoMessages { .. }
        | Problem::IdleTimer { .. }
        | Problem::EndlessSampling { .. }
        | Problem::NeverSet { .. }
        | Problem::Unapproved { .. }
        | Problem::UnknownUnsaid { .. }
        | Problem::BoundNowhere { .. }
        | Problem::NotThereYet { .. } => false,
    }
}

/// What the file declares, well or badly, and where.
struct Declared<'n> {
    catalogue: Catalogue,
    /// What the names of the servers' tools and prompts begin with.
    prefixes: Vec<String>,
    spans: HashMap<(Kind, &'n str), Span>,
    /// Where the keys stand that survive a restart.
    kept: HashMap<&'n str, Span>,
}

impl Default for Declared<'_> {
    fn default() -> Self {
        Self {
            catalogue: Catalogue::closed(),
            prefixes: Vec::new(),
            spans: HashMap::new(),
            kept: HashMap::new(),
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

    fn expect(&mut self, servers: &[Upstream]) {
        for server in servers {
            self.catalogue.expect(server.prefix.as_str());
            self.prefixes.push(server.prefix.clone());
        }
    }

    fn describe(&mut self, tools: &[CommandTool]) {
        for tool in tools {
            let hints = tool.annotations.as_ref();
            let about = About {
                // A schema that says nothing is no reason to doubt a guard.
                input: (tool.input != any_object()).then(|| tool.input.clone()),
                output: tool.output.clone(),
                destructive: hints.and_then(|hints| hints.destructive_hint) == Some(true),
            };
            self.catalogue
                .describe(Kind::Tool, tool.name.as_str(), about);
        }
    }

    fn known(&self) -> Known<'_> {
        Known::Declared {
            catalogue: &self.catalogue,
            prefixes: &self.prefixes,
        }
    }

    fn places(&self) -> HashMap<(Kind, String), Span> {
        let spans = self.spans.iter();
        spans
            .map(|(&(kind, name), &span)| ((kind, name.to_owned()), span))
            .collect()
    }

    fn keep(&mut self, sections: &Sections<'n>) {
        let settings = sections.find("settings").map(|entry| &entry.value.value);
        let Some(Value::Map(settings)) = settings else {
            return;
        };
        let keep = settings.iter().find(|entry| entry.key.text == "keep");
        let Some(Value::List(items)) = keep.map(|entry| &entry.value.value) else {
            return;
        };
        let named = items
            .iter()
            .filter_map(|item| Some((item.value.written()?, item.span)));
        self.kept.extend(named);
    }

    /// Where something stands of which the judge does not know it.
    fn span_of(&self, problem: &Problem) -> Option<Span> {
        if let Problem::NeverSet { key, .. } = problem {
            return self.kept.get(key.as_str()).copied();
        }
        let Problem::BoundNowhere { artifact } = problem else {
            return None;
        };
        let key = (artifact.kind, artifact.name.as_str());
        self.spans.get(&key).copied()
    }
}
