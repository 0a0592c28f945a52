//! Translates between rmcp's types and ours.

#![expect(
    deprecated,
    reason = "2026-07-28 deprecates logging; until it is gone, it is served"
)]

use crate::{
    context::Context,
    model::{ClientCapabilities, Implementation, elicitation::AskError, failure::Failure},
};
use interlock_proto::{Level, Refusal, RpcCode, Version, era};
use interlock_workflow::Kind;
use rmcp::model::{
    ErrorCode, ErrorData, InitializeRequestParams, LoggingLevel, ProgressToken, ProtocolVersion,
    RequestMetaObject, TASKS_EXTENSION_ID,
};
use serde_json::{Value, value::RawValue};

pub(super) const fn protocol_version(version: Version) -> ProtocolVersion {
    match version {
        Version::V2024_11_05 => ProtocolVersion::V_2024_11_05,
        Version::V2025_03_26 => ProtocolVersion::V_2025_03_26,
        Version::V2025_06_18 => ProtocolVersion::V_2025_06_18,
        Version::V2025_11_25 => ProtocolVersion::V_2025_11_25,
        Version::V2026_07_28 => ProtocolVersion::V_2026_07_28,
    }
}

pub(super) const fn level(level: LoggingLevel) -> Level {
    match level {
        LoggingLevel::Debug => Level::Debug,
        LoggingLevel::Info => Level::Info,
        LoggingLevel::Notice => Level::Notice,
        LoggingLevel::Warning => Level::Warning,
        LoggingLevel::Error => Level::Error,
        LoggingLevel::Critical => Level::Critical,
        LoggingLevel::Alert => Level::Alert,
        LoggingLevel::Emergency => Level::Emergency,
    }
}

/// What the client can do, as far as a mounted handler can make use of it.
pub(super) fn capabilities(context: &Context) -> ClientCapabilities {
    let mut capabilities = context.client_capabilities();
    if let Some(extensions) = &mut capabilities.extensions {
        extensions.remove(TASKS_EXTENSION_ID);
    }
    capabilities
}

/// Who the client is, as if it had said `initialize`. rmcp lets a peer ask only clients that did.
pub(super) fn introduction(context: &Context) -> InitializeRequestParams {
    let version = context.version().min(Version::COUNTER_OFFER);
    InitializeRequestParams::new(capabilities(context), client(context))
        .with_protocol_version(protocol_version(version))
}

fn client(context: &Context) -> Implementation {
    let unknown = || Implementation::new("unknown", "unknown");
    context.client().unwrap_or_else(unknown)
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS: &str = "progressToken";

/// What the request says about itself to a handler that speaks these versions: its own `_meta`, as
/// far as the handler can make use of it.
pub(super) fn meta(context: &Context, spoken: &[ProtocolVersion]) -> RequestMetaObject {
    let caller = context.caller();
    let written = caller.meta.as_deref().map(RawValue::get);
    let written = written.and_then(|text| serde_json::from_str(text).ok());
    let mut meta: RequestMetaObject = written.unwrap_or_default();
    if caller.progress.is_none() {
        // If there is a token, it makes no sense.
        meta.shift_remove(PROGRESS);
    }
    let version = protocol_version(context.version());
    if version == ProtocolVersion::V_2026_07_28 && spoken.contains(&version) {
        if !meta.contains_key(VERSION) {
            meta.set_protocol_version(version);
        }
        if meta.client_capabilities().is_none() {
            meta.set_client_capabilities(ClientCapabilities::default());
        }
        withhold_tasks(&mut meta);
    } else {
        // A handler of the handshake era does not know these members, and in that era clients say
        // all this in `initialize`.
        for key in [VERSION, CAPABILITIES, CLIENT, LEVEL] {
            meta.shift_remove(key);
        }
    }
    meta
}

fn withhold_tasks(meta: &mut RequestMetaObject) {
    let capabilities = meta.get_mut(CAPABILITIES);
    let extensions = capabilities.and_then(|all| all.get_mut("extensions"));
    if let Some(extensions) = extensions.and_then(Value::as_object_mut) {
        extensions.shift_remove(TASKS_EXTENSION_ID);
    }
}

/// What progress of the call is reported with, if it is wanted.
pub(super) fn progress(context: &Context) -> Option<ProgressToken> {
    let token = context.caller().progress.as_ref()?;
    serde_json::from_str(token.get()).ok()
}

/// What a handler's error means to the client.
///
/// Of a tool, what is wrong with the request is an error of the protocol's, and everything else a
/// result that the model reads.
pub(super) fn failure(kind: Kind, error: ErrorData, version: Version) -> Failure {
    let ErrorData {
        code,
        message,
        data,
    } = error;
    let code = match RpcCode(code.0) {
        RpcCode::RESOURCE_NOT_FOUND => era::resource_not_found(version),
        URL_ELICITATION_REQUIRED if version != Version::V2025_11_25 => RpcCode::INTERNAL_ERROR,
        code => code,
    };
    let is_protocols = match kind {
        Kind::Resource | Kind::Prompt => true,
        Kind::Tool => [
            RpcCode::PARSE_ERROR,
            RpcCode::INVALID_REQUEST,
            RpcCode::METHOD_NOT_FOUND,
            RpcCode::INVALID_PARAMS,
            RpcCode::MISSING_CAPABILITY,
            URL_ELICITATION_REQUIRED,
        ]
        .contains(&code),
    };
    if is_protocols {
        return Failure::rpc(code, message, data);
    }
    Failure::new(match data {
        None => message.into_owned(),
        Some(data) => format!("{message}: {data}"),
    })
}

/// Only 2025-11-25 has it: the client is to visit a URL first.
const URL_ELICITATION_REQUIRED: RpcCode = RpcCode(-32042);

/// What a handler is told whose question was not answered.
pub(super) fn unanswered(error: AskError) -> ErrorData {
    match error {
        AskError::NotDeclared(refusal) | AskError::NotNow(refusal) => refused(&refusal),
        AskError::Failed { code, message } => {
            let code = i32::try_from(code).unwrap_or(ErrorCode::INTERNAL_ERROR.0);
            ErrorData::new(ErrorCode(code), message, None)
        }
        AskError::NotAQuestion(why) => ErrorData::invalid_params(why, None),
        AskError::Invalid(_) | AskError::Late | AskError::Ended => {
            ErrorData::internal_error(error.to_string(), None)
        }
    }
}

fn refused(refusal: &Refusal) -> ErrorData {
    let said = serde_json::to_value(refusal).and_then(serde_json::from_value);
    said.unwrap_or_else(|_| ErrorData::internal_error(refusal.message().to_owned(), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NEW: Version = Version::V2026_07_28;
    const OLD: Version = Version::V2025_11_25;

    /// The code that a client sees; none if it is a result that it sees.
    fn code(kind: Kind, code: i32, version: Version) -> Option<i32> {
        let error = ErrorData::new(ErrorCode(code), "no", Some(json!({"why": 1})));
        let failure = failure(kind, error, version);
        let (code, error) = failure.rpc_error()?;
        assert_eq!(error["code"], code.0);
        assert_eq!(error["message"], "no");
        assert_eq!(error["data"], json!({"why": 1}));
        Some(code.0)
    }

    #[test]
    fn a_tools_error_is_a_result_unless_the_request_is_at_fault() {
        for at_fault in [-32700, -32600, -32601, -32602, -32021] {
            assert_eq!(code(Kind::Tool, at_fault, NEW), Some(at_fault));
        }
        for other in [-32603, -32002, -32000, 0, 7] {
            assert_eq!(code(Kind::Tool, other, OLD), None);
        }
        let error = ErrorData::internal_error("stuck", Some(json!({"at": 3})));
        let failure = failure(Kind::Tool, error, OLD);
        assert_eq!(failure.to_string(), "stuck: {\"at\":3}");
    }

    #[test]
    fn other_errors_keep_their_codes_as_far_as_the_version_has_them() {
        for kind in [Kind::Resource, Kind::Prompt] {
            for kept in [-32603, -32602, -31_000, 7] {
                assert_eq!(code(kind, kept, OLD), Some(kept));
                assert_eq!(code(kind, kept, NEW), Some(kept));
            }
            assert_eq!(code(kind, -32002, OLD), Some(-32002));
            assert_eq!(code(kind, -32002, NEW), Some(-32602));
        }
    }

    #[test]
    fn only_one_version_sends_a_client_to_a_url_by_an_error() {
        assert_eq!(code(Kind::Tool, -32042, OLD), Some(-32042));
        assert_eq!(code(Kind::Prompt, -32042, OLD), Some(-32042));
        for version in [NEW, Version::V2025_06_18] {
            assert_eq!(code(Kind::Tool, -32042, version), None);
            assert_eq!(code(Kind::Prompt, -32042, version), Some(-32603));
        }
    }
}
