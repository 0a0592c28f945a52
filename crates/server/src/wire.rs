//! Lines for the client, and the trace of what led to them.

use crate::convert::Answer;
use interlock_proto::{
    Code, Refusal, RequestId,
    frame::{self, ErrorId},
    machine::Machine,
};
use interlock_workflow::Kind;
use serde::Serialize;

/// Appends a result of our own making.
pub(crate) fn result(out: &mut Vec<u8>, id: &RequestId, result: &(impl Serialize + ?Sized)) {
    frame::write_result(out, id, result).expect("our own results are JSON");
    out.push(b'\n');
}

/// Appends the answer to a call.
pub(crate) fn answer(out: &mut Vec<u8>, id: &RequestId, answer: Answer) {
    let written = match answer {
        Answer::Result(reply) => frame::write_result(out, id, &reply),
        Answer::Error(error) => frame::write_raw_error(out, id, &error),
    };
    match written {
        Ok(()) => out.push(b'\n'),
        Err(why) => {
            tracing::error!(error = %why, "a result is not representable");
            let refusal =
                Refusal::new(Code::InternalError).because("the result is not representable");
            error(out, &ErrorId::Known(id.clone()), &refusal);
        }
    }
}

/// Appends an error.
pub(crate) fn error(out: &mut Vec<u8>, id: &ErrorId, refusal: &Refusal) {
    frame::write_error(out, id, refusal);
    out.push(b'\n');
}

/// Appends a list-changed notification.
pub(crate) fn list_changed(out: &mut Vec<u8>, kind: Kind) {
    let method = match kind {
        Kind::Tool => "notifications/tools/list_changed",
        Kind::Resource => "notifications/resources/list_changed",
        Kind::Prompt => "notifications/prompts/list_changed",
    };
    frame::write_notification(out, method, None::<&()>).expect("it holds only its name");
    out.push(b'\n');
}

/// Every transition is traced.
pub(crate) fn trace<M: Machine>(from: &M::State, event: &str, to: &M::State) {
    tracing::debug!(
        machine = M::NAME,
        from = M::state_name(from),
        event,
        to = M::state_name(to),
    );
}
