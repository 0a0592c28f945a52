//! What a model has to know of an earlier call, whatever became of this one.

use super::{Purpose, Running};
use crate::{
    convert::No,
    failure::Failure,
    handler::Reply,
    model::{CallToolResult, ContentBlock},
};
use interlock_proto::invocation::Outcome;
use interlock_workflow::Kind;

impl Running {
    /// Takes what is to be told, before the step is written of a call that is answered: then it is
    /// not told again after a restart. Whoever took the call back is told nothing, however it ended.
    pub(super) fn be_warned(&mut self, outcome: Outcome) {
        if self.signals.has_heard_cancel() {
            return;
        }
        match outcome {
            Outcome::Success | Outcome::Error | Outcome::Timeout => self.warn(),
            Outcome::Cancelled | Outcome::Unknown => {}
        }
    }

    fn warn(&mut self) {
        if self.purpose == Purpose::Use && self.warning.is_none() {
            let instance = self.shared.instance();
            self.warning = instance.and_then(|instance| instance.tell_unclear());
        }
    }

    /// Adds what has to be known besides.
    pub(super) fn warn_in(&mut self, reply: &mut Reply) {
        self.warn();
        if let Some(warning) = &self.warning {
            reply.warn(warning);
        }
        reply.tell(&self.told);
        self.told.extend(self.warning.take());
    }

    /// A failure that a model reads, if something has to be known besides.
    pub(super) fn warned_failure(&mut self, failure: &Failure) -> Option<Reply> {
        self.warn();
        let is_read = failure.refusal().is_none() && failure.rpc_error().is_none();
        let warning = self.warning.take()?;
        let reply = (self.kind == Kind::Tool && is_read).then(|| {
            let texts = [failure.to_string(), warning.clone()];
            CallToolResult::error(texts.map(ContentBlock::text).into()).into()
        });
        self.told.push(warning);
        reply
    }

    /// The refusal with what has to be known besides.
    pub(super) fn warned_no(&mut self, mut no: No) -> No {
        self.warn();
        if let Some(warning) = self.warning.take() {
            let text = format!("{} {warning}", no.refusal.message());
            no.refusal = no.refusal.because(text);
        }
        no
    }
}
