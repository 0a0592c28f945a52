//! Every way of saying no: one catalogue, one type.
//!
//! A [`Refusal`] is an ordinary reply, not the end of a connection. Its [`Code`] is stable and
//! lies in 1001–1089; what JSON-RPC code and which `data` it becomes on the wire is decided here
//! and nowhere else.

use crate::{
    Ability, Version,
    era::{self, Era},
};
use serde::{Serialize, Serializer, ser::SerializeMap};
use std::{borrow::Cow, fmt, time::Duration};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Expected in normal operation.
    Warn,
    /// Somebody made a mistake.
    Error,
    /// An operator should look.
    Critical,
}

/// Whether the same request can succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Yes, unchanged.
    Later,
    /// Only after the client has changed something.
    Changed,
}

/// Which part of the system raises a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The named feature raises it.
    Feature(&'static str),
    /// Nothing raises it yet, for the reason given.
    Reserved(&'static str),
}

/// What is known about a [`Code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its stable name.
    pub name: &'static str,
    /// The HTTP status where no JSON-RPC request is being answered.
    pub http_status: u16,
    /// How bad it is.
    pub severity: Severity,
    /// Whether the same request can succeed later.
    pub retry: Retry,
    /// What went wrong, as a sentence part.
    pub message: &'static str,
    /// What to do about it.
    pub hint: &'static str,
    /// Who raises it.
    pub owner: Owner,
}

macro_rules! catalogue {
    ($($number:literal $variant:ident $name:literal $http:literal $severity:ident $retry:ident
        $owner:ident($whose:literal) $message:literal $hint:literal;)*) => {
        /// A reason to refuse.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = concat!("`", $name, "`: ", $message, ".")] $variant = $number,)*
        }

        impl Code {
            /// The whole catalogue, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// All that is known about it.
            #[must_use]
            pub const fn facts(self) -> Facts {
                match self {
                    $(Self::$variant => Facts {
                        name: $name,
                        http_status: $http,
                        severity: Severity::$severity,
                        retry: Retry::$retry,
                        message: $message,
                        hint: $hint,
                        owner: Owner::$owner($whose),
                    },)*
                }
            }
        }
    };
}

catalogue! {
    1001 QueueCapExceeded "queue_cap_exceeded" 429 Error Later Feature("connection")
        "too many requests are in flight" "wait for answers before sending more";
    1002 QueueByteCapExceeded "queue_byte_cap_exceeded" 429 Error Later Feature("http")
        "the queued messages are too large together" "wait for answers before sending more";
    1003 QueueTenantCapExceeded "queue_tenant_cap_exceeded" 429 Critical Later Reserved("principals are bounded by sessions, rates and listens, not by a queue of their own")
        "the queues of this tenant are full together" "wait, or ask the operator for a higher limit";
    1004 BufferOverflow "buffer_overflow" 503 Critical Later Reserved("buffers are bounded by waiting, not by dropping")
        "an internal buffer is full" "try again later";
    1005 BackpressureActive "backpressure_active" 503 Warn Later Feature("http")
        "the server takes no more work for the moment" "try again later";
    1011 AuthFailed "auth_failed" 401 Error Changed Feature("authentication")
        "authentication failed" "send valid credentials";
    1012 AuthExpired "auth_expired" 401 Error Changed Feature("authentication")
        "the credentials have expired" "obtain new credentials";
    1013 AuthInvalidCredentials "auth_invalid_credentials" 401 Error Changed Feature("authentication")
        "the credentials are not valid" "send valid credentials";
    1014 AuthzForbidden "authz_forbidden" 403 Error Changed Feature("authentication")
        "this is not allowed for these credentials" "ask the operator for access";
    1015 AuthMissing "auth_missing" 401 Error Changed Feature("authentication")
        "there are no credentials" "send credentials";
    1016 SessionInvalid "session_invalid" 401 Error Changed Feature("sessions")
        "there is no such session" "initialize again";
    1021 InvalidParams "invalid_params" 400 Error Changed Feature("methods")
        "the parameters are not what the method takes" "compare them with the specification";
    1022 InvalidJsonSchema "invalid_json_schema" 400 Error Changed Feature("tools")
        "the arguments do not match the schema" "compare them with the tool's inputSchema";
    1023 InvalidUri "invalid_uri" 400 Error Changed Feature("resources")
        "the URI is not valid" "send an absolute URI";
    1024 InvalidContentType "invalid_content_type" 415 Error Changed Feature("http")
        "this content type is not accepted" "send application/json";
    1025 InvalidHeader "invalid_header" 400 Error Changed Feature("http")
        "a required header is missing or wrong" "compare the headers with the specification";
    1026 InvalidSessionId "invalid_session_id" 400 Error Changed Feature("sessions")
        "the session id is not well formed" "send the id as it was given";
    1027 InvalidProtocolVersion "invalid_protocol_version" 400 Error Changed Feature("negotiation")
        "the protocol version is not supported" "use one of the supported versions";
    1028 MissingRequiredField "missing_required_field" 400 Error Changed Feature("stateless lane")
        "a required field is missing" "add the field";
    1029 FieldTypeMismatch "field_type_mismatch" 400 Error Changed Feature("stateless lane")
        "a field has the wrong type" "compare it with the specification";
    1036 PathTraversalDetected "path_traversal_detected" 400 Critical Changed Reserved("file resources are not served yet")
        "the path leaves its root" "stay inside the root";
    1037 PathInvalid "path_invalid" 400 Error Changed Reserved("file resources are not served yet")
        "the path is not valid" "send a valid path";
    1038 SymlinkTraversalDetected "symlink_traversal_detected" 400 Critical Changed Reserved("file resources are not served yet")
        "a symbolic link leaves the root" "stay inside the root";
    1039 UriOutOfBounds "uri_out_of_bounds" 400 Error Changed Reserved("handlers judge roots themselves; file resources are not served yet")
        "the URI lies outside the allowed roots" "stay inside the roots";
    1040 CanonicalPathViolation "canonical_path_violation" 400 Error Changed Reserved("file resources are not served yet")
        "the path is not in its canonical form" "send the canonical path";
    1046 ResourceNotFound "resource_not_found" 404 Warn Changed Feature("resources")
        "there is no such resource" "look at resources/list";
    1047 ResourceDuplicate "resource_duplicate" 409 Warn Changed Reserved("duplicates are found when a server is built")
        "there is such a resource already" "choose another URI";
    1048 ToolNotFound "tool_not_found" 404 Warn Changed Feature("tools")
        "there is no such tool" "look at tools/list";
    1049 ToolDuplicate "tool_duplicate" 409 Warn Changed Reserved("duplicates are found when a server is built")
        "there is such a tool already" "choose another name";
    1050 PromptNotFound "prompt_not_found" 404 Warn Changed Feature("prompts")
        "there is no such prompt" "look at prompts/list";
    1051 PromptDuplicate "prompt_duplicate" 409 Warn Changed Reserved("duplicates are found when a server is built")
        "there is such a prompt already" "choose another name";
    1052 EntityDuplicate "entity_duplicate" 409 Warn Changed Feature("connection")
        "a request with this id is in flight" "give every request an id of its own";
    1056 RateLimitExceeded "rate_limit_exceeded" 429 Error Later Feature("rates")
        "too many requests" "slow down";
    1057 RateLimitPerSecond "rate_limit_per_second" 429 Error Later Feature("rates")
        "too many requests in this second" "slow down";
    1058 RateLimitPerMinute "rate_limit_per_minute" 429 Error Later Feature("rates")
        "too many requests in this minute" "slow down";
    1059 QuotaExceeded "quota_exceeded" 429 Error Later Feature("subscriptions")
        "the quota is used up" "wait, or ask the operator for a higher quota";
    1060 ConcurrentLimitExceeded "concurrent_limit_exceeded" 429 Error Later Feature("sessions")
        "too many connections are open" "close a connection first";
    1066 ProtocolError "protocol_error" 400 Error Changed Feature("frames")
        "this is not a message the protocol allows here" "compare it with the specification";
    1067 TransportError "transport_error" 503 Error Later Reserved("a broken transport ends its connection")
        "the transport failed" "connect again";
    1068 MessageTooLarge "message_too_large" 413 Error Changed Feature("frames")
        "the message is too large" "send a smaller message";
    1069 Timeout "timeout" 503 Warn Later Feature("invocation")
        "it took too long" "try again, or ask for less";
    1070 UnsupportedEncoding "unsupported_encoding" 415 Error Changed Feature("frames")
        "the message is not UTF-8" "send UTF-8";
    1071 ApprovalPending "approval_pending" 202 Warn Changed Feature("workflow")
        "an operator must approve this call" "an operator has been asked and says yes or no; repeat the same call after the yes, for without it the answer is the same";
    1076 ServerUninitialized "server_uninitialized" 503 Error Changed Feature("connection")
        "the connection is not initialized: it takes `initialize`, or 2026-07-28 `_meta` on the request" "send `initialize` first, or put 2026-07-28 `_meta` on the request";
    1077 ServerShuttingDown "server_shutting_down" 503 Warn Later Feature("connection")
        "the server is shutting down" "connect again later";
    1078 ServiceUnavailable "service_unavailable" 503 Warn Later Reserved("the memory store is always available")
        "the service is not available for the moment" "try again later";
    1079 InternalError "internal_error" 503 Critical Later Feature("server")
        "something failed inside the server" "tell the operator";
    1080 DependencyUnavailable "dependency_unavailable" 503 Warn Later Reserved("there are no upstream servers yet")
        "something the server depends on is not available" "try again later";
    1081 NotInState "not_in_state" 409 Warn Changed Feature("workflow")
        "this cannot be used in the current state" "use what is allowed now";
    1082 GuardFailed "guard_failed" 409 Warn Changed Feature("workflow")
        "the conditions for this call are not met" "change the arguments";
    1083 ApprovalDenied "approval_denied" 403 Warn Changed Feature("workflow")
        "no person said yes" "do something else";
    1084 InstanceBusy "instance_busy" 409 Warn Later Feature("workflow")
        "another call holds the workflow" "wait for it to end";
    1085 InstanceFinished "instance_finished" 409 Warn Changed Feature("workflow")
        "the workflow has ended" "start a new one";
    1086 CircuitBreakerOpen "circuit_breaker_open" 503 Warn Later Reserved("there are no upstream servers yet")
        "calls to this server are stopped for the moment" "try again later";
    1087 HealthCheckFailed "health_check_failed" 503 Warn Later Reserved("there are no upstream servers yet")
        "a health check failed" "try again later";
    1088 DegradedService "degraded_service" 503 Warn Later Reserved("there are no upstream servers yet")
        "only a part of the service is available" "try again later";
    1089 ResourceExhausted "resource_exhausted" 503 Critical Later Reserved("limits are refused with their own codes")
        "the server has run out of a resource" "try again later";
}

impl Code {
    /// Its number, 1001–1089.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Its stable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The JSON-RPC code of an answer to a request, unless the refusal says otherwise.
    ///
    /// What the client got wrong and what a workflow refuses is −32602, what is no message −32600,
    /// and everything that is ours −32603: no code of ours lies in −32000…−32099.
    const fn rpc(self) -> RpcCode {
        match self.number() {
            1021..=1052 | 1071 | 1076 | 1081..=1085 => RpcCode::INVALID_PARAMS,
            1066 | 1068 => RpcCode::INVALID_REQUEST,
            1070 => RpcCode::PARSE_ERROR,
            _ => RpcCode::INTERNAL_ERROR,
        }
    }
}

/// A JSON-RPC error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RpcCode(pub i32);

impl RpcCode {
    /// The text is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The JSON is not a request.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// Nobody owns the method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The parameters are wrong.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// Our own fault.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// 2025-11-25 and before: no such resource.
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// 2026-07-28: the HTTP headers do not say what the body says.
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// 2026-07-28: the client did not declare what the request takes.
    pub const MISSING_CAPABILITY: Self = Self(-32021);
    /// 2026-07-28: the version on the request is not supported.
    pub const UNSUPPORTED_VERSION: Self = Self(-32022);
}

/// A no, with its reason. As an error it reads as its message.
///
/// ```
/// use interlock_proto::{Code, Refusal};
///
/// let refusal = Refusal::new(Code::ToolNotFound).because("unknown tool: `pay`");
/// let json = serde_json::to_value(&refusal).unwrap();
/// assert_eq!(json["code"], -32602);
/// assert_eq!(json["message"], "unknown tool: `pay`");
/// assert_eq!(json["data"]["refusal"]["code"], 1048);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Refusal(
    /// It is seldom, and everything that can be refused carries a place for it.
    Box<Reasons>,
);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reasons {
    code: Code,
    rpc: RpcCode,
    message: Cow<'static, str>,
    requested: Option<Box<str>>,
    supported: &'static [Version],
    required: Option<Ability>,
    uri: Option<Box<str>>,
    awaits: Option<&'static str>,
    retry_after: Option<Duration>,
    has_begun: bool,
}

impl Refusal {
    /// A refusal in the catalogue's own words.
    #[must_use]
    #[cold]
    pub fn new(code: Code) -> Self {
        Self(Box::new(Reasons {
            code,
            rpc: code.rpc(),
            message: Cow::Borrowed(code.facts().message),
            requested: None,
            supported: Version::NEWEST_FIRST,
            required: None,
            uri: None,
            awaits: None,
            retry_after: None,
            has_begun: false,
        }))
    }

    /// Says what exactly was wrong.
    #[must_use]
    pub fn because(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Somebody else must act before the same request can succeed: says, as the hint, what will happen.
    #[must_use]
    pub fn awaiting(mut self, what: &'static str) -> Self {
        self.0.awaits = Some(what);
        self
    }

    /// Says after which time the same request can succeed.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// What was asked for had begun. It may have taken effect, so the same request is another one, and
    /// nobody is told to simply repeat it.
    #[must_use]
    pub fn having_begun(mut self) -> Self {
        self.0.has_begun = true;
        self
    }

    /// Answers with a JSON-RPC code other than the one the catalogue would give.
    #[must_use]
    pub fn with_rpc(mut self, rpc: RpcCode) -> Self {
        self.0.rpc = rpc;
        self
    }

    /// Nobody owns this method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Code::ProtocolError)
            .with_rpc(RpcCode::METHOD_NOT_FOUND)
            .because(format!("method not found: {}", shortened(method)))
    }

    /// A request names a version that is not served, or not statelessly.
    #[must_use]
    pub fn unsupported_version(requested: &str) -> Self {
        let mut refusal =
            Self::new(Code::InvalidProtocolVersion).with_rpc(RpcCode::UNSUPPORTED_VERSION);
        refusal.0.requested = Some(shortened(requested).into());
        refusal
    }

    /// The client did not declare that it can do this. A 2026-07-28 client is told by a code of
    /// the protocol's own.
    #[must_use]
    pub fn missing_capability(required: Ability, version: Version) -> Self {
        let what = required.words();
        let mut refusal = Self::new(Code::ProtocolError).because(format!(
            "this needs a client that offers {what}, and this one does not"
        ));
        refusal.0.required = Some(required);
        match version.era() {
            Era::Handshake => refusal,
            Era::Stateless => refusal.with_rpc(RpcCode::MISSING_CAPABILITY),
        }
    }

    /// There is no such resource; the code of it depends on the version.
    #[must_use]
    pub fn resource_not_found(uri: &str, version: Version) -> Self {
        let mut refusal = Self::new(Code::ResourceNotFound)
            .with_rpc(era::resource_not_found(version))
            .because(format!("resource not found: {}", shortened(uri)));
        refusal.0.uri = Some(shortened(uri).into());
        refusal
    }

    /// Says which versions a client can choose from, where that is the question.
    #[must_use]
    pub fn supporting(mut self, versions: &'static [Version]) -> Self {
        self.0.supported = versions;
        self
    }

    /// Why.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The JSON-RPC code of the answer.
    #[must_use]
    pub fn rpc_code(&self) -> RpcCode {
        self.0.rpc
    }

    /// The HTTP status, for use only where no JSON-RPC request is being answered: errors to
    /// requests go with the status that the protocol's version says.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        self.0.code.facts().http_status
    }

    /// What was wrong, in a sentence.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// After which time the same request can succeed, if that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The object that `data.refusal` holds.
    #[must_use]
    pub fn facts(&self) -> RefusalData {
        let facts = self.0.code.facts();
        RefusalData {
            code: self.0.code.number(),
            name: facts.name,
            hint: self.0.awaits.unwrap_or(facts.hint),
            retryable: facts.retry == Retry::Later && self.0.awaits.is_none() && !self.0.has_begun,
            retry_after_ms: self.0.retry_after.map(millis),
        }
    }
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

/// What a client learns about a refusal besides its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RefusalData {
    /// 1001–1089.
    pub code: u16,
    /// Its stable name.
    pub name: &'static str,
    /// What to do about it.
    pub hint: &'static str,
    /// Whether the same request can succeed later.
    pub retryable: bool,
    /// After which time it can, if that is known.
    #[serde(rename = "retryAfterMs", skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// As the `error` member of a JSON-RPC message.
impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Data<'a> {
            refusal: RefusalData,
            #[serde(skip_serializing_if = "Option::is_none")]
            supported: Option<&'a [Version]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            requested: Option<&'a str>,
            #[serde(
                rename = "requiredCapabilities",
                skip_serializing_if = "Option::is_none"
            )]
            required: Option<Ability>,
            #[serde(skip_serializing_if = "Option::is_none")]
            uri: Option<&'a str>,
        }
        let said = &*self.0;
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("code", &said.rpc.0)?;
        map.serialize_entry("message", &*said.message)?;
        map.serialize_entry(
            "data",
            &Data {
                refusal: self.facts(),
                supported: said.requested.as_ref().map(|_| said.supported),
                requested: said.requested.as_deref(),
                required: said.required,
                uri: said.uri.as_deref(),
            },
        )?;
        map.end()
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refusal").field(&self.0).finish()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.code.number())
    }
}

impl std::error::Error for Refusal {}

/// A peer's text, cut to a length that is safe to repeat in an answer or a log.
#[must_use]
pub fn shortened(text: &str) -> String {
    const MOST: usize = 128;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_in_order_and_within_its_range() {
        assert!(Code::ALL.is_sorted_by(|a, b| a.number() < b.number()));
        assert!(
            Code::ALL
                .iter()
                .all(|code| (1001..=1089).contains(&code.number()))
        );
        assert_eq!(Code::ALL.len(), 57);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn no_code_of_ours_lies_in_the_range_reserved_for_the_protocol() {
        for code in Code::ALL {
            let rpc = Refusal::new(*code).rpc_code().0;
            assert!(
                !(-32099..=-32000).contains(&rpc),
                "{} maps to {rpc}",
                code.name()
            );
        }
    }

    #[test]
    fn what_waits_for_somebody_else_is_not_to_be_repeated_and_says_what_will_happen() {
        let pending = Refusal::new(Code::ApprovalPending).facts();
        assert!(!pending.retryable);
        assert!(pending.hint.contains("after the yes"), "{}", pending.hint);
        let busy = Refusal::new(Code::InstanceBusy);
        assert!(busy.facts().retryable);
        let held = busy.awaiting("an operator settles it").facts();
        assert_eq!(
            (held.retryable, held.hint),
            (false, "an operator settles it")
        );
    }

    #[test]
    fn what_has_begun_is_not_simply_repeated() {
        let timeout = Refusal::new(Code::Timeout);
        assert!(timeout.facts().retryable);
        assert!(!timeout.having_begun().facts().retryable);
    }

    #[test]
    fn a_refusal_that_knows_how_long_to_wait_says_so() {
        let refusal = Refusal::new(Code::RateLimitPerSecond);
        let json = |refusal| serde_json::to_value(refusal).unwrap();
        assert_eq!(
            json(refusal.clone())["data"]["refusal"].get("retryAfterMs"),
            None
        );
        let refusal = refusal.after(Duration::from_millis(250));
        assert_eq!(json(refusal)["data"]["refusal"]["retryAfterMs"], 250);
    }

    #[test]
    fn a_refusal_has_the_status_of_its_code() {
        let status = |code| Refusal::new(code).http_status();
        assert_eq!(status(Code::MessageTooLarge), 413);
        assert_eq!(status(Code::SessionInvalid), 401);
        assert!(
            Code::ALL
                .iter()
                .all(|code| (200..600).contains(&status(*code)))
        );
    }

    #[test]
    fn an_unsupported_version_names_what_is_supported() {
        let json = serde_json::to_value(Refusal::unsupported_version("1900-01-01")).unwrap();
        assert_eq!(json["code"], -32022);
        assert_eq!(json["data"]["requested"], "1900-01-01");
        assert_eq!(
            json["data"]["supported"],
            serde_json::json!(Version::NEWEST_FIRST)
        );
    }

    #[test]
    fn a_long_name_is_not_echoed_whole() {
        let refusal = Refusal::method_not_found(&"é".repeat(100_000));
        assert!(refusal.message().len() < 300);
    }
}
