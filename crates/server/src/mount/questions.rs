//! Asks the client what a mounted handler asks.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates sampling and roots; until they are gone, they are served"
)]

use crate::{
    context::Context,
    model::{
        ElicitResult, JsonObject,
        elicitation::{AskError, Form, Visit},
    },
    mount::convert,
    outbound::lock,
};
use rmcp::model::{
    ClientResult, ElicitRequestParams, ErrorCode, ErrorData, InputRequest, ListRootsResult,
    ServerRequest,
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Mutex};

/// The names of a call's questions.
///
/// A client of 2026-07-28 brings its answers by these names when the handler runs again, so a
/// handler that asks the same in the same order must find the same names.
#[derive(Debug, Default)]
pub(super) struct QuestionKeys(Mutex<BTreeSet<String>>);

impl QuestionKeys {
    /// A name for the next question that has none.
    pub(super) fn next(&self) -> String {
        self.first_free((1..).map(|number| format!("q{number}")))
    }

    /// The handler's own name for a question, unless it was used before.
    pub(super) fn named(&self, key: &str) -> String {
        let again = (2..).map(|number| format!("{key}-{number}"));
        self.first_free(std::iter::once(key.to_owned()).chain(again))
    }

    fn first_free(&self, mut keys: impl Iterator<Item = String>) -> String {
        let mut taken = lock(&self.0);
        let free = keys.find(|key| !taken.contains(key));
        let free = free.expect("there are more names than questions");
        taken.insert(free.clone());
        free
    }
}

/// Asks what a handler asks on its peer.
pub(super) async fn ask(
    context: &Context,
    key: &str,
    request: ServerRequest,
) -> Result<ClientResult, ErrorData> {
    let request = match request {
        ServerRequest::CreateMessageRequest(request) => InputRequest::CreateMessage(request),
        ServerRequest::ElicitRequest(request) => InputRequest::Elicitation(request),
        ServerRequest::ListRootsRequest(request) => InputRequest::ListRoots(request),
        ServerRequest::PingRequest(_) => return Err(not_passed_on("ping")),
        ServerRequest::CustomRequest(request) => return Err(not_passed_on(&request.method)),
        _ => return Err(not_passed_on("this")),
    };
    ask_client(context, key, request)
        .await
        .map_err(convert::unanswered)
}

/// Asks what a handler's result asks.
pub(super) async fn fulfil(
    context: &Context,
    key: &str,
    request: InputRequest,
) -> Result<Value, AskError> {
    let answer = ask_client(context, key, request).await?;
    serde_json::to_value(answer).map_err(|error| AskError::Invalid(error.to_string()))
}

async fn ask_client(
    context: &Context,
    key: &str,
    request: InputRequest,
) -> Result<ClientResult, AskError> {
    match request {
        InputRequest::CreateMessage(request) => {
            let said = context.sample(key, &request.params).await?;
            Ok(ClientResult::CreateMessageResult(Box::new(said)))
        }
        InputRequest::Elicitation(request) => {
            let answer = elicit(context, key, request.params).await?;
            Ok(ClientResult::ElicitResult(answer))
        }
        InputRequest::ListRoots(_) => {
            let roots = context.roots(key).await?;
            Ok(ClientResult::ListRootsResult(ListRootsResult::new(roots)))
        }
        _ => Err(AskError::NotAQuestion("it is not passed on".to_owned())),
    }
}

async fn elicit(
    context: &Context,
    key: &str,
    params: ElicitRequestParams,
) -> Result<ElicitResult, AskError> {
    match params {
        ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } => {
            let schema = object(serde_json::to_value(requested_schema))?;
            context.elicit(key, &Form::new(message, schema)).await
        }
        ElicitRequestParams::UrlElicitationParams {
            message,
            url,
            elicitation_id,
            ..
        } => {
            let visit = Visit::new(elicitation_id, url).message(message);
            context.visit(key, &visit).await
        }
        _ => Err(AskError::NotAQuestion("it is not passed on".to_owned())),
    }
}

fn object(value: serde_json::Result<Value>) -> Result<JsonObject, AskError> {
    let wrong = |error: serde_json::Error| AskError::NotAQuestion(error.to_string());
    value.and_then(serde_json::from_value).map_err(wrong)
}

pub(super) fn not_passed_on(method: &str) -> ErrorData {
    let message = format!("`{method}` is not passed on to the client");
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_the_same_names_if_they_come_in_the_same_order() {
        let named = || {
            let keys = QuestionKeys::default();
            [
                keys.next(),
                keys.named("name"),
                keys.named("q2"),
                keys.next(),
                keys.named("name"),
            ]
        };
        assert_eq!(named(), ["q1", "name", "q2", "q3", "name-2"]);
        assert_eq!(named(), named());
    }
}
