//! Checks `Host` and `Origin` against DNS rebinding.
//!
//! A web page can have its own name resolve to this machine, and then send requests here as if to
//! its own server. The browser still names the page in `Host` and `Origin`, so both are checked,
//! and what cannot be parsed is refused.
//! Spec: MCP Streamable HTTP, section "Security & Endpoint".

mod authority;

use crate::transport::http::headers::{HeaderValues, KnownHeaders};
use authority::{Authority, Origin};
use http::{HeaderValue, Uri};
use interlock_proto::{Code, Refusal, refusal::shortened};
use std::{borrow::Cow, sync::OnceLock};

/// The host names that a server answers to, and the origins of pages that may use it.
///
/// By default these are `localhost`, `127.0.0.1` and `[::1]` on any port, and pages from there.
/// A client that is not a browser sends no origin, and needs none.
///
/// ```
/// use interlock::AllowedHosts;
///
/// let hosts = AllowedHosts::new()
///     .allow_host("mcp.example.com")
///     .allow_origin("https://app.example.com");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    hosts: Vec<String>,
    origins: Vec<String>,
    loopback: Loopback,
    any_host: bool,
    any_origin: bool,
}

/// Whether this machine's own names are allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Loopback {
    #[default]
    Allowed,
    Refused,
}

impl AllowedHosts {
    /// This machine alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers to this name or address, too; on any port unless it names one.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Lets pages of this origin in, too: scheme, host, and port unless it is the scheme's own.
    /// Their browsers are told so, by CORS headers.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Answers to every name. Only for a server behind something else that checks it.
    #[must_use]
    pub const fn allow_any_host(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// Lets every page in. Only for a server that asks for credentials no page can have.
    #[must_use]
    pub const fn allow_any_origin(mut self) -> Self {
        self.any_origin = true;
        self
    }

    /// Answers to no name of this machine that is not listed, and refuses pages from there.
    #[must_use]
    pub const fn without_loopback(mut self) -> Self {
        self.loopback = Loopback::Refused;
        self
    }

    /// The check of requests; or everything that is wrong with what was listed.
    pub(crate) fn host_check(&self) -> Result<HostCheck, Vec<String>> {
        let mut problems = Vec::new();
        let mut complain = |text: &String, problem: &str| {
            problems.push(format!("`{}` is {problem}", shortened(text)));
        };
        let mut hosts = Vec::new();
        for text in &self.hosts {
            match Authority::parse(text) {
                Some(host) => hosts.push(host),
                None => complain(text, "not a host with or without a port"),
            }
        }
        let mut origins = Vec::new();
        for text in &self.origins {
            match Origin::parse(text) {
                Some(origin) => origins.push(origin),
                None => complain(text, "not an origin, which is a scheme, a host and a port"),
            }
        }
        let check = HostCheck {
            hosts: (!self.any_host).then_some(hosts),
            origins: (!self.any_origin).then_some(origins),
            loopback: self.loopback,
            first_allowed: OnceLock::new(),
        };
        if problems.is_empty() {
            Ok(check)
        } else {
            Err(problems)
        }
    }
}

/// Checks the host and the origin of requests.
#[derive(Clone, Debug)]
pub(crate) struct HostCheck {
    /// None: every host.
    hosts: Option<Vec<Authority>>,
    /// None: every origin.
    origins: Option<Vec<Origin>>,
    loopback: Loopback,
    /// The `Host` that was allowed first. Mostly there is no other, so it is not parsed again.
    first_allowed: OnceLock<Box<[u8]>>,
}

impl HostCheck {
    /// Whether a request names a host that is ours and, if any, an origin that may come in.
    pub(crate) fn check(&self, uri: &Uri, headers: &KnownHeaders<'_>) -> Result<(), Refusal> {
        self.check_host(uri, headers.host)?;
        self.check_origin(headers.origin)
    }

    fn check_host(&self, uri: &Uri, values: HeaderValues<'_>) -> Result<(), Refusal> {
        let Some(hosts) = &self.hosts else {
            return Ok(());
        };
        let named = only(values, "Host")?.filter(|_| uri.authority().is_none());
        let named = named.map(HeaderValue::as_bytes);
        if named.is_some() && named == self.first_allowed.get().map(|first| &**first) {
            return Ok(());
        }
        let asked = asked_host(uri, values)?;
        let loopback = self.loopback == Loopback::Allowed && asked.host.is_loopback();
        if loopback || hosts.iter().any(|host| host.covers(&asked)) {
            if let Some(named) = named {
                self.first_allowed.get_or_init(|| named.into());
            }
            Ok(())
        } else {
            Err(forbidden(format!(
                "this server does not answer to the host `{}`",
                shortened(&asked.to_string())
            )))
        }
    }

    fn check_origin(&self, values: HeaderValues<'_>) -> Result<(), Refusal> {
        let Some(origins) = &self.origins else {
            return Ok(());
        };
        let Some(value) = only(values, "Origin")? else {
            return Ok(());
        };
        let text = value.to_str().unwrap_or_default();
        let allowed = Origin::parse(text).is_some_and(|origin| {
            let loopback = self.loopback == Loopback::Allowed && origin.is_loopback();
            loopback || origins.contains(&origin)
        });
        if allowed {
            Ok(())
        } else {
            Err(forbidden(format!(
                "the origin `{}` is not allowed",
                shortened(text)
            )))
        }
    }
}

/// The host that a request was sent to. HTTP/2 has it in the URI, HTTP/1.1 in `Host`; a request
/// with both must mean the same by them.
fn asked_host(uri: &Uri, values: HeaderValues<'_>) -> Result<Authority, Refusal> {
    let read = |text: &str| {
        Authority::parse(text).ok_or_else(|| forbidden("the host is not a name or an address"))
    };
    let in_header = match only(values, "Host")? {
        Some(value) => Some(read(value.to_str().unwrap_or_default())?),
        None => None,
    };
    let in_uri = match uri.authority() {
        Some(authority) => Some(read(authority.as_str())?),
        None => None,
    };
    match (in_uri, in_header) {
        (Some(one), Some(other)) if one != other => Err(forbidden(
            "the URI and the header Host name different hosts",
        )),
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(forbidden("the header Host is missing")),
    }
}

fn only<'a>(values: HeaderValues<'a>, header: &str) -> Result<Option<&'a HeaderValue>, Refusal> {
    match values {
        HeaderValues::None => Ok(None),
        HeaderValues::One(value) => Ok(Some(value)),
        HeaderValues::Many => Err(forbidden(format!(
            "the header {header} is there more than once"
        ))),
    }
}

fn forbidden(why: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(Code::AuthzForbidden).because(why)
}

#[cfg(test)]
mod tests;
