//! The section `settings`.

use super::{
    reader::{Reader, Shape},
    report::FileProblem,
    tree::{Entry, Node},
};
use crate::{Busy, Finish, Scope, Settings, Visibility};
use std::collections::HashSet;

pub(super) const SETTINGS: Shape = Shape {
    what: "the section `settings`",
    keys: &[
        "scope",
        "busy",
        "visibility",
        "finish",
        "tool_timeout",
        "keep",
    ],
};

/// The words for each choice, which the writer uses too.
pub(super) const SCOPES: [(&str, Scope); 4] = [
    ("session", Scope::Session),
    ("handle", Scope::Handle),
    ("principal", Scope::Principal),
    ("global", Scope::Global),
];
pub(super) const BUSY: [(&str, Busy); 2] = [("wait", Busy::Wait), ("refuse", Busy::Refuse)];
pub(super) const VISIBILITY: [(&str, Visibility); 2] = [
    ("dynamic", Visibility::Dynamic),
    ("static", Visibility::Static),
];
pub(super) const FINISH: [(&str, Finish); 2] =
    [("restart", Finish::Restart), ("stay", Finish::Stay)];

impl Reader<'_> {
    pub(super) fn settings(&mut self, node: &Node) -> Settings {
        let mut settings = Settings::default();
        for Entry { key, value } in self.map("settings", node).unwrap_or_default() {
            match key.text.as_str() {
                "scope" => choose(&mut settings.scope, self.choice("scope", value, &SCOPES)),
                "busy" => choose(&mut settings.busy, self.choice("busy", value, &BUSY)),
                "visibility" => {
                    let chosen = self.choice("visibility", value, &VISIBILITY);
                    choose(&mut settings.visibility, chosen);
                }
                "finish" => choose(&mut settings.finish, self.choice("finish", value, &FINISH)),
                "tool_timeout" => {
                    let chosen = self.duration("tool_timeout", value);
                    choose(&mut settings.tool_timeout, chosen);
                }
                "keep" => settings.keep = self.keep(value),
                _ => self.stray(&SETTINGS, key),
            }
        }
        settings
    }

    fn keep(&mut self, node: &Node) -> Vec<String> {
        let (mut keep, mut seen) = (Vec::new(), HashSet::new());
        for item in self.list("keep", node).unwrap_or_default() {
            let Some(name) = self.owned("keep", item) else {
                continue;
            };
            self.memory_key(&name, item.span);
            if seen.insert(name.clone()) {
                keep.push(name);
            } else {
                self.error(item.span, FileProblem::ListedTwice { name });
            }
        }
        keep
    }
}

fn choose<T>(setting: &mut T, chosen: Option<T>) {
    if let Some(chosen) = chosen {
        *setting = chosen;
    }
}
