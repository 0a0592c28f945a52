//! Authenticates requests by their credentials, and says how a client is denied.

use async_trait::async_trait;
use http::{HeaderValue, StatusCode, request::Parts};
use interlock_engine::Principal;
use interlock_proto::{Code, Refusal};
use std::{borrow::Cow, fmt};

/// Finds out who sends a request.
///
/// It sees the head of every request before its body is read, and must not rely on a session:
/// each request proves its sender anew.
///
/// ```
/// use interlock::{Authenticator, Denied, Principal};
///
/// /// Trusts a proxy in front, which names the user.
/// struct Proxy;
///
/// #[async_trait::async_trait]
/// impl Authenticator for Proxy {
///     async fn authenticate(&self, request: &http::request::Parts) -> Result<Principal, Denied> {
///         let user = request.headers.get("x-user").ok_or_else(Denied::missing)?;
///         let user = user.to_str().map_err(|_| Denied::invalid())?;
///         if user == "mallory" {
///             return Err(Denied::forbidden("mallory is not welcome"));
///         }
///         Ok(Principal::new(user))
///     }
/// }
/// ```
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Who sends the request, or why it is denied.
    async fn authenticate(&self, request: &Parts) -> Result<Principal, Denied>;
}

/// Why a request is denied.
///
/// An answer with status 401 always tells the client how to authenticate, in `WWW-Authenticate`.
///
/// ```
/// use interlock::Denied;
///
/// let denied = Denied::expired();
/// assert_eq!(denied.status(), 401);
/// assert_eq!(
///     denied.www_authenticate().unwrap(),
///     r#"Bearer realm="mcp", error="invalid_token""#,
/// );
///
/// let metadata = "https://mcp.example.com/.well-known/oauth-protected-resource";
/// let denied = Denied::missing().challenge(format!(r#"Bearer resource_metadata="{metadata}""#));
/// assert!(denied.www_authenticate().unwrap().to_str().unwrap().contains(metadata));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    reason: Reason,
    why: Option<Cow<'static, str>>,
    challenge: Option<String>,
}

/// The kinds of denial that a client can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Missing,
    Invalid,
    Expired,
    Failed,
    Forbidden,
}

impl Reason {
    const fn code(self) -> Code {
        match self {
            Self::Missing => Code::AuthMissing,
            Self::Invalid => Code::AuthInvalidCredentials,
            Self::Expired => Code::AuthExpired,
            Self::Failed => Code::AuthFailed,
            Self::Forbidden => Code::AuthzForbidden,
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid | Self::Expired | Self::Failed => {
                StatusCode::UNAUTHORIZED
            }
            Self::Forbidden => StatusCode::FORBIDDEN,
        }
    }

    /// RFC 6750, section 3.1: a challenge has no error code if there are no credentials, and
    /// `invalid_token` if a token is wrong or expired. Other credentials would not help a sender who
    /// is forbidden, so there is no challenge.
    const fn challenge(self) -> Option<&'static str> {
        match self {
            Self::Missing | Self::Failed => Some(r#"Bearer realm="mcp""#),
            Self::Invalid | Self::Expired => Some(r#"Bearer realm="mcp", error="invalid_token""#),
            Self::Forbidden => None,
        }
    }
}

impl Denied {
    /// There are no credentials: 401 with 1015.
    #[must_use]
    pub const fn missing() -> Self {
        Self::new(Reason::Missing, None)
    }

    /// The credentials are not valid: 401 with 1013.
    #[must_use]
    pub const fn invalid() -> Self {
        Self::new(Reason::Invalid, None)
    }

    /// The credentials were valid once: 401 with 1012.
    #[must_use]
    pub const fn expired() -> Self {
        Self::new(Reason::Expired, None)
    }

    /// The credentials could not be judged, or in another way than above: 401 with 1011.
    #[must_use]
    pub fn failed(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Reason::Failed, Some(why.into()))
    }

    /// The sender is known and may not do this: 403 with 1014.
    #[must_use]
    pub fn forbidden(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Reason::Forbidden, Some(why.into()))
    }

    const fn new(reason: Reason, why: Option<Cow<'static, str>>) -> Self {
        Self {
            reason,
            why,
            challenge: None,
        }
    }

    /// Replaces `WWW-Authenticate`. Text that no header can carry is ignored.
    #[must_use]
    pub fn challenge(mut self, text: impl Into<String>) -> Self {
        self.challenge = Some(text.into());
        self
    }

    /// What goes into `WWW-Authenticate`, if anything does.
    #[must_use]
    pub fn www_authenticate(&self) -> Option<HeaderValue> {
        let sayable = |text: &&str| text.is_ascii() && !text.trim().is_empty();
        let own = self.challenge.as_deref().filter(sayable);
        own.and_then(|text| HeaderValue::from_str(text).ok())
            .or_else(|| self.reason.challenge().map(HeaderValue::from_static))
    }

    /// The refusal in the body of the answer.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(self.reason.code());
        match &self.why {
            Some(why) => refusal.because(why.clone()),
            None => refusal,
        }
    }

    /// The status of the answer: 401, or 403 if the sender is forbidden.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.reason.status()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal().fmt(f)
    }
}

impl std::error::Error for Denied {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn challenge_of(denied: &Denied) -> String {
        let value = denied.www_authenticate().expect("a challenge");
        value.to_str().unwrap().to_owned()
    }

    #[test]
    fn every_reason_has_its_code_and_status() {
        for (denied, code, status) in [
            (Denied::missing(), 1015, 401),
            (Denied::invalid(), 1013, 401),
            (Denied::expired(), 1012, 401),
            (Denied::failed("the issuer is unknown"), 1011, 401),
            (Denied::forbidden("only for admins"), 1014, 403),
        ] {
            assert_eq!(denied.refusal().code().number(), code);
            assert_eq!(denied.refusal().http_status(), status);
            assert_eq!(denied.status(), status);
        }
    }

    #[test]
    fn a_reason_in_words_is_told() {
        let denied = Denied::forbidden("only for admins");
        assert_eq!(denied.refusal().message(), "only for admins");
        assert_eq!(denied.to_string(), "only for admins (1014)");
        let failed = Denied::failed(format!("unknown issuer {}", 7));
        assert_eq!(failed.refusal().message(), "unknown issuer 7");
    }

    #[test]
    fn only_credentials_that_were_sent_are_called_an_invalid_token() {
        let plain = r#"Bearer realm="mcp""#;
        let invalid = r#"Bearer realm="mcp", error="invalid_token""#;
        assert_eq!(challenge_of(&Denied::missing()), plain);
        assert_eq!(challenge_of(&Denied::failed("why")), plain);
        assert_eq!(challenge_of(&Denied::invalid()), invalid);
        assert_eq!(challenge_of(&Denied::expired()), invalid);
        assert_eq!(Denied::forbidden("why").www_authenticate(), None);
    }

    #[test]
    fn another_challenge_can_be_set() {
        let text = r#"Bearer error="insufficient_scope", scope="files:write""#;
        assert_eq!(
            challenge_of(&Denied::forbidden("why").challenge(text)),
            text
        );
        assert_eq!(challenge_of(&Denied::missing().challenge(text)), text);
    }

    #[test]
    fn a_challenge_that_no_header_can_carry_leaves_the_usual_one() {
        for text in [
            "Bearer\r\nset-cookie: a=b",
            "Bearer realm=\"\u{e9}\"",
            "",
            "  ",
        ] {
            let denied = Denied::missing().challenge(text);
            assert_eq!(challenge_of(&denied), r#"Bearer realm="mcp""#);
        }
        let forbidden = Denied::forbidden("why").challenge("a\nb");
        assert_eq!(forbidden.www_authenticate(), None);
    }
}
