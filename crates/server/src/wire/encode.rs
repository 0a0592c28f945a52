//! Messages for the client, each appended to a buffer as one line of JSON.

use crate::{
    model::{
        change::SubscriptionMeta,
        elicitation::Question,
        notification::{Log, Progress},
    },
    wire::{result::Answer, workflow_meta::SessionInstance},
};
use interlock_proto::{
    AskId, Code, Level, Refusal, RequestId, RpcCode,
    frame::{self, ErrorId},
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

/// What an answer is besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Result,
    Error(RpcCode),
}

/// Appends a result of our own making.
pub(crate) fn result(out: &mut Vec<u8>, id: &RequestId, result: &(impl Serialize + ?Sized)) {
    frame::write_result(out, id, result).expect("our own results are JSON");
    out.push(b'\n');
}

/// Appends a result that is encoded already.
pub(crate) fn raw_result(out: &mut Vec<u8>, id: &RequestId, result: &RawValue) {
    frame::write_ready_result(out, id, result.get());
    out.push(b'\n');
}

/// The line that answers a call. `session` is the instance of the session that is answered, if the
/// call came in one.
pub(crate) fn answer_line(
    id: &RequestId,
    answer: &Answer,
    session: Option<SessionInstance<'_>>,
) -> (AnswerKind, Vec<u8>) {
    // Most answers fit, so their buffer does not grow.
    let mut line = Vec::with_capacity(512);
    let kind = self::answer(&mut line, id, answer, session);
    (kind, line)
}

/// Appends the answer to a call, as [`answer_line`] does.
pub(crate) fn answer(
    out: &mut Vec<u8>,
    id: &RequestId,
    answer: &Answer,
    session: Option<SessionInstance<'_>>,
) -> AnswerKind {
    let (written, kind) = match answer {
        Answer::Result(reply, meta) => {
            let write = |out: &mut Vec<u8>| {
                serde_json::to_writer(&mut *out, reply)?;
                if let Some(meta) = meta {
                    meta.append_to(out, session);
                }
                Ok(())
            };
            (frame::write_result_by(out, id, write), AnswerKind::Result)
        }
        Answer::Asks(result) => (frame::write_result(out, id, result), AnswerKind::Result),
        Answer::Error(code, error) => {
            let kind = AnswerKind::Error(*code);
            (frame::write_raw_error(out, id, error), kind)
        }
    };
    match written {
        Ok(()) => {
            out.push(b'\n');
            kind
        }
        Err(why) => {
            tracing::error!(error = %why, "a result is not representable");
            let refusal =
                Refusal::new(Code::InternalError).because("the result is not representable");
            error(out, &ErrorId::Known(id.clone()), &refusal);
            AnswerKind::Error(RpcCode::INTERNAL_ERROR)
        }
    }
}

/// Appends an error.
pub(crate) fn error(out: &mut Vec<u8>, id: &ErrorId, refusal: &Refusal) {
    frame::write_error(out, id, refusal);
    out.push(b'\n');
}

/// Appends the progress of a call.
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

/// Appends a request of ours.
pub(crate) fn request(out: &mut Vec<u8>, id: AskId, question: &Question) {
    frame::write_request(out, id, question.method, question.params.as_ref())
        .expect("questions are JSON");
    out.push(b'\n');
}

/// Appends that the user has done what a URL elicitation asked for.
pub(crate) fn elicitation_complete(out: &mut Vec<u8>, id: &str) {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "elicitationId")]
        id: &'a str,
    }
    notification(out, "notifications/elicitation/complete", &Params { id });
}

/// Appends that a request of ours is cancelled.
pub(crate) fn cancelled(out: &mut Vec<u8>, id: &RequestId, reason: &str) {
    #[derive(Serialize)]
    struct Params<'a> {
        #[serde(rename = "requestId")]
        id: &'a RequestId,
        reason: &'a str,
    }
    notification(out, "notifications/cancelled", &Params { id, reason });
}

/// Appends that the server ends a subscription.
pub(crate) fn subscription_cancelled(out: &mut Vec<u8>, id: &RequestId, reason: &str) {
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

/// Appends which notifications a subscription will get.
pub(crate) fn subscription_acknowledged(
    out: &mut Vec<u8>,
    id: &RequestId,
    notifications: &impl Serialize,
) {
    #[derive(Serialize)]
    struct Params<'a, T> {
        #[serde(rename = "_meta")]
        meta: SubscriptionMeta<'a>,
        notifications: &'a T,
    }
    let params = Params {
        meta: SubscriptionMeta { id },
        notifications,
    };
    notification(out, "notifications/subscriptions/acknowledged", &params);
}

/// Appends the end of a subscription, as the answer to the request that opened it.
pub(crate) fn subscription_ended(out: &mut Vec<u8>, id: &RequestId) {
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
