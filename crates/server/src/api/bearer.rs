//! Bearer tokens: a fixed list of secrets, each of which stands for one principal.

use crate::api::auth::{Authenticator, Denied};
use async_trait::async_trait;
use http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use interlock_engine::Principal;
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};
use subtle::{ConditionallySelectable, ConstantTimeEq};

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
    tokens: Vec<Token>,
}

#[derive(Clone)]
struct Token {
    digest: [u8; 32],
    principal: Principal,
}

impl BearerTokens {
    /// No tokens: every request is denied.
    #[must_use]
    pub const fn new() -> Self {
        Self { tokens: Vec::new() }
    }

    /// A request with `secret` comes from `principal`. An empty secret is never accepted.
    #[must_use]
    pub fn token(mut self, secret: impl AsRef<str>, principal: impl Into<Arc<str>>) -> Self {
        self.tokens.push(Token {
            digest: Sha256::digest(secret.as_ref()).into(),
            principal: Principal::new(principal),
        });
        self
    }

    /// Compares with every entry, so that the time taken tells nothing.
    fn find(&self, token: &[u8]) -> Option<&Principal> {
        let presented: [u8; 32] = Sha256::digest(token).into();
        let mut found = 0_u64;
        for (number, entry) in (1_u64..).zip(&self.tokens) {
            found.conditional_assign(&number, entry.digest.ct_eq(&presented));
        }
        let index = usize::try_from(found.checked_sub(1)?).ok()?;
        self.tokens.get(index).map(|entry| &entry.principal)
    }
}

#[async_trait]
impl Authenticator for BearerTokens {
    async fn authenticate(&self, request: &Parts) -> Result<Principal, Denied> {
        let token = bearer(&request.headers)?;
        self.find(token).cloned().ok_or_else(Denied::invalid)
    }
}

/// Shows the principals, and no token.
impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let principals = self.tokens.iter().map(|entry| entry.principal.id());
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

    async fn asked(tokens: &BearerTokens, authorization: &str) -> Result<Principal, Denied> {
        let request = Request::post("/mcp").header(AUTHORIZATION, authorization);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        tokens.authenticate(&parts).await
    }

    #[tokio::test]
    async fn the_scheme_may_be_written_in_any_case_and_followed_by_several_blanks() {
        for value in ["bearer first-secret", "BEARER   first-secret  "] {
            let principal = asked(&tokens(), value).await;
            assert_eq!(principal, Ok(Principal::new("alice")));
        }
    }

    #[tokio::test]
    async fn a_header_that_is_too_long_is_refused_even_if_its_token_is_known() {
        let secret = "x".repeat(LONGEST_AUTHORIZATION);
        let tokens = BearerTokens::new().token(&secret, "alice");
        let answer = asked(&tokens, &format!("Bearer {secret}")).await;
        assert_eq!(answer, Err(Denied::invalid()));
        let longest = &secret["Bearer ".len()..];
        let tokens = BearerTokens::new().token(longest, "alice");
        assert!(asked(&tokens, &format!("Bearer {longest}")).await.is_ok());
    }

    #[tokio::test]
    async fn an_empty_list_and_an_empty_secret_let_nobody_in() {
        let none = BearerTokens::new();
        assert_eq!(asked(&none, "Bearer x").await, Err(Denied::invalid()));
        let empty = BearerTokens::new().token("", "nobody");
        assert_eq!(asked(&empty, "Bearer ").await, Err(Denied::invalid()));
    }

    #[tokio::test]
    async fn a_secret_given_twice_stands_for_the_last_principal() {
        let tokens = BearerTokens::new()
            .token("same", "old")
            .token("same", "new");
        let principal = asked(&tokens, "Bearer same").await;
        assert_eq!(principal, Ok(Principal::new("new")));
    }

    #[tokio::test]
    async fn a_token_for_anonymous_is_not_the_anonymous_principal() {
        let tokens = BearerTokens::new().token("secret", "anonymous");
        let principal = asked(&tokens, "Bearer secret").await.unwrap();
        assert_ne!(principal, Principal::anonymous());
    }

    #[test]
    fn debug_output_shows_principals_and_no_token() {
        let shown = format!("{:?}", tokens());
        assert!(shown.contains("alice") && shown.contains("bob"));
        assert!(!shown.contains("secret"));
        assert!(!shown.contains("digest"));
    }
}
