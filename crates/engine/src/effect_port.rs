//! What follows a step: the port through which the engine runs the effects of an edge.
//!
//! The engine knows effects by name alone. The server that builds it says what they do.

use crate::{observer::Observer, principal::Principal};
use async_trait::async_trait;
use interlock_workflow::{Artifact, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// Runs effects by their names. Every name that an edge of the workflow mentions must be known.
///
/// ```
/// use async_trait::async_trait;
/// use interlock_engine::{Done, EffectRunner, Observer};
/// use std::{sync::Weak, time::Duration};
///
/// struct Mails;
///
/// #[async_trait]
/// impl EffectRunner for Mails {
///     fn time_for(&self, names: &[String]) -> Duration {
///         Duration::from_secs(5 * names.len() as u64)
///     }
///
///     fn wants_result(&self, _: &[String]) -> bool {
///         false
///     }
///
///     fn on_failure(&self, name: &str) -> Option<&str> {
///         (name == "mail").then_some("unsent")
///     }
///
///     async fn run(&self, name: &str, done: &Done, _: Vec<Weak<dyn Observer>>) -> Result<(), String> {
///         println!("{name}: {} went from {} to {}", done.instance, done.from, done.to);
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait EffectRunner: Send + Sync {
    /// How long these effects may take together.
    fn time_for(&self, names: &[String]) -> Duration;

    /// Whether one of these effects wants to see the result of the call.
    fn wants_result(&self, names: &[String]) -> bool;

    /// The state that an instance goes to if this effect fails; none if it stays.
    fn on_failure(&self, name: &str) -> Option<&str>;

    /// Runs one effect, within its own deadline. The error says what went wrong.
    async fn run(
        &self,
        name: &str,
        done: &Done,
        observers: Vec<Weak<dyn Observer>>,
    ) -> Result<(), String>;
}

/// A step that was taken, as its effects see it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Done {
    /// The instance that took it.
    pub instance: Arc<str>,
    /// The state before.
    pub from: String,
    /// The state that the edge leads to. After an end, the instance may stand elsewhere.
    pub to: String,
    /// It ended the workflow.
    pub ended: bool,
    /// What was called; nothing if it was time that took the step, or an answer of the client's
    /// model.
    pub call: Option<Artifact>,
    /// How the call ended, or whether the client's model has answered.
    pub outcome: Option<Outcome>,
    /// What it was called with.
    pub args: Value,
    /// What the call came to, or what the client's model answered: only for
    /// effects that [ask for it](EffectRunner::wants_result).
    pub result: Option<Value>,
    /// What the instance remembered with this step, before an end made it forget.
    pub memory: Map<String, Value>,
    /// On whose behalf the call was made.
    pub principal: Principal,
}

impl Done {
    pub(crate) fn of_call(
        &mut self,
        artifact: Artifact,
        outcome: Outcome,
        args: &Value,
        principal: &Value,
    ) {
        self.call = Some(artifact);
        self.outcome = Some(outcome);
        self.args = args.clone();
        self.principal = Principal::of_facts(principal);
    }

    /// What the instance remembered, as a type of one's own.
    ///
    /// # Errors
    ///
    /// If it does not fit the type.
    pub fn memory_as<T: DeserializeOwned>(&self) -> Result<T, MemoryError> {
        memory_as(&self.memory)
    }
}

/// The memory of an instance does not fit a type.
#[derive(Debug, thiserror::Error)]
#[error("what the instance remembers is no {wanted}: {source}")]
pub struct MemoryError {
    wanted: &'static str,
    source: serde_json::Error,
}

/// The memory of an instance as a type of one's own.
pub fn memory_as<T: DeserializeOwned>(memory: &Map<String, Value>) -> Result<T, MemoryError> {
    T::deserialize(Value::Object(memory.clone())).map_err(|source| MemoryError {
        wanted: std::any::type_name::<T>(),
        source,
    })
}

/// The effects of a step that was taken.
#[derive(Clone, Debug)]
pub struct EffectsOfStep {
    /// Their names, in order.
    pub names: Vec<String>,
    /// The step, as they see it.
    pub done: Done,
    /// The number of the call that took the step.
    pub call: Option<u64>,
}
