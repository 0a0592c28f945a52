//! What a 2026-07-28 request says about itself.

use super::{Version, text};
use crate::{
    Code, Level, Params, Refusal,
    params::{CAPABILITIES, LEVEL, VERSION},
};
use serde_json::value::RawValue;

/// What a 2026-07-28 request says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Modern<'a> {
    /// The version it is written in.
    pub version: Version,
    /// What its client can do: an object.
    pub capabilities: &'a RawValue,
    /// Who its client is, if it says so.
    pub client: Option<&'a RawValue>,
    /// From which level on it wants log messages; none if it does not say.
    pub level: Option<Level>,
    /// What progress is to be reported with: a string or an integer.
    pub progress: Option<&'a RawValue>,
}

/// Reads the modern `_meta` of a request. `None`: it has none, so it belongs to the handshake era.
///
/// ```
/// use interlock_proto::{Params, Version, era::modern};
///
/// let raw = serde_json::value::RawValue::from_string(
///     r#"{"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
///                   "io.modelcontextprotocol/clientCapabilities": {}}}"#.to_owned(),
/// ).unwrap();
/// let params = Params::new(&raw);
/// assert_eq!(modern(Some(&params)).unwrap().unwrap().version, Version::V2026_07_28);
/// assert!(modern(None).unwrap().is_none());
/// ```
///
/// # Errors
///
/// −32022 for a version that is not served statelessly, −32602 for a required field that is
/// missing or of the wrong type.
pub fn modern<'a>(params: Option<&Params<'a>>) -> Result<Option<Modern<'a>>, Refusal> {
    // Params that are no object, or a `_meta` that is none, carry no modern `_meta`; the method's
    // own reader says what is wrong with them.
    let Some((params, meta)) = params.and_then(|params| Some((params, params.stated()?))) else {
        return Ok(None);
    };
    let Some(version) = meta.version else {
        return Ok(None);
    };
    let mismatch = |what: &str| {
        Refusal::new(Code::FieldTypeMismatch)
            .because(format!("`_meta[\"{what}\"]` has the wrong type"))
    };
    let requested = text(version.get()).ok_or_else(|| mismatch(VERSION))?;
    let version = Version::STATELESS
        .iter()
        .copied()
        .find(|version| version.as_str() == requested)
        .ok_or_else(|| Refusal::unsupported_version(&requested))?;
    let capabilities = meta.capabilities.ok_or_else(|| {
        Refusal::new(Code::MissingRequiredField)
            .because(format!("`_meta[\"{CAPABILITIES}\"]` is missing"))
    })?;
    if !capabilities.get().starts_with('{') {
        return Err(mismatch(CAPABILITIES));
    }
    let level = meta
        .level
        .map(|raw| level(raw).ok_or_else(|| mismatch(LEVEL)));
    Ok(Some(Modern {
        version,
        capabilities,
        client: meta.client.filter(|client| client.get().starts_with('{')),
        level: level.transpose()?,
        progress: params.progress(),
    }))
}

/// Reads the name of a log level.
fn level(raw: &RawValue) -> Option<Level> {
    Level::parse(&text(raw.get())?)
}
