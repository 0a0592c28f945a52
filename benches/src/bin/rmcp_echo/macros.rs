//! The tools by macros, as rmcp's own examples have them.

use rmcp::{
    ServerHandler, handler::server::wrapper::Parameters, schemars, tool, tool_handler, tool_router,
};

#[derive(Clone)]
pub(crate) struct Echo;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Arguments {
    /// What comes back.
    text: String,
}

/// The one argument of every other tool.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct One<T> {
    value: T,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[expect(dead_code, reason = "read for the message only")]
struct Point {
    x: f64,
    y: f64,
}

fn again(value: impl std::fmt::Debug) -> String {
    format!("{value:?}")
}

#[tool_router]
impl Echo {
    #[tool(description = "Says it again")]
    async fn echo(&self, Parameters(arguments): Parameters<Arguments>) -> String {
        arguments.text
    }

    #[tool(description = "Takes a name and says it again")]
    async fn tool_01(&self, Parameters(one): Parameters<One<String>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a name that is not empty and says it again")]
    async fn tool_02(&self, Parameters(one): Parameters<One<String>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a short name and says it again")]
    async fn tool_03(&self, Parameters(one): Parameters<One<String>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes an identifier and says it again")]
    async fn tool_04(&self, Parameters(one): Parameters<One<String>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a day and says it again")]
    async fn tool_05(&self, Parameters(one): Parameters<One<String>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a colour and says it again")]
    async fn tool_06(&self, Parameters(one): Parameters<One<String>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a country and says it again")]
    async fn tool_07(&self, Parameters(one): Parameters<One<String>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a number and says it again")]
    async fn tool_08(&self, Parameters(one): Parameters<One<f64>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a share and says it again")]
    async fn tool_09(&self, Parameters(one): Parameters<One<f64>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a price and says it again")]
    async fn tool_10(&self, Parameters(one): Parameters<One<f64>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a count and says it again")]
    async fn tool_11(&self, Parameters(one): Parameters<One<u64>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a percentage and says it again")]
    async fn tool_12(&self, Parameters(one): Parameters<One<u8>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes an even number and says it again")]
    async fn tool_13(&self, Parameters(one): Parameters<One<i64>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a port and says it again")]
    async fn tool_14(&self, Parameters(one): Parameters<One<u16>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a yes or no and says it again")]
    async fn tool_15(&self, Parameters(one): Parameters<One<bool>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a number or nothing and says it again")]
    async fn tool_16(&self, Parameters(one): Parameters<One<Option<f64>>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a list of names and says it again")]
    async fn tool_17(&self, Parameters(one): Parameters<One<Vec<String>>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes two numbers and says it again")]
    async fn tool_18(&self, Parameters(one): Parameters<One<[f64; 2]>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a set of tags and says it again")]
    async fn tool_19(&self, Parameters(one): Parameters<One<Vec<String>>>) -> String {
        again(one.value)
    }

    #[tool(description = "Takes a point and says it again")]
    async fn tool_20(&self, Parameters(one): Parameters<One<Point>>) -> String {
        again(one.value)
    }
}

#[tool_handler]
impl ServerHandler for Echo {}
