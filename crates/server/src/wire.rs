//! Lines for the client, and the trace of what led to them.

use crate::{
    ask::Question,
    audience::Filter,
    convert::Answer,
    note::SubscriptionMeta,
    route::Tone,
    standing::Home,
    voice::{Log, Progress},
};
use interlock_proto::{
    AskId, Code, Level, Refusal, RequestId, RpcCode,
    frame::{self, ErrorId},
    machine::Machine,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tracing::level_filters::LevelFilter;

/// Appends a result of our own making.
pub(crate) fn result(out: &mut Vec<u8>, id: &RequestId, result: &(impl Serialize + ?Sized)) {
    frame::write_result(out, id, result).expect("our own results are JSON");
    out.push(b'\n');
}

/// Appends a result that was written before.
pub(crate) fn ready(out: &mut Vec<u8>, id: &RequestId, result: &RawValue) {
    frame::write_ready_result(out, id, result.get());
    out.push(b'\n');
}

/// How long an answer may be before its buffer has to grow.
const USUAL: usize = 512;

/// The line that answers a call, and what it is. If it is one of a session, where that is at home.
pub(crate) fn answered(id: &RequestId, said: &Answer, home: Option<Home<'_>>) -> (Tone, Vec<u8>) {
    let mut line = Vec::with_capacity(USUAL);
    let tone = answer(&mut line, id, said, home);
    (tone, line)
}

/// Appends the answer to a call.
pub(crate) fn answer(
    out: &mut Vec<u8>,
    id: &RequestId,
    answer: &Answer,
    home: Option<Home<'_>>,
) -> Tone {
    let (written, tone) = match answer {
        Answer::Result(reply, signature) => {
            let write = |out: &mut Vec<u8>| {
                reply.write(out)?;
                if let Some(signature) = signature {
                    signature.sign(out, home);
                }
                Ok(())
            };
            (frame::write_result_by(out, id, write), Tone::Result)
        }
        Answer::Asks(result) => (frame::write_result(out, id, result), Tone::Result),
        Answer::Error(code, error) => (frame::write_raw_error(out, id, error), Tone::Error(*code)),
    };
    match written {
        Ok(()) => {
            out.push(b'\n');
            tone
        }
        Err(why) => {
            tracing::error!(error = %why, "a result is not representable");
            let refusal =
                Refusal::new(Code::InternalError).because("the result is not representable");
            error(out, &ErrorId::Known(id.clone()), &refusal);
            Tone::Error(RpcCode::INTERNAL_ERROR)
        }
    }
}

/// Appends an error.
pub(crate) fn error(out: &mut Vec<u8>, id: &ErrorId, refusal: &Refusal) {
    frame::write_error(out, id, refusal);
    out.push(b'\n');
}

/// Appends how far a call has come.
pub(crate) fn progress(out: &mut Vec<u8>, token: &RawValue, progress: &Progress) {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "progressToken")]
        token: &'a RawValue,
        progress: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    }
    let params = Params {
        token,
        progress: progress.progress,
        total: progress.total,
        message: progress.message.as_deref(),
    };
    notification(out, "notifications/progress", &params);
}

/// Appends a message for the client's log.
pub(crate) fn log(out: &mut Vec<u8>, log: &Log) {
    #[derive(Serialize)]
    struct Params<'a> {
        level: Level,
        #[serde(skip_serializing_if = "Option::is_none")]
        logger: Option<&'a str>,
        data: &'a Value,
    }
    let params = Params {
        level: log.level,
        logger: log.logger.as_deref(),
        data: &log.data,
    };
    notification(out, "notifications/message", &params);
}

/// Appends a question of ours.
pub(crate) fn request(out: &mut Vec<u8>, id: AskId, question: &Question) {
    frame::write_request(out, id, question.method, question.params.as_ref())
        .expect("questions are JSON");
    out.push(b'\n');
}

/// Appends that a person has done elsewhere what they were asked to do there.
pub(crate) fn visited(out: &mut Vec<u8>, id: &str) {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "elicitationId")]
        id: &'a str,
    }
    notification(out, "notifications/elicitation/complete", &Params { id });
}

/// Appends that a request is taken back, or that a stream of changes ends.
pub(crate) fn cancelled(out: &mut Vec<u8>, id: &RequestId, reason: &str) {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "requestId")]
        id: &'a RequestId,
        reason: &'a str,
    }
    notification(out, "notifications/cancelled", &Params { id, reason });
}

/// Appends that a stream of changes ends, which also says to which it belongs.
pub(crate) fn unsubscribed(out: &mut Vec<u8>, id: &RequestId, reason: &str) {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "requestId")]
        id: &'a RequestId,
        reason: &'a str,
        #[serde(rename = "_meta")]
        meta: SubscriptionMeta<'a>,
    }
    let meta = SubscriptionMeta { id };
    notification(out, "notifications/cancelled", &Params { id, reason, meta });
}

/// Appends what a stream of changes will tell of.
pub(crate) fn acknowledged(out: &mut Vec<u8>, id: &RequestId, notifications: &Filter) {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "_meta")]
        meta: SubscriptionMeta<'a>,
        notifications: &'a Filter,
    }
    let params = Params {
        meta: SubscriptionMeta { id },
        notifications,
    };
    notification(out, "notifications/subscriptions/acknowledged", &params);
}

/// Appends the end of a stream of changes, as the answer to the request that opened it.
pub(crate) fn listened(out: &mut Vec<u8>, id: &RequestId) {
    #[derive(Serialize)]
    struct Done<'a> {
        #[serde(rename = "resultType")]
        result_type: &'static str,
        #[serde(rename = "_meta")]
        meta: SubscriptionMeta<'a>,
    }
    let done = Done {
        result_type: "complete",
        meta: SubscriptionMeta { id },
    };
    result(out, id, &done);
}

fn notification(out: &mut Vec<u8>, method: &str, params: &impl Serialize) {
    frame::write_notification(out, method, Some(params)).expect("our own messages are JSON");
    out.push(b'\n');
}

/// A transition that is made, if anybody wants to know. Every one is traced, once no lock is held:
/// whoever listens to traces may use the server.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "every transition is traced"]
pub(crate) struct Transition(Option<Change>);

#[derive(Clone, Copy, Debug)]
struct Change {
    machine: &'static str,
    from: &'static str,
    event: &'static str,
    to: &'static str,
}

impl Transition {
    /// Something comes to a machine.
    pub(crate) fn by<M: Machine>(from: &M::State, input: &M::Input) -> Self {
        let is_wanted = LevelFilter::current() >= LevelFilter::DEBUG;
        Self(is_wanted.then(|| Change {
            machine: M::NAME,
            from: M::state_name(from),
            event: M::input_name(input),
            to: "",
        }))
    }

    /// Where that has led.
    pub(crate) fn to<M: Machine>(mut self, to: &M::State) -> Self {
        if let Some(change) = &mut self.0 {
            change.to = M::state_name(to);
        }
        self
    }

    pub(crate) fn trace(self) {
        if let Some(change) = self.0 {
            change.trace();
        }
    }
}

impl Change {
    #[cold]
    fn trace(self) {
        let Self {
            machine,
            from,
            event,
            to,
        } = self;
        tracing::debug!(machine, from, event, to);
    }
}
