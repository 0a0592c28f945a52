//! The port through which a call reaches a client that keeps a connection or a session.

use crate::{
    context::{client::ClientInfo, environment::Environment},
    model::{
        elicitation::{AskError, Question},
        failure::Failure,
    },
    outbound::Route,
};
use futures_util::future::BoxFuture;
use interlock_engine::{Instance, Observer};
use interlock_proto::{AskId, Level, Refusal};
use serde_json::Value;
use std::{fmt, sync::Arc};
use tokio::sync::oneshot;

/// Where the answer to a question goes.
pub(crate) type AnswerSender = oneshot::Sender<Result<Value, AskError>>;

/// A connected client, as the calls that it makes see it. It observes its own instance, so a call
/// that moves the instance can leave its own client out when it notifies the others.
pub(crate) trait ClientLink: Observer + fmt::Debug {
    fn environment(&self) -> &Arc<Environment>;

    /// How the client introduced itself.
    fn client(&self) -> Arc<ClientInfo>;

    /// The least level of log messages that the client wants.
    fn level(&self) -> Level;

    /// The workflow instance of the session.
    fn instance(&self) -> Option<&Arc<Instance>>;

    /// Sends a question to the client, on the stream of the call that asks.
    ///
    /// # Errors
    ///
    /// A refusal if the connection takes no questions now. The sender comes back with it.
    fn ask(
        &self,
        question: &Question,
        answer: AnswerSender,
        route: &Route,
    ) -> Result<AskId, (Refusal, AnswerSender)>;

    /// Cancels a question whose answer is not needed any more.
    fn withdraw(&self, ask: AskId, route: &Route);

    /// Notifies the client that an elicitation by URL is complete.
    fn tell_visited(&self, id: &str);

    /// Reads a value of the session's data.
    fn get(&self, name: &str) -> Option<Value>;

    /// Writes a value to the session's data, and to its store where there is one.
    fn set<'a>(&'a self, name: &'a str, value: Value) -> BoxFuture<'a, Result<(), Failure>>;
}
