//! What a 2026-07-28 request says about itself, read in one go with what it is about.

use super::{Text, Version, is_token, text};
use crate::{Code, Level, Refusal};
use memchr::memmem::Finder;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{fmt, marker::PhantomData, sync::LazyLock};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS: &str = "progressToken";

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
    /// What it is about.
    pub about: About<'a>,
}

/// What a request is about: those of its parameters that most requests have, as they were written.
/// One that is null counts as absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// `name`, of a tool or a prompt.
    pub name: Option<&'a RawValue>,
    /// `arguments`, for a tool or a prompt.
    pub arguments: Option<&'a RawValue>,
    /// `uri`, of a resource.
    pub uri: Option<&'a RawValue>,
    /// `taskId`.
    pub task: Option<&'a RawValue>,
    /// `inputResponses`, of a request that comes back with answers.
    pub input_responses: Option<&'a RawValue>,
    /// `requestState`, of a request that comes back with answers.
    pub request_state: Option<&'a RawValue>,
    /// One of these is there twice, and the last one is what stands here.
    pub twice: bool,
}

/// Reads the modern `_meta` of a request. `None`: it has none, so it belongs to the handshake era.
///
/// ```
/// use interlock_proto::{Version, era::modern};
///
/// let params = serde_json::value::RawValue::from_string(
///     r#"{"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
///                   "io.modelcontextprotocol/clientCapabilities": {}}}"#.to_owned(),
/// ).unwrap();
/// assert_eq!(modern(Some(&params)).unwrap().unwrap().version, Version::V2026_07_28);
/// assert!(modern(None).unwrap().is_none());
/// ```
///
/// # Errors
///
/// −32022 for a version that is not served statelessly, −32602 for a required field that is
/// missing or of the wrong type.
pub fn modern(params: Option<&RawValue>) -> Result<Option<Modern<'_>>, Refusal> {
    // Most requests of the handshake era are told by this alone, without reading them twice. The
    // needle holds no character that a JSON writer would escape.
    let Some(params) = params.filter(|raw| PROTOCOL_VERSION.find(raw.get().as_bytes()).is_some())
    else {
        return Ok(None);
    };
    // Params that are no object, or a `_meta` that is none, carry no modern `_meta`; the method's
    // own reader says what is wrong with them.
    let Some(Params { meta, about }) = object::<Params<'_>>(params) else {
        return Ok(None);
    };
    let Some(version) = meta.version else {
        return Ok(None);
    };
    let mismatch = |what: &str| {
        Refusal::new(Code::FieldTypeMismatch)
            .because(format!("`_meta[\"{what}\"]` has the wrong type"))
    };
    let requested = text(version).ok_or_else(|| mismatch(VERSION))?;
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
        progress: meta.progress.filter(is_token),
        about,
    }))
}

/// What most messages of the handshake era do not hold. No JSON writer would escape any of it.
static PROTOCOL_VERSION: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("protocolVersion"));

/// The parameters of a request, as far as they are the same for all methods.
#[derive(Default)]
struct Params<'a> {
    meta: Stated<'a>,
    about: About<'a>,
}

/// What the `_meta` of a request states; nothing, if it is no object.
#[derive(Default)]
struct Stated<'a> {
    version: Option<&'a RawValue>,
    capabilities: Option<&'a RawValue>,
    client: Option<&'a RawValue>,
    level: Option<&'a RawValue>,
    progress: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Params<'a> {
    /// By hand, since a parameter that is there twice is the method's business.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(PhantomData<Params<'a>>);

        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = Params<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut about = About::default();
                let mut meta = None;
                let mut seen = 0_u8;
                while let Some(Text(key)) = map.next_key()? {
                    let (bit, place) = match &*key {
                        "_meta" if meta.is_some() => {
                            return Err(A::Error::duplicate_field("_meta"));
                        }
                        "_meta" => {
                            meta = Some(map.next_value()?);
                            continue;
                        }
                        "name" => (1, &mut about.name),
                        "arguments" => (2, &mut about.arguments),
                        "uri" => (4, &mut about.uri),
                        "taskId" => (8, &mut about.task),
                        "inputResponses" => (16, &mut about.input_responses),
                        "requestState" => (32, &mut about.request_state),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *place = map.next_value()?;
                    about.twice |= seen & bit != 0;
                    seen |= bit;
                }
                let meta = meta.unwrap_or_default();
                Ok(Params { meta, about })
            }
        }

        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Stated<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(PhantomData<Stated<'a>>);

        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = Stated<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut stated = Stated::default();
                while let Some(Text(key)) = map.next_key()? {
                    let (name, place) = match &*key {
                        VERSION => (VERSION, &mut stated.version),
                        CAPABILITIES => (CAPABILITIES, &mut stated.capabilities),
                        CLIENT => (CLIENT, &mut stated.client),
                        LEVEL => (LEVEL, &mut stated.level),
                        PROGRESS => (PROGRESS, &mut stated.progress),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    if std::mem::replace(place, map.next_value()?).is_some() {
                        // What progress is reported with is not worth a refusal.
                        if name != PROGRESS {
                            return Err(A::Error::duplicate_field(name));
                        }
                        *place = None;
                    }
                }
                Ok(stated)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Stated::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Stated::default())
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Stated::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Stated::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Stated::default())
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Stated::default())
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Stated::default())
            }
        }

        deserializer.deserialize_any(Members(PhantomData))
    }
}

/// Reads the name of a log level.
fn level(raw: &RawValue) -> Option<Level> {
    Level::parse(&text(raw)?)
}

/// Reads an object, and nothing else: a derived reader would take an array for one.
fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    if !raw.get().starts_with('{') {
        return None;
    }
    serde_json::from_str(raw.get()).ok()
}
