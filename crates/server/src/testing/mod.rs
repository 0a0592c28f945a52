//! For your tests: a client in the same process, and a clock that moves when the test says so.
//!
//! Needs the feature `testing`:
//!
//! ```toml
//! [dev-dependencies]
//! mcp-interlock = { version = "0.1", features = ["testing"] }
//! ```
//!
//! [`TestClient`] speaks the protocol over memory: the server that it talks to is the one that
//! clients get. This room knows the whole server from the outside, and nothing in the server knows it.
//!
//! ```
//! use interlock::{Context, NoArguments, Server, Tool, Workflow, testing::TestClient};
//! use serde_json::json;
//!
//! # fn shop() -> Server {
//! #     let order = Workflow::builder("shop")
//! #         .state("cart", |s| s.initial().tool("checkout", |t| t.success("due")))
//! #         .state("due", |s| s.tool("pay", |t| t.success("paid")))
//! #         .state("paid", |s| s.terminal())
//! #         .build()
//! #         .expect("it is whole");
//! #     Server::builder("shop", "1.0.0")
//! #         .tool(Tool::new("checkout", |_: NoArguments, _: Context| async { "42 to pay" }))
//! #         .tool(Tool::new("pay", |_: NoArguments, _: Context| async { "thank you" }))
//! #         .workflow(order)
//! #         .build()
//! #         .expect("it is whole")
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // #[tokio::test]
//! // async fn nobody_pays_before_the_checkout() {
//! let mut client = TestClient::connect(&shop()).await;
//! assert_eq!(client.tools().await, ["checkout"]);
//! assert_eq!(client.call("pay", json!({})).await.code(), Some(1081));
//! assert_eq!(client.call("checkout", json!({})).await.state(), Some("due"));
//! assert_eq!(client.told(), ["notifications/tools/list_changed"]);
//! assert_eq!(client.tools().await, ["pay"]);
//! assert_eq!(client.call("pay", json!({})).await.text(), "thank you");
//! // }
//! # }
//! ```

mod answer;
mod client;
mod clock;
mod lines;

pub use answer::Answer;
pub use client::{Pending, TestClient, TestClientBuilder};
pub use clock::ManualClock;
pub use lines::{Connection, Direction, LineClient, PATIENCE, connect, soon};
