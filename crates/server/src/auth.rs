//! Who may come in: credentials on a request, and how to say no to them.

use crate::Principal;
use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode, header::AUTHORIZATION, request::Parts};
use interlock_proto::{Code, Refusal};
use sha2::{Digest, Sha256};
use std::{borrow::Cow, fmt, sync::Arc};
use subtle::{ConditionallySelectable, ConstantTimeEq};

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
    /// Who it is, or why they may not come in.
    async fn authenticate(&self, request: &Parts) -> Result<Principal, Denied>;
}

/// Why somebody may not come in.
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

/// The kinds of no that a client can tell apart.
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

    /// RFC 6750, section 3.1: a request without credentials is told no error code, and a token
    /// that is wrong or too old is an `invalid_token`. Other credentials would not help someone
    /// who is forbidden, so nothing asks for them.
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

    /// Says `WWW-Authenticate` in other words. Text that no header can carry is not used.
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

    /// The status of the answer: 401, or 403 for somebody who is forbidden.
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

/// A header longer than this holds no token of ours, and is not hashed.
const LONGEST_AUTHORIZATION: usize = 8 * 1024;

/// A fixed list of secrets, each of which stands for one principal.
///
/// A client sends its secret as `Authorization: Bearer secret`. Only digests of the secrets are
/// kept, and they are compared in constant time. A secret that was given twice stands for the
/// principal it was given last.
///
/// ```
/// use interlock::{Authenticator, BearerTokens};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let tokens = BearerTokens::new()
///     .token("6fXo2cYxT0", "alice")
///     .token("9dQp7rWmZ4", "bob");
///
/// let request = http::Request::get("/mcp").header("authorization", "Bearer 9dQp7rWmZ4");
/// let (parts, ()) = request.body(()).unwrap().into_parts();
/// assert_eq!(tokens.authenticate(&parts).await.unwrap().id(), "bob");
/// # }
/// ```
#[derive(Clone, Default)]
pub struct BearerTokens {
    entries: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    digest: [u8; 32],
    principal: Principal,
}

impl BearerTokens {
    /// No tokens: nobody comes in.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Whoever sends `secret` is `principal`. An empty secret lets nobody in.
    #[must_use]
    pub fn token(mut self, secret: impl AsRef<str>, principal: impl Into<Arc<str>>) -> Self {
        self.entries.push(Entry {
            digest: Sha256::digest(secret.as_ref()).into(),
            principal: Principal::new(principal),
        });
        self
    }

    /// Looks at every entry, whichever one it is, so that time tells nothing about the others.
    fn find(&self, token: &[u8]) -> Option<&Principal> {
        let presented: [u8; 32] = Sha256::digest(token).into();
        let mut found = 0_u64;
        for (number, entry) in (1_u64..).zip(&self.entries) {
            found.conditional_assign(&number, entry.digest.ct_eq(&presented));
        }
        let index = usize::try_from(found.checked_sub(1)?).ok()?;
        self.entries.get(index).map(|entry| &entry.principal)
    }
}

#[async_trait]
impl Authenticator for BearerTokens {
    async fn authenticate(&self, request: &Parts) -> Result<Principal, Denied> {
        let token = bearer(&request.headers)?;
        self.find(token).cloned().ok_or_else(Denied::invalid)
    }
}

/// Shows who has a token, and no token.
impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let principals = self.entries.iter().map(|entry| entry.principal.id());
        f.write_str("BearerTokens ")?;
        f.debug_set().entries(principals).finish()
    }
}

/// The token in the one `Authorization` header there is.
///
/// Credentials of another scheme count as none, as RFC 6750 has it; two headers, of which a proxy
/// may have read the other, as invalid ones.
fn bearer(headers: &HeaderMap) -> Result<&[u8], Denied> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(Denied::missing)?;
    if values.next().is_some() || value.len() > LONGEST_AUTHORIZATION {
        return Err(Denied::invalid());
    }
    let value = value.as_bytes().trim_ascii();
    let end = value
        .iter()
        .position(|byte| *byte == b' ')
        .unwrap_or(value.len());
    let (scheme, token) = value.split_at(end);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(Denied::missing());
    }
    match token.trim_ascii() {
        [] => Err(Denied::invalid()),
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn tokens() -> BearerTokens {
        BearerTokens::new()
            .token("first-secret", "alice")
            .token("second-secret", "bob")
            .token("third-secret", "alice")
    }

    async fn asked(tokens: &BearerTokens, authorization: &[&str]) -> Result<Principal, Denied> {
        let mut request = Request::post("/mcp");
        for value in authorization {
            request = request.header(AUTHORIZATION, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        tokens.authenticate(&parts).await
    }

    #[track_caller]
    fn challenge_of(denied: &Denied) -> String {
        let value = denied.www_authenticate().expect("a challenge");
        value.to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn each_token_stands_for_its_principal() {
        let tokens = tokens();
        for (token, who) in [
            ("first-secret", "alice"),
            ("second-secret", "bob"),
            ("third-secret", "alice"),
        ] {
            let principal = asked(&tokens, &[&format!("Bearer {token}")]).await;
            assert_eq!(principal, Ok(Principal::new(who)));
        }
    }

    #[tokio::test]
    async fn the_scheme_may_be_written_in_any_case_and_followed_by_several_blanks() {
        for value in ["bearer first-secret", "BEARER   first-secret  "] {
            let principal = asked(&tokens(), &[value]).await;
            assert_eq!(principal, Ok(Principal::new("alice")));
        }
    }

    #[tokio::test]
    async fn no_credentials_and_those_of_another_scheme_are_missing() {
        assert_eq!(asked(&tokens(), &[]).await, Err(Denied::missing()));
        for value in [
            "Basic Zmlyc3Qtc2VjcmV0",
            "first-secret",
            "Bearer:first-secret",
            "",
        ] {
            assert_eq!(asked(&tokens(), &[value]).await, Err(Denied::missing()));
        }
    }

    #[tokio::test]
    async fn a_token_that_is_not_exactly_right_is_invalid() {
        for value in [
            "Bearer",
            "Bearer ",
            "Bearer first",
            "Bearer first-secretx",
            "Bearer FIRST-SECRET",
            "Bearer \"first-secret\"",
            "Bearer first-secret, Bearer second-secret",
            "Bearer first-secret second-secret",
        ] {
            let answer = asked(&tokens(), &[value]).await;
            assert_eq!(answer, Err(Denied::invalid()), "{value}");
        }
    }

    #[tokio::test]
    async fn two_authorization_headers_are_refused_even_if_each_is_right() {
        let twice = ["Bearer first-secret", "Bearer first-secret"];
        assert_eq!(asked(&tokens(), &twice).await, Err(Denied::invalid()));
    }

    #[tokio::test]
    async fn a_header_that_is_too_long_is_refused_even_if_its_token_is_known() {
        let secret = "x".repeat(LONGEST_AUTHORIZATION);
        let tokens = BearerTokens::new().token(&secret, "alice");
        let answer = asked(&tokens, &[&format!("Bearer {secret}")]).await;
        assert_eq!(answer, Err(Denied::invalid()));
        let longest = &secret["Bearer ".len()..];
        let tokens = BearerTokens::new().token(longest, "alice");
        assert!(
            asked(&tokens, &[&format!("Bearer {longest}")])
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn an_empty_list_and_an_empty_secret_let_nobody_in() {
        let none = BearerTokens::new();
        assert_eq!(asked(&none, &["Bearer x"]).await, Err(Denied::invalid()));
        let empty = BearerTokens::new().token("", "nobody");
        assert_eq!(asked(&empty, &["Bearer "]).await, Err(Denied::invalid()));
    }

    #[tokio::test]
    async fn a_secret_given_twice_stands_for_the_last_principal() {
        let tokens = BearerTokens::new()
            .token("same", "old")
            .token("same", "new");
        let principal = asked(&tokens, &["Bearer same"]).await;
        assert_eq!(principal, Ok(Principal::new("new")));
    }

    #[tokio::test]
    async fn a_token_for_anonymous_is_not_the_anonymous_principal() {
        let tokens = BearerTokens::new().token("secret", "anonymous");
        let principal = asked(&tokens, &["Bearer secret"]).await.unwrap();
        assert_ne!(principal, Principal::anonymous());
    }

    #[test]
    fn debug_output_shows_principals_and_no_token() {
        let shown = format!("{:?}", tokens());
        assert!(shown.contains("alice") && shown.contains("bob"));
        assert!(!shown.contains("secret"));
        assert!(!shown.contains("digest"));
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
