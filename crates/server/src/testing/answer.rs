//! What a server answers.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An answer to a request: a result, or an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer(pub(super) Value);

impl Answer {
    /// The whole JSON-RPC message.
    #[must_use]
    pub const fn message(&self) -> &Value {
        &self.0
    }

    /// Whether it is an error, or the result of a tool that failed or was refused.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.0.get("error").is_some() || self.0["result"]["isError"] == true
    }

    /// The code with which the request was refused (1001–1089), if it was.
    #[must_use]
    pub fn code(&self) -> Option<u64> {
        let of_result = &self.0["result"]["_meta"]["dev.interlock/refusal"];
        let of_error = &self.0["error"]["data"]["refusal"];
        let code = |refusal: &Value| refusal["code"].as_u64();
        code(of_result).or_else(|| code(of_error))
    }

    /// The state in which it says that the workflow is now.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        let of_result = &self.0["result"]["_meta"];
        let of_error = &self.0["error"]["data"];
        let state = |told: &'_ Value| told["dev.interlock/workflow"]["state"].is_string();
        let told = if state(of_result) {
            of_result
        } else {
            of_error
        };
        told["dev.interlock/workflow"]["state"].as_str()
    }

    /// All its texts, one per line: of a tool's content, a resource's contents or a prompt's messages;
    /// of an error, its message.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(message) = self.0["error"]["message"].as_str() {
            return message.to_owned();
        }
        let result = &self.0["result"];
        let parts = ["content", "contents", "messages"];
        let parts = parts.iter().filter_map(|part| result[part].as_array());
        let texts = parts.flatten().filter_map(|part| {
            let text = part["text"].as_str();
            text.or_else(|| part["content"]["text"].as_str())
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The result as a type: one of [`model`](crate::model), or your own.
    ///
    /// # Panics
    ///
    /// If it is an error, or does not fit the type.
    #[must_use]
    #[track_caller]
    pub fn result<T: DeserializeOwned>(&self) -> T {
        let result = self.0.get("result");
        let result = result.unwrap_or_else(|| panic!("this is no result: {}", self.0));
        read(result)
    }

    /// The structured content of a tool's result.
    ///
    /// # Panics
    ///
    /// If there is none, or it does not fit the type.
    #[must_use]
    #[track_caller]
    pub fn structured<T: DeserializeOwned>(&self) -> T {
        read(&self.0["result"]["structuredContent"])
    }
}

#[track_caller]
fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"))
}
