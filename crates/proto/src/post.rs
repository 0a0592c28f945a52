//! What a message that comes by HTTP POST leads to.
//!
//! Both eras come through one door. A request with modern `_meta` stands alone; everything else
//! belongs to a session. What says neither is refused, and whoever refuses it answers with 400.

use crate::{
    Code, Refusal, RpcCode, Version,
    era::{self, Era, Method, Modern},
    frame::{Frame, Request},
    refusal::shortened,
};
use std::borrow::Cow;

/// What a message leads to.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// It says everything about itself.
    Alone(Modern<'a>),
    /// It belongs to the session that its headers name.
    Session,
    /// It makes a session.
    NewSession,
    /// It is taken, and means nothing.
    Nothing,
}

/// Where a message goes, by the version and the session that its headers name, and by itself.
///
/// ```
/// use interlock_proto::{frame::{self, Limits}, post::{Way, way}};
///
/// let ping = frame::parse(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &Limits::default());
/// let ping = ping.unwrap();
/// assert!(matches!(way(None, true, &ping), Ok(Way::Session)));
/// assert!(way(None, false, &ping).is_err());
/// ```
///
/// # Errors
///
/// Why it goes nowhere.
pub fn way<'a>(
    version: Option<&str>,
    has_session: bool,
    message: &Frame<'a>,
) -> Result<Way<'a>, Refusal> {
    match message {
        Frame::Request(request) => request_way(version, has_session, request),
        // No notification of 2026-07-28 means anything over HTTP, and none does harm.
        Frame::Notification(_) if is_stateless(version)? => Ok(Way::Nothing),
        Frame::Response(_) if is_stateless(version)? => Err(no_session()),
        Frame::Notification(_) | Frame::Response(_) => of_session(version, has_session),
    }
}

/// Where a message goes that only a session can have sent, such as a batch.
///
/// # Errors
///
/// If its headers name no session, or a version that is none.
pub fn of_session<'a>(version: Option<&str>, has_session: bool) -> Result<Way<'a>, Refusal> {
    named(version)?;
    if has_session {
        Ok(Way::Session)
    } else {
        Err(no_session())
    }
}

fn request_way<'a>(
    version: Option<&str>,
    has_session: bool,
    request: &Request<'a>,
) -> Result<Way<'a>, Refusal> {
    let modern = era::modern(request.params.as_ref());
    let modern = modern.map_err(|refusal| disagreement(version, request).unwrap_or(refusal))?;
    if let Some(modern) = modern {
        return Ok(Way::Alone(modern));
    }
    if is_stateless(version)? {
        return Err(Refusal::new(Code::ServerUninitialized)
            .because("a 2026-07-28 request needs its `_meta`"));
    }
    match Method::parse(&request.method) {
        _ if has_session => Ok(Way::Session),
        Some(Method::Initialize) => Ok(Way::NewSession),
        _ => Err(Refusal::new(Code::ServerUninitialized)),
    }
}

/// The version that the headers name, if they do.
///
/// # Errors
///
/// If there is no such version.
pub fn named(version: Option<&str>) -> Result<Option<Version>, Refusal> {
    let parse =
        |text: &str| Version::parse(text.trim()).ok_or_else(|| Refusal::unsupported_version(text));
    version.map(parse).transpose()
}

fn is_stateless(version: Option<&str>) -> Result<bool, Refusal> {
    Ok(named(version)?.is_some_and(|version| version.era() == Era::Stateless))
}

fn no_session() -> Refusal {
    Refusal::new(Code::SessionInvalid).because("the header Mcp-Session-Id is missing")
}

/// Whether a header and a body name two versions: that is to be said before either of them is
/// looked at.
fn disagreement(header: Option<&str>, request: &Request<'_>) -> Option<Refusal> {
    let header = header?;
    let meta = request.params?.member("_meta")?;
    let body = era::member(meta, "io.modelcontextprotocol/protocolVersion")?;
    let body: Cow<'_, str> = serde_json::from_str(body.get()).ok()?;
    if header.trim() == body {
        return None;
    }
    let (header, body) = (shortened(header), shortened(&body));
    let why = format!("the header MCP-Protocol-Version says '{header}' and the body '{body}'");
    Some(
        Refusal::new(Code::InvalidHeader)
            .with_rpc(RpcCode::HEADER_MISMATCH)
            .because(why),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Limits, parse};

    const MODERN: &str = "2026-07-28";
    const OLD: &str = "2025-11-25";

    fn request(method: &str, meta_version: Option<&str>) -> String {
        let meta = meta_version.map_or_else(String::new, |version| {
            format!(
                r#","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
            )
        });
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"{meta}}}"#)
    }

    /// The way's name, or the codes of the refusal.
    fn goes(version: Option<&str>, has_session: bool, message: &str) -> String {
        let frame = parse(message.as_bytes(), &Limits::default()).unwrap();
        match way(version, has_session, &frame) {
            Ok(Way::Alone(_)) => "alone".to_owned(),
            Ok(Way::Session) => "session".to_owned(),
            Ok(Way::NewSession) => "new".to_owned(),
            Ok(Way::Nothing) => "nothing".to_owned(),
            Err(no) => format!("{} {}", no.rpc_code().0, no.code().number()),
        }
    }

    #[test]
    fn a_request_that_stands_alone_does_so_whatever_its_headers_say_of_sessions() {
        let alone = request("tools/list", Some(MODERN));
        for session in [false, true] {
            for version in [None, Some(MODERN), Some(OLD), Some("v999")] {
                assert_eq!(goes(version, session, &alone), "alone");
            }
        }
    }

    #[test]
    fn a_version_that_is_not_served_is_told_unless_the_header_names_another() {
        let unknown = request("tools/list", Some("v999"));
        assert_eq!(goes(Some("v999"), false, &unknown), "-32022 1027");
        assert_eq!(goes(None, false, &unknown), "-32022 1027");
        assert_eq!(goes(Some(MODERN), false, &unknown), "-32020 1025");
    }

    #[test]
    fn a_request_without_meta_belongs_to_a_session_or_makes_one() {
        for version in [None, Some(OLD), Some(" 2025-11-25 ")] {
            assert_eq!(goes(version, true, &request("tools/list", None)), "session");
            assert_eq!(goes(version, true, &request("initialize", None)), "session");
            assert_eq!(goes(version, false, &request("initialize", None)), "new");
            for method in ["tools/list", "ping", "nobody/knows"] {
                let refused = goes(version, false, &request(method, None));
                assert_eq!(refused, "-32602 1076");
            }
        }
        for session in [false, true] {
            let refused = goes(Some(MODERN), session, &request("initialize", None));
            assert_eq!(refused, "-32602 1076");
            let refused = goes(Some("v999"), session, &request("initialize", None));
            assert_eq!(refused, "-32022 1027");
        }
    }

    #[test]
    fn what_is_no_request_belongs_to_a_session_or_means_nothing() {
        let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for message in [told, answer] {
            assert_eq!(goes(Some(OLD), true, message), "session");
            assert_eq!(goes(None, true, message), "session");
            assert_eq!(goes(None, false, message), "-32603 1016");
            assert_eq!(goes(Some("v999"), true, message), "-32022 1027");
        }
        for session in [false, true] {
            assert_eq!(goes(Some(MODERN), session, told), "nothing");
            assert_eq!(goes(Some(MODERN), session, answer), "-32603 1016");
        }
        assert!(of_session(None, true).is_ok());
        assert!(of_session(None, false).is_err());
        assert!(of_session(Some("v999"), true).is_err());
    }
}
