//! What the tests over HTTP share.

use crate::support::{messages::object, tools::tool};
use interlock::{
    BearerTokens, Builder, Context, Failure, Form, HttpOptions, Level, NoArguments, Prompt,
    Resource, Server, Tool, schemars,
};
use interlock_testkit::web::{Answer, Request, Session, Site};
use serde_json::{Value, json};

/// The version that opens sessions, and is checked most.
pub(crate) const SESSIONS: &str = "2025-11-25";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Steps {
    steps: Vec<f64>,
}

/// A tool that says again what it is told.
pub(crate) fn echo() -> Tool {
    Tool::new("echo", |args: Text, _: Context| async move { args.text })
}

/// A tool that reports these steps and is done.
pub(crate) fn walk() -> Tool {
    Tool::new("walk", |args: Steps, context: Context| async move {
        for step in args.steps {
            context.progress(step, Some(10.0), Some("on the way")).await;
        }
        "there"
    })
}

/// A tool that logs once at each level.
pub(crate) fn chatter() -> Tool {
    Tool::new("chatter", |_: NoArguments, context: Context| async move {
        for level in Level::ALL {
            context
                .log_as(level, Some("chatter"), json!({"at": level.as_str()}))
                .await;
        }
        "said"
    })
}

/// A form that asks for a number.
pub(crate) fn age_form() -> Form {
    let schema = json!({
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 0}},
        "required": ["age"],
    });
    Form::new("How old are you?", object(schema))
}

/// A tool that asks how old somebody is, and says it again.
pub(crate) fn ask_age() -> Tool {
    Tool::new("ask_age", |_: NoArguments, context: Context| async move {
        let answer = context.elicit("age", &age_form()).await?;
        Ok::<_, Failure>(match answer.content {
            Some(content) => format!("age {}", content["age"]),
            None => "no answer".to_owned(),
        })
    })
}

/// A server without a workflow that can do some of everything.
pub(crate) fn plain() -> Builder {
    Server::builder("plain", "1.0.0")
        .tool(echo())
        .tool(walk())
        .tool(chatter())
        .tool(ask_age())
        .tool(tool("peek"))
        .resource(Resource::text("note://rules", "be kind"))
        .resource(Resource::text("note://plan", "be quick"))
        .prompt(Prompt::text("sorry", "Apologise to {{who}}.").required("who"))
}

/// The plain server, served as by default.
pub(crate) async fn plain_site() -> Site {
    Site::open(&plain().build().unwrap(), HttpOptions::default()).await
}

/// A 2026-07-28 call of a tool.
pub(crate) fn modern_call(id: impl Into<Value>, tool: &str, arguments: Value) -> Request {
    let params = json!({"name": tool, "arguments": arguments});
    Request::modern(id, "tools/call", params)
}

/// Status, JSON-RPC code and refusal's code of an answer that is an error.
pub(crate) async fn verdict(answer: Answer) -> (u16, i64, Option<i64>) {
    let (status, body) = answer.refused().await;
    let error = &body["error"];
    let code = error["code"].as_i64();
    let code = code.unwrap_or_else(|| panic!("{body}"));
    (status, code, error["data"]["refusal"]["code"].as_i64())
}

/// The token of somebody.
pub(crate) const ALICE: &str = "secret-of-alice";

/// The token of somebody else.
pub(crate) const BOB: &str = "secret-of-bob";

/// Whose these tokens are.
pub(crate) fn tokens() -> BearerTokens {
    BearerTokens::new().token(ALICE, "alice").token(BOB, "bob")
}

/// As by default, for those who have a token.
pub(crate) fn authenticated() -> HttpOptions {
    HttpOptions::default().authenticator(tokens())
}

/// Proves that a session is still served.
pub(crate) async fn is_served(session: &Session) {
    let answer = session.request("ping", json!({})).await;
    assert_eq!(answer["result"], json!({}));
}
