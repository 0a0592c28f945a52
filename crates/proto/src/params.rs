//! The parameters of a request: as they were written, and what is found in them at a glance.
//!
//! They are read once, when the message is. What most methods need is then at hand, and whatever
//! else they hold stays as it was written.

use crate::{
    era::{self, Text},
    scan::Rest,
};
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{fmt, marker::PhantomData};

pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS: &str = "progressToken";

/// The parameters of a request.
///
/// ```
/// use interlock_proto::Params;
///
/// let raw = serde_json::value::RawValue::from_string(
///     r#"{"name": "pay", "_meta": {"progressToken": 7}}"#.to_owned(),
/// ).unwrap();
/// let params = Params::new(&raw);
/// assert_eq!(params.about().unwrap().name, Some("\"pay\""));
/// assert_eq!(params.progress().unwrap().get(), "7");
/// assert_eq!(params.meta().unwrap().get(), r#"{"progressToken": 7}"#);
/// assert_eq!(params.get(), raw.get());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    text: &'a str,
    found: Option<Found<'a>>,
}

impl<'a> Params<'a> {
    /// Looks at parameters as they were written.
    #[must_use]
    pub fn new(raw: &'a RawValue) -> Self {
        let text = raw.get();
        // A derived reader would take an array for an object.
        let found = text
            .starts_with('{')
            .then(|| serde_json::from_str(text).ok());
        Self {
            text,
            found: found.flatten(),
        }
    }

    /// The object that comes next.
    pub(crate) fn next_of(rest: &mut Rest<'a>) -> Option<Self> {
        if !rest.starts_with(b'{') {
            return None;
        }
        let before = rest.clone();
        let found = match Found::usual(rest) {
            Some(found) => found,
            None => {
                *rest = before.clone();
                rest.value()?
            }
        };
        let text = rest.since(&before)?;
        let found = Some(found);
        Some(Self { text, found })
    }

    /// They themselves, as JSON.
    #[must_use]
    pub const fn get(&self) -> &'a str {
        self.text
    }

    /// What the request is about. `None` if they are no object, or hold two `_meta`.
    #[must_use]
    pub fn about(&self) -> Option<&About<'a>> {
        self.found.as_ref().map(|found| &found.about)
    }

    /// What progress is to be reported with: a string or an integer. What is not well formed is as
    /// if it were absent.
    #[must_use]
    pub fn progress(&self) -> Option<&'a RawValue> {
        let token = self.found.as_ref()?.meta.progress;
        token.filter(|token| crate::RequestId::read(token).is_some())
    }

    /// `_meta`, as it was written: what the request says about itself. `None` if it is no object.
    #[must_use]
    pub fn meta(&self) -> Option<&'a RawValue> {
        // Few ask for it, so that it is sought again rather than kept.
        let is_there = self.found.as_ref()?.meta.is_there;
        is_there.then(|| self.member("_meta"))?
    }

    /// One of them; `None` if there is no such one, or it is null.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&'a RawValue> {
        era::member_of(self.text, name)
    }

    pub(crate) fn stated(&self) -> Option<&Stated<'a>> {
        self.found.as_ref().map(|found| &found.meta)
    }
}

/// Those parameters that most requests have, as they were written. One that is null counts as
/// absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// `name`, of a tool or a prompt.
    pub name: Option<&'a str>,
    /// `arguments`, for a tool or a prompt.
    pub arguments: Option<&'a str>,
    /// `uri`, of a resource.
    pub uri: Option<&'a str>,
    /// `taskId`.
    pub task: Option<&'a str>,
    /// `inputResponses`, of a request that comes back with answers.
    pub input_responses: Option<&'a str>,
    /// `requestState`, of a request that comes back with answers.
    pub request_state: Option<&'a str>,
    /// One of these is there twice, so that the last one stands here; or `_meta` is no object.
    pub is_odd: bool,
}

/// What is found in an object of parameters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found<'a> {
    pub(crate) meta: Stated<'a>,
    pub(crate) about: About<'a>,
}

/// What the `_meta` of a request states; nothing, if it is no object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stated<'a> {
    pub(crate) version: Option<&'a RawValue>,
    pub(crate) capabilities: Option<&'a RawValue>,
    pub(crate) client: Option<&'a RawValue>,
    pub(crate) level: Option<&'a RawValue>,
    pub(crate) progress: Option<&'a RawValue>,
    is_there: bool,
    is_odd: bool,
}

impl Stated<'_> {
    /// Of a `_meta` that is no object.
    fn odd<E>() -> Result<Self, E> {
        Ok(Self {
            is_odd: true,
            ..Self::default()
        })
    }
}

impl<'a> Found<'a> {
    /// Reads an object of `name`, `arguments` and `_meta` as most calls have it.
    fn usual(rest: &mut Rest<'a>) -> Option<Self> {
        let mut about = About::default();
        let mut meta: Option<Stated<'_>> = None;
        rest.take("{")?;
        loop {
            if about.name.is_none() && rest.take("\"name\":").is_some() {
                let before = rest.spaces().clone();
                rest.string()?;
                about.name = Some(rest.since(&before)?);
            } else if about.arguments.is_none() && rest.take("\"arguments\":").is_some() {
                about.arguments = Some(rest.spaces().object()?);
            } else if meta.is_none() && rest.take("\"_meta\":").is_some() {
                let is_object = rest.spaces().starts_with(b'{');
                meta = is_object.then(|| rest.value())?;
            } else {
                return None;
            }
            if rest.take(",").is_none() {
                break;
            }
            rest.spaces();
        }
        rest.take("}")?;
        let meta = meta.unwrap_or_default();
        Some(Self { meta, about })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Found<'a> {
    /// By hand, since a parameter that is there twice is the method's business.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<'a>(PhantomData<Found<'a>>);

        impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
            type Value = Found<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut about = About::default();
                let mut meta: Option<Stated<'_>> = None;
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
                    *place = map.next_value::<Option<&RawValue>>()?.map(RawValue::get);
                    about.is_odd |= seen & bit != 0;
                    seen |= bit;
                }
                let meta = meta.unwrap_or_default();
                about.is_odd |= meta.is_odd;
                Ok(Found { meta, about })
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
                let mut stated = Stated {
                    is_there: true,
                    ..Stated::default()
                };
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
                Stated::odd()
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Stated::odd()
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Stated::odd()
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Stated::odd()
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Stated::odd()
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Stated::odd()
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Stated::odd()
            }
        }

        deserializer.deserialize_any(Members(PhantomData))
    }
}
