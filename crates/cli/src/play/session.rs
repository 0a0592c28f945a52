//! What a player knows: the state, the lists, and what came of the last step.

use super::{
    dry::{Dry, Prepared},
    served::Served,
};
use crate::simulate::Change;
use anyhow::Result;
use interlock::workflow::{Kind, Outcome};
use serde_json::{Map, Value};
use std::time::Duration;

/// Who answers what is played.
pub(crate) enum Session<'f> {
    /// The real server.
    Served(Box<Served>),
    /// The gate alone.
    Dry(Box<Dry<'f>>),
}

impl<'f> Session<'f> {
    /// Where the workflow stands, if there is one.
    pub(crate) fn state(&self) -> Option<&str> {
        match self {
            Self::Served(served) => served.state(),
            Self::Dry(dry) => dry.state(),
        }
    }

    /// Everything that is listed.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        let items: Vec<_> = match self {
            Self::Served(served) => served.items().collect(),
            Self::Dry(dry) => dry.items().collect(),
        };
        items.into_iter()
    }

    /// What else is known about where the workflow stands, a line each.
    pub(crate) fn facts(&self) -> Vec<String> {
        match self {
            Self::Served(_) => Vec::new(),
            Self::Dry(dry) => dry.facts(),
        }
    }

    /// Takes one step.
    pub(crate) async fn perform(&mut self, action: &Action) -> Result<Told> {
        match self {
            Self::Served(served) => served.perform(action).await,
            Self::Dry(dry) => Ok(dry.perform(action).await),
        }
    }

    /// Says something about calls to come. Where tools run, that is what a person answers.
    pub(crate) fn prepare(&mut self, prepared: &Prepared) {
        match (self, prepared) {
            (Self::Dry(dry), prepared) => dry.prepare(prepared),
            (Self::Served(served), Prepared::Consent(consent)) => served.say(*consent),
            (Self::Served(_), Prepared::Outcome(_) | Prepared::Result(_) | Prepared::Answer(_)) => {
            }
        }
    }

    /// The run, if it is a dry one.
    pub(crate) fn dry(&mut self) -> Option<&mut Dry<'f>> {
        match self {
            Self::Served(_) => None,
            Self::Dry(dry) => Some(dry),
        }
    }
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
    /// Time passes, in a dry run.
    Wait(Duration),
    /// An operator says how the call ended that nobody knew the end of, in a dry run.
    Settle(Outcome),
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    /// What a person was asked before, and the answer, a line each.
    pub(crate) asked: Vec<String>,
    pub(crate) end: End,
    pub(crate) text: String,
    pub(crate) structured: Option<Value>,
    /// From where to where it led, if it led anywhere.
    pub(crate) moved: Option<(String, String)>,
    pub(crate) changes: Vec<Change>,
    /// What only a dry run can tell, a line each.
    pub(crate) notes: Vec<String>,
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

const REFUSAL: &str = "dev.interlock/refusal";

/// What an answer says, apart from what it changed.
pub(crate) fn read(body: &Result<Value, Value>) -> Told {
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
        asked: Vec::new(),
        end,
        text,
        structured,
        moved: None,
        changes: Vec::new(),
        notes: Vec::new(),
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

pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The arguments that a schema names.
pub(crate) fn of_schema(schema: &Value) -> Vec<Argument> {
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

/// The arguments of a prompt.
pub(crate) fn of_prompt(arguments: &Value) -> Vec<Argument> {
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
    use serde_json::json;

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
}
