//! Refusals about handles: how a client without a session says which instance it means.

use crate::{
    catalog::{handle_argument::ARGUMENT, own_tools::OwnTool},
    wire::refusal::CallRefusal,
};
use interlock_engine::EngineError;
use interlock_proto::{Code, Refusal};
use interlock_workflow::Kind;

/// A handle that means nothing to us, or nothing that this client may know.
pub(crate) fn unknown() -> CallRefusal {
    let refusal = Refusal::new(Code::InvalidParams).because(format!(
        "There is no workflow with this id: it was made for somebody else, has expired, or never \
         was. Call `{}` for a new one, and pass the `{ARGUMENT}` that it returns.",
        OwnTool::Start.name()
    ));
    refusal.into()
}

/// What a refusal of a finished workflow says besides.
pub(crate) fn another() -> String {
    format!(
        " Call `{}` for a new workflow, and pass the `{ARGUMENT}` that it returns.",
        OwnTool::Start.name()
    )
}

/// A gated tool was called without a handle, or with something that cannot be one.
pub(crate) fn missing(tool: &str) -> CallRefusal {
    let refusal = Refusal::new(Code::InvalidJsonSchema).because(format!(
        "The arguments do not match the schema of '{tool}': `{ARGUMENT}` is required, and is a \
         string. Call `{}` first, and pass the `{ARGUMENT}` that it returns.",
        OwnTool::Start.name()
    ));
    refusal.into()
}

/// A resource or a prompt has nothing that could carry a handle.
pub(crate) fn no_place(kind: Kind, name: &str) -> CallRefusal {
    let refusal = Refusal::new(Code::NotInState).because(format!(
        "{kind} '{name}' is part of a workflow whose instances are found by a handle, and only \
         tools can carry one. Here it cannot be used: connect with `initialize` and an older \
         version, or ask the operator for a workflow of scope `principal` or `global`."
    ));
    refusal.into()
}

/// The store could not be asked for an instance.
pub(crate) fn not_looked_up(error: &EngineError) -> CallRefusal {
    let error = error as &dyn std::error::Error;
    tracing::error!(error, "could not look up an instance");
    let refusal = Refusal::new(Code::InternalError);
    refusal
        .because("the workflow could not be looked up")
        .into()
}
