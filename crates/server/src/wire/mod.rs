//! Decided facts as JSON: answers, refusals, notifications and the `_meta` of results.
//!
//! Everything here is a function of its arguments. This room knows the types of the model and the
//! workflow; it keeps no state, waits for nothing, and decides nothing but the wording.

mod encode;
pub(crate) mod refusal;
pub(crate) mod result;
pub(crate) mod result_meta;
mod transition;
pub(crate) mod workflow_meta;

pub(crate) use encode::*;
pub(crate) use transition::Transition;
