//! What a player knows: the state, the lists, and what came of the last step.

use super::client::{Answer, Client};
use anyhow::Result;
use interlock::{
    Server,
    workflow::{Kind, file::File},
};
use serde_json::{Map, Value, json};

/// A client that keeps its lists as fresh as it is told to.
pub(crate) struct Session {
    client: Client,
    state: Option<String>,
    lists: Vec<(Kind, Vec<Item>)>,
}

/// Something to call, as a list shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
    /// Its JSON type, where the schema names one.
    pub(crate) of: Option<String>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Call(String, Map<String, Value>),
    Read(String),
    Get(String, Map<String, Value>),
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) end: End,
    pub(crate) text: String,
    pub(crate) structured: Option<Value>,
    /// From where to where it led, if it led anywhere.
    pub(crate) moved: Option<(String, String)>,
    pub(crate) changes: Vec<Change>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Ok,
    /// It ran and failed.
    Error,
    Refused {
        code: u64,
        name: String,
    },
}

/// How a list differs from what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) appeared: Vec<String>,
    pub(crate) gone: Vec<String>,
}

const WORKFLOW: &str = "dev.interlock/workflow";
const REFUSAL: &str = "dev.interlock/refusal";

impl Session {
    /// Connects and looks around.
    pub(crate) async fn start(server: &Server, file: &File) -> Result<Self> {
        let mut client = Client::connect(server).await?;
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
        };
        let answer = self.client.request(method, params).await?;
        let mut told = read(&answer.body);
        told.moved = self.follow(&answer);
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

fn state_told(body: &Result<Value, Value>) -> Option<&str> {
    match body {
        Ok(result) => result["_meta"][WORKFLOW]["state"].as_str(),
        Err(error) => error["data"]["refusal"]["state"].as_str(),
    }
}

/// What an answer says, apart from what it changed.
fn read(body: &Result<Value, Value>) -> Told {
    let (end, text, structured) = match body {
        Ok(result) => {
            let failed = match result["isError"] == true {
                true => End::Error,
                false => End::Ok,
            };
            let end = refusal(&result["_meta"][REFUSAL]).unwrap_or(failed);
            (end, said(result), result.get("structuredContent").cloned())
        }
        Err(error) => {
            let end = refusal(&error["data"]["refusal"]).unwrap_or(End::Error);
            (end, text_of(&error["message"]), None)
        }
    };
    Told {
        end,
        text,
        structured,
        moved: None,
        changes: Vec::new(),
    }
}

fn refusal(facts: &Value) -> Option<End> {
    Some(End::Refused {
        code: facts["code"].as_u64()?,
        name: text_of(&facts["name"]),
    })
}

/// The text of a result: of a tool, a resource or a prompt.
fn said(result: &Value) -> String {
    let list = |key: &str| result[key].as_array().into_iter().flatten();
    let blocks = list("content").map(block);
    let contents = list("contents").map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", part["mimeType"].as_str().unwrap_or("binary")),
    });
    let messages = list("messages").map(|message| {
        let role = message["role"].as_str().unwrap_or("somebody");
        format!("{role}: {}", block(&message["content"]))
    });
    let all: Vec<_> = blocks.chain(contents).chain(messages).collect();
    all.join("\n")
}

fn block(block: &Value) -> String {
    match (block["type"].as_str(), block["text"].as_str()) {
        (Some("text"), Some(text)) => text.to_owned(),
        (Some(kind), _) => format!("[{kind}]"),
        (None, _) => "[unknown]".to_owned(),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
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

fn of_schema(schema: &Value) -> Vec<Argument> {
    let required = schema["required"].as_array();
    let required: Vec<_> = required.into_iter().flatten().collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| Argument {
            name: name.clone(),
            description: property["description"].as_str().map(str::to_owned),
            required: required.iter().any(|needed| *needed == name),
            of: property["type"].as_str().map(str::to_owned),
        })
        .collect()
}

fn of_prompt(arguments: &Value) -> Vec<Argument> {
    let arguments = arguments.as_array().into_iter().flatten();
    arguments
        .map(|argument| Argument {
            name: text_of(&argument["name"]),
            description: argument["description"].as_str().map(str::to_owned),
            required: argument["required"] == true,
            of: Some("string".to_owned()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_success_an_error_or_a_refusal() {
        let ok = read(&Ok(json!({
            "content": [{"type": "text", "text": "a"}, {"type": "image", "data": ""}],
            "structuredContent": {"k": 1},
        })));
        assert_eq!((ok.end, &*ok.text), (End::Ok, "a\n[image]"));
        assert_eq!(ok.structured, Some(json!({"k": 1})));
        let error = read(&Ok(json!({"content": [], "isError": true})));
        assert_eq!(error.end, End::Error);
        let refused = End::Refused {
            code: 1081,
            name: "not_in_state".to_owned(),
        };
        let facts = json!({"code": 1081, "name": "not_in_state"});
        let tool = json!({"content": [], "isError": true, "_meta": {REFUSAL: facts}});
        assert_eq!(read(&Ok(tool)).end, refused);
        let resource = json!({"code": -32602, "message": "no", "data": {"refusal": facts}});
        let told = read(&Err(resource));
        assert_eq!((told.end, &*told.text), (refused, "no"));
        let fault = read(&Err(json!({"code": -32603, "message": "broken"})));
        assert_eq!(fault.end, End::Error);
    }

    #[test]
    fn resources_and_prompts_have_texts_too() {
        let resource =
            json!({"contents": [{"uri": "a:b", "text": "x"}, {"uri": "a:c", "blob": ""}]});
        assert_eq!(read(&Ok(resource)).text, "x\n[binary]");
        let prompt = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        });
        assert_eq!(read(&Ok(prompt)).text, "user: hi");
    }

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
