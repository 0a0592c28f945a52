//! A player that is a client of the real server.

use super::{
    client::{Answer, Client},
    person::Person,
    session::{Action, Item, Told, of_prompt, of_schema, read, text_of},
};
use crate::simulate::{Change, Consent};
use anyhow::{Result, bail};
use interlock::{
    Operator, Server,
    workflow::{Kind, file::File},
};
use serde_json::{Value, json};

/// A client that keeps its lists as fresh as it is told to.
pub(crate) struct Served {
    client: Client,
    state: Option<String>,
    lists: Vec<(Kind, Vec<Item>)>,
    /// No message says that the workflow has ended and begun again, but the journal does.
    operator: Operator,
    /// How much of the journal was read.
    read: Option<u64>,
}

/// How many entries of the journal are read at once.
const PAGE: usize = 100;

const WORKFLOW: &str = "dev.interlock/workflow";

impl Served {
    /// Connects and looks around.
    pub(crate) async fn start(server: &Server, file: &File, person: Person) -> Result<Self> {
        let mut client = Client::connect(server, person).await?;
        let mut lists = Vec::new();
        for kind in client.kinds() {
            lists.push((kind, items(kind, &client.list(kind).await?)));
        }
        // No message tells the state before the first call, but the file does.
        let initial = |workflow: &interlock::Workflow| {
            workflow.state_name(workflow.initial().state).to_owned()
        };
        Ok(Self {
            client,
            state: file.workflow.as_ref().map(initial),
            lists,
            operator: server.operator(),
            read: None,
        })
    }

    /// Where the workflow stands, if there is one.
    pub(crate) fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Everything that is listed.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.lists.iter().flat_map(|(_, items)| items)
    }

    /// Says what a person answers who will be asked.
    pub(crate) const fn say(&mut self, consent: Consent) {
        self.client.person().say(consent);
    }

    /// Takes one step, and fetches the lists that were said to have changed.
    pub(crate) async fn perform(&mut self, action: &Action) -> Result<Told> {
        let (method, params) = match action {
            Action::Call(name, arguments) => (
                "tools/call",
                json!({ "name": name, "arguments": arguments }),
            ),
            Action::Read(uri) => ("resources/read", json!({ "uri": uri })),
            Action::Get(name, arguments) => (
                "prompts/get",
                json!({ "name": name, "arguments": arguments }),
            ),
            Action::Wait(_) | Action::Settle(_) => bail!("this needs --dry"),
        };
        let answer = self.client.request(method, params).await?;
        let mut told = read(&answer.body);
        told.moved = self.follow(&answer);
        told.asked.clone_from(&answer.asked);
        if let Some(instance) = instance_told(&answer.body) {
            told.notes = self.ends(instance).await?;
        }
        for kind in answer.changed {
            told.changes.extend(self.refresh(kind).await?);
        }
        Ok(told)
    }

    fn follow(&mut self, answer: &Answer) -> Option<(String, String)> {
        let to = state_told(&answer.body)?;
        let from = self.state.replace(to.to_owned())?;
        (from != to).then(|| (from, to.to_owned()))
    }

    /// Where the workflow has ended since this was asked last, a line each.
    async fn ends(&mut self, instance: &str) -> Result<Vec<String>> {
        let mut ends = Vec::new();
        loop {
            let page = self.operator.history(instance, self.read, PAGE).await?;
            for recorded in &page {
                let entry = serde_json::to_value(&recorded.entry)?;
                if entry["terminal"] == true {
                    ends.push(format!("ended: in state {}", text_of(&entry["to"])));
                }
                self.read = Some(recorded.number);
            }
            if page.len() < PAGE {
                return Ok(ends);
            }
        }
    }

    async fn refresh(&mut self, kind: Kind) -> Result<Option<Change>> {
        let after = items(kind, &self.client.list(kind).await?);
        let Some((_, list)) = self.lists.iter_mut().find(|(of, _)| *of == kind) else {
            return Ok(None);
        };
        let before = std::mem::replace(list, after);
        Ok(Some(Change {
            kind,
            appeared: missing(list, &before),
            gone: missing(&before, list),
        }))
    }
}

/// The names that are in one list and not in the other.
fn missing(from: &[Item], other: &[Item]) -> Vec<String> {
    from.iter()
        .filter(|item| other.iter().all(|there| there.name != item.name))
        .map(|item| item.name.clone())
        .collect()
}

fn instance_told(body: &Result<Value, Value>) -> Option<&str> {
    body.as_ref().ok()?["_meta"][WORKFLOW]["instance"].as_str()
}

fn state_told(body: &Result<Value, Value>) -> Option<&str> {
    match body {
        Ok(result) => result["_meta"][WORKFLOW]["state"].as_str(),
        Err(error) => error["data"]["refusal"]["state"].as_str(),
    }
}

fn items(kind: Kind, entries: &[Value]) -> Vec<Item> {
    entries
        .iter()
        .map(|entry| Item {
            kind,
            name: text_of(match kind {
                Kind::Tool | Kind::Prompt => &entry["name"],
                Kind::Resource => &entry["uri"],
            }),
            description: entry["description"].as_str().map(str::to_owned),
            arguments: match kind {
                Kind::Tool => of_schema(&entry["inputSchema"]),
                Kind::Resource => Vec::new(),
                Kind::Prompt => of_prompt(&entry["arguments"]),
            },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_from_the_schema() {
        let tool = json!({
            "name": "t",
            "inputSchema": {
                "properties": {
                    "b": {"type": "string", "description": "B"},
                    "a": {"type": ["integer", "null"]},
                },
                "required": ["b"],
            },
        });
        let [item] = &items(Kind::Tool, &[tool])[..] else {
            panic!("one item");
        };
        let [b, a] = &item.arguments[..] else {
            panic!("{:?}", item.arguments);
        };
        assert_eq!(
            (&*b.name, b.required, b.of.as_deref()),
            ("b", true, Some("string"))
        );
        assert_eq!((&*a.name, a.required, a.of.as_deref()), ("a", false, None));
    }
}
