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
///
/// assert_eq!(Denied::forbidden("only for admins").to_string(), "only for admins (1014)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    code: Code,
    why: Option<Cow<'static, str>>,
    challenge: Option<HeaderValue>,
}

// RFC 6750, section 3.1: a challenge has no error code if there are no credentials, and
// `invalid_token` if a token is wrong or expired.
const CHALLENGE: &str = r#"Bearer realm="mcp""#;
const INVALID_TOKEN: &str = r#"Bearer realm="mcp", error="invalid_token""#;

impl Denied {
    /// There are no credentials: 401 with 1015.
    #[must_use]
    pub fn missing() -> Self {
        Self::challenged(Code::AuthMissing, CHALLENGE)
    }

    /// The credentials are not valid: 401 with 1013.
    #[must_use]
    pub fn invalid() -> Self {
        Self::challenged(Code::AuthInvalidCredentials, INVALID_TOKEN)
    }

    /// The credentials were valid once: 401 with 1012.
    #[must_use]
    pub fn expired() -> Self {
        Self::challenged(Code::AuthExpired, INVALID_TOKEN)
    }

    /// The credentials could not be judged, or in another way than above: 401 with 1011.
    #[must_use]
    pub fn failed(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            why: Some(why.into()),
            ..Self::challenged(Code::AuthFailed, CHALLENGE)
        }
    }

    /// The sender is known and may not do this: 403 with 1014. There is no challenge, because other
    /// credentials would not help.
    #[must_use]
    pub fn forbidden(why: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: Code::AuthzForbidden,
            why: Some(why.into()),
            challenge: None,
        }
    }

    const fn challenged(code: Code, challenge: &'static str) -> Self {
        Self {
            code,
            why: None,
            challenge: Some(HeaderValue::from_static(challenge)),
        }
    }

    /// Replaces `WWW-Authenticate`. Text that no header can carry is ignored.
    #[must_use]
    pub fn challenge(mut self, text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if text.is_ascii()
            && !text.trim().is_empty()
            && let Ok(value) = HeaderValue::from_str(text)
        {
            self.challenge = Some(value);
        }
        self
    }

    /// What goes into `WWW-Authenticate`, if anything does.
    #[must_use]
    pub fn www_authenticate(&self) -> Option<HeaderValue> {
        self.challenge.clone()
    }

    /// The refusal in the body of the answer.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(self.code);
        match &self.why {
            Some(why) => refusal.because(why.clone()),
            None => refusal,
        }
    }

    /// The status of the answer: 401, or 403 if the sender is forbidden.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        let status = StatusCode::from_u16(self.refusal().http_status());
        status.expect("the catalogue of refusals has only HTTP's statuses")
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
