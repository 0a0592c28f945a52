//! The section `servers`: MCP servers that are served through this one.

use super::{
    Program, Transport, Upstream,
    reader::{Reader, Shape},
    report::FileProblem,
    tree::{Entry, Node, Value},
};
use crate::Span;
use std::collections::HashMap;

pub(super) const SERVER: Shape = Shape {
    what: "a server",
    keys: &[
        "command", "env", "env_from", "cwd", "url", "headers", "prefix",
    ],
};

/// Keys that go only with `command`, and those that go only with `url`.
const OF_COMMAND: [&str; 3] = ["env", "env_from", "cwd"];
const OF_URL: [&str; 1] = ["headers"];

/// Longer ones would leave no room for the tool's own name.
const LONGEST_PREFIX: usize = 32;

impl Reader<'_> {
    pub(super) fn servers(&mut self, entries: &[Entry]) -> Vec<Upstream> {
        let mut servers = Vec::new();
        let mut prefixes = HashMap::new();
        for entry in entries {
            let Some(server) = self.server(entry, entries.len()) else {
                continue;
            };
            let first = prefixes
                .entry(server.prefix.clone())
                .or_insert_with(|| server.name.clone());
            if *first != server.name {
                let problem = FileProblem::SamePrefix {
                    prefix: server.prefix.clone(),
                    first: first.clone(),
                };
                self.error(prefix_span(entry), problem);
            }
            servers.push(server);
        }
        servers
    }

    fn server(&mut self, Entry { key, value }: &Entry, servers: usize) -> Option<Upstream> {
        self.plain_name(SERVER.what, &key.text, key.span);
        let entries = self.map(&key.text, value)?;
        let mut program = Program::default();
        let (mut url, mut headers) = (None, Vec::new());
        // With a single server there is nobody to be told apart from.
        let mut prefix = match servers {
            1 => String::new(),
            _ => format!("{}_", key.text),
        };
        for Entry { key, value } in entries {
            match key.text.as_str() {
                "url" => url = Some(self.url(value)),
                "headers" => headers = self.headers(value),
                "prefix" => {
                    if let Some(written) = self.prefix(value) {
                        prefix = written;
                    }
                }
                "args" => self.error(key.span, FileProblem::Args),
                other => {
                    if !self.program_key(&mut program, other, value) {
                        self.stray(&SERVER, key);
                    }
                }
            }
        }
        let command = place_of(entries, "command");
        let transport = match (command, url) {
            (Some(_), None) => {
                self.misplaced(entries, &OF_URL, "url");
                Transport::Command(program)
            }
            (None, Some(url)) => {
                self.misplaced(entries, &OF_COMMAND, "command");
                Transport::Http { url: url?, headers }
            }
            (Some(_), Some(_)) => {
                let span = place_of(entries, "url").unwrap_or(key.span);
                self.error(span, FileProblem::TwoTransports);
                return None;
            }
            (None, None) => {
                self.error(key.span, FileProblem::NoTransport);
                return None;
            }
        };
        Some(Upstream {
            name: key.text.clone(),
            transport,
            prefix,
            place: key.span.into(),
        })
    }

    pub(super) fn misplaced(
        &mut self,
        entries: &[Entry],
        keys: &[&'static str],
        with: &'static str,
    ) {
        for key in keys {
            if let Some(span) = place_of(entries, key) {
                self.error(span, FileProblem::GoesWith { key, with });
            }
        }
    }

    fn headers(&mut self, node: &Node) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        for Entry { key, value } in self.map("headers", node).unwrap_or_default() {
            if !is_header(&key.text) {
                self.bad_name("a header", HEADER, &key.text, key.span);
            }
            let breaks = ['\0', '\r', '\n'];
            if let Some(text) = self.free_of("headers", value, "texts of one line", &breaks) {
                headers.push((key.text.clone(), text));
            }
        }
        headers
    }

    fn url(&mut self, node: &Node) -> Option<String> {
        let url = self.owned("url", node)?;
        self.variables(&url, node.span);
        // What a variable stands for is not known here.
        if !url.starts_with("${") && !is_http(&url) {
            let wanted = "an address that begins with `http://` or `https://`";
            self.bad_value("url", wanted, node.span, &url);
        }
        Some(url)
    }

    fn prefix(&mut self, node: &Node) -> Option<String> {
        let prefix = self.owned("prefix", node)?;
        let fits = prefix.len() <= LONGEST_PREFIX
            && prefix
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !fits {
            self.bad_value("prefix", PREFIX, node.span, &prefix);
        }
        Some(prefix)
    }
}

const HEADER: &str = "it must have letters, digits or `-`";
const PREFIX: &str = "at most 32 letters, digits, `_` or `-`";

/// A token of RFC 9110.
fn is_header(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// A scheme, a host and no blanks; whether anybody answers there is found out later.
fn is_http(url: &str) -> bool {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let start = url.get(..scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme)
            .then(|| &url[scheme.len()..])
    });
    rest.is_some_and(|rest| {
        !rest.starts_with(['/', '?', '#', ':'])
            && !rest.is_empty()
            && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

/// Where a server's prefix stands, or else its name, which gives the prefix.
fn prefix_span(Entry { key, value }: &Entry) -> Span {
    let entries = match &value.value {
        Value::Map(entries) => entries.as_slice(),
        Value::Null | Value::Bool(_) | Value::Number { .. } | Value::Text(_) | Value::List(_) => {
            &[]
        }
    };
    let prefix = entries.iter().find(|entry| entry.key.text == "prefix");
    prefix.map_or(key.span, |entry| entry.value.span)
}

pub(super) fn place_of(entries: &[Entry], key: &str) -> Option<Span> {
    let entry = entries.iter().find(|entry| entry.key.text == key)?;
    Some(entry.key.span)
}
