//! What a handler may ask of the client: a form, a visit to a URL, a sample of its model, its
//! roots.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling and roots; until they are gone, they are served"
)]

use crate::{
    model::{
        CreateMessageRequestParams, CreateMessageResult, ElicitResult, ElicitationAction,
        JsonObject, Root,
    },
    schema::{Schema, of_type},
};
use interlock_proto::{Ability, Refusal, Version, refusal::shortened};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::IpAddr;

/// A form that a person is asked to fill in.
///
/// ```
/// use interlock::Form;
///
/// #[derive(serde::Deserialize, interlock::schemars::JsonSchema)]
/// struct Contact { name: String, email: String }
///
/// let form = Form::of::<Contact>("How can we reach you?");
/// # let _ = form;
/// ```
#[derive(Clone, Debug)]
pub struct Form {
    message: String,
    schema: JsonObject,
}

impl Form {
    /// A form by its schema: an object whose properties are strings, numbers, booleans and
    /// choices, as the specification has them.
    pub fn new(message: impl Into<String>, schema: JsonObject) -> Self {
        Self {
            message: message.into(),
            schema,
        }
    }

    /// A form whose fields are those of a type: text, numbers, booleans and choices, each of which
    /// may be left out.
    pub fn of<T: JsonSchema>(message: impl Into<String>) -> Self {
        Self::new(message, of_type::form::<T>())
    }

    /// Whether a client of this version can be expected to know such a form.
    fn check(&self, version: Version) -> Result<(), AskError> {
        let wrong = |why: String| Err(AskError::NotAQuestion(why));
        if self.schema.get("type") != Some(&Value::from("object")) {
            return wrong("the schema of a form must have the `type` \"object\"".to_owned());
        }
        let fields = self.schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten() {
            if !is_field(field, version) {
                return wrong(format!(
                    "the field `{name}` is none that a form of {version} can have"
                ));
            }
        }
        Ok(())
    }
}

/// Forms are flat: text, numbers, booleans, choices and, from 2025-11-25 on, several of them.
fn is_field(field: &Value, version: Version) -> bool {
    let titled = field.get("oneOf").is_some();
    match field.get("type").and_then(Value::as_str) {
        Some("string") => !titled || version >= Version::V2025_11_25,
        Some("number" | "integer" | "boolean") => true,
        Some("array") => {
            let items = field.get("items");
            let choice = |name| items.is_some_and(|items| items.get(name).is_some());
            version >= Version::V2025_11_25 && (choice("enum") || choice("anyOf"))
        }
        Some(_) | None => false,
    }
}

/// A URL that a person is asked to visit.
///
/// ```
/// use interlock::Visit;
///
/// let visit = Visit::new("42", "https://example.com/sign-in/42").message("Please sign in");
/// # let _ = visit;
/// ```
#[derive(Clone, Debug)]
pub struct Visit {
    id: String,
    url: String,
    message: String,
}

impl Visit {
    /// A visit by the server's own name for it, and its URL. The URL should lead to that name, and
    /// never to the person, who is to be checked there.
    pub fn new(id: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            url: url.into(),
            message: "Please visit this page".to_owned(),
        }
    }

    /// Why the person should go there.
    #[must_use]
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.message = text.into();
        self
    }
}

/// A person is sent to `https`, or to a page of this machine.
fn check_url(url: &str) -> Result<(), AskError> {
    let is_safe = url.parse::<http::Uri>().is_ok_and(|uri| {
        let is = |scheme| {
            uri.scheme_str()
                .is_some_and(|it| it.eq_ignore_ascii_case(scheme))
        };
        let host = uri.host().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = host.eq_ignore_ascii_case("localhost")
            || address.parse().is_ok_and(|it: IpAddr| it.is_loopback());
        !host.is_empty() && (is("https") || (is("http") && is_loopback))
    });
    match is_safe {
        true => Ok(()),
        false => Err(AskError::NotAQuestion(format!(
            "a person can be asked to visit an https URL, or an http one of this machine, and not \
             `{}`",
            shortened(url)
        ))),
    }
}

/// Why a client did not answer what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It never said that it can do this, so it was not asked.
    #[error("{}", .0.message())]
    NotDeclared(Refusal),
    /// It cannot be asked now.
    #[error("{}", .0.message())]
    NotNow(Refusal),
    /// It answered with an error.
    #[error("the client answered with an error: {message} ({code})")]
    Failed {
        /// The client's code.
        code: i64,
        /// The client's words.
        message: String,
    },
    /// It answered with something that is no answer.
    #[error("the client's answer is not valid: {0}")]
    Invalid(String),
    /// It did not answer in time.
    #[error("the client did not answer in time")]
    Late,
    /// The call was cancelled or has ended, so nothing waits for the answer any more.
    #[error("nobody waits for the answer any more")]
    Ended,
    /// What was to be asked is not a question that the protocol allows.
    #[error("{0}")]
    NotAQuestion(String),
}

/// Something the client is asked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) ability: Ability,
    pub(crate) method: &'static str,
    pub(crate) params: Option<Value>,
}

impl Question {
    pub(crate) fn form(form: &Form, version: Version) -> Result<Self, AskError> {
        form.check(version)?;
        let mut params = json!({ "message": form.message, "requestedSchema": form.schema });
        // Earlier versions have forms only, and no `mode`.
        if version >= Version::V2025_11_25 {
            params["mode"] = "form".into();
        }
        Ok(Self {
            ability: Ability::Form,
            method: "elicitation/create",
            params: Some(params),
        })
    }

    pub(crate) fn url(visit: &Visit, version: Version) -> Result<Self, AskError> {
        check_url(&visit.url)?;
        let mut params = json!({ "mode": "url", "message": visit.message, "url": visit.url });
        if version < Version::V2026_07_28 {
            params["elicitationId"] = visit.id.as_str().into();
        }
        Ok(Self {
            ability: Ability::Url,
            method: "elicitation/create",
            params: Some(params),
        })
    }

    pub(crate) fn sample(params: &CreateMessageRequestParams) -> Result<Self, AskError> {
        let ability = if params.tools.is_some() || params.tool_choice.is_some() {
            Ability::SamplingTools
        } else {
            Ability::Sampling
        };
        let params = serde_json::to_value(params)
            .map_err(|error| AskError::NotAQuestion(error.to_string()))?;
        Ok(Self {
            ability,
            method: "sampling/createMessage",
            params: Some(params),
        })
    }

    pub(crate) const fn roots() -> Self {
        Self {
            ability: Ability::Roots,
            method: "roots/list",
            params: None,
        }
    }
}

/// Reads what a person did with a form.
pub(crate) fn read_form(form: &Form, answer: Value) -> Result<ElicitResult, String> {
    let mut result = read_consent(answer)?;
    if result.action == ElicitationAction::Accept {
        let content = result.content.get_or_insert_with(|| json!({}));
        Schema::of_arguments(&form.schema)?.check(content)?;
    }
    Ok(result)
}

/// Reads what a person did.
pub(crate) fn read_consent(answer: Value) -> Result<ElicitResult, String> {
    read(answer)
}

/// Reads what the client's model said.
pub(crate) fn read_sample(answer: Value) -> Result<CreateMessageResult, String> {
    let result: CreateMessageResult = read(answer)?;
    result.validate()?;
    Ok(result)
}

/// Reads the client's roots.
pub(crate) fn read_roots(answer: Value) -> Result<Vec<Root>, String> {
    #[derive(Deserialize)]
    struct Roots {
        roots: Vec<Root>,
    }
    read(answer).map(|Roots { roots }| roots)
}

fn read<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, String> {
    if !answer.is_object() {
        return Err("it is no object".to_owned());
    }
    serde_json::from_value(answer).map_err(|error| shortened(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
        Form::new("How old?", schema.as_object().unwrap().clone())
    }

    #[test]
    fn a_form_says_that_it_is_one_where_there_is_a_choice() {
        let mode = |version| {
            let question = Question::form(&form(), version).unwrap();
            question.params.unwrap()["mode"].clone()
        };
        assert_eq!(mode(Version::V2025_06_18), Value::Null);
        assert_eq!(mode(Version::V2025_11_25), "form");
        assert_eq!(mode(Version::V2026_07_28), "form");
    }

    #[test]
    fn a_form_is_flat() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Size {
            Small,
            Large,
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        struct Order {
            what: String,
            size: Size,
            note: Option<String>,
            count: Option<u8>,
        }
        let asked = |schema: Value, version| {
            let form = Form::new("?", schema.as_object().unwrap().clone());
            Question::form(&form, version).is_ok()
        };
        for version in [Version::V2025_06_18, Version::V2026_07_28] {
            let form = Form::of::<Order>("What?");
            let question = Question::form(&form, version).unwrap();
            let schema = &question.params.unwrap()["requestedSchema"];
            assert_eq!(
                schema["properties"]["size"]["enum"],
                json!(["Small", "Large"])
            );
            assert_eq!(schema["properties"]["note"]["type"], "string");
            assert_eq!(schema["properties"]["count"]["type"], "integer");
            assert_eq!(schema["required"], json!(["what", "size"]));
            assert_eq!(schema.get("$defs"), None);
            let nested = json!({"type": "object", "properties": {"a": {"type": "object"}}});
            assert!(!asked(nested, version));
            assert!(!asked(
                json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
                version
            ));
            assert!(!asked(json!({"type": "string"}), version));
        }
        let several = json!({"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
        }});
        assert!(!asked(several.clone(), Version::V2025_06_18));
        assert!(asked(several, Version::V2025_11_25));
    }

    #[test]
    fn a_url_has_an_id_of_its_own_only_where_the_server_asks_by_itself() {
        let id = |version| {
            let question = Question::url(&Visit::new("7", "https://example.com/7"), version);
            question.unwrap().params.unwrap()["elicitationId"].clone()
        };
        assert_eq!(id(Version::V2025_11_25), "7");
        assert_eq!(id(Version::V2026_07_28), Value::Null);
    }

    #[test]
    fn an_accepted_form_must_fit_its_schema() {
        let filled = |answer| read_form(&form(), answer).map(|result| result.content);
        let good = json!({"action": "accept", "content": {"age": 7}});
        assert_eq!(filled(good), Ok(Some(json!({"age": 7}))));
        let wrong = json!({"action": "accept", "content": {"age": "seven"}});
        assert!(filled(wrong).unwrap_err().contains("/age"));
        assert!(filled(json!({"action": "accept"})).is_err());
        assert_eq!(filled(json!({"action": "decline"})), Ok(None));
        assert!(filled(json!({"action": "perhaps"})).is_err());
        assert!(filled(json!("accept")).is_err());
    }

    #[test]
    fn a_sample_is_the_assistants() {
        let said = |role: &str| {
            read_sample(
                json!({"role": role, "content": {"type": "text", "text": "hi"}, "model": "m"}),
            )
        };
        assert!(said("assistant").is_ok());
        assert!(said("user").is_err());
    }
}
