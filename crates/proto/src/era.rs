//! Protocol versions, the two eras they fall into, and which methods exist where.

use crate::RpcCode;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, fmt};

mod modern;

pub use modern::{Modern, modern};

/// A published revision of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// 2024-11-05.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25.
    V2025_11_25,
    /// 2026-07-28.
    V2026_07_28,
}

/// How a client and a server come to terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// By `initialize`, once per connection or session.
    Handshake,
    /// By `_meta`, on every request.
    Stateless,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: &'static [Self] = &[
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// Those that a single request can select by its `_meta`.
    pub const STATELESS: &'static [Self] = &[Self::V2026_07_28];

    /// Those that `initialize` can select, newest first.
    pub const HANDSHAKE: &'static [Self] = &[
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// All of them, newest first.
    pub const NEWEST_FIRST: &'static [Self] = &[
        Self::V2026_07_28,
        Self::V2025_11_25,
        Self::V2025_06_18,
        Self::V2025_03_26,
        Self::V2024_11_05,
    ];

    /// What `initialize` is answered with when it asks for something we do not serve that way.
    pub const COUNTER_OFFER: Self = Self::V2025_11_25;

    /// The date by which it is known.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The version known by that date.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|v| v.as_str() == text)
    }

    /// Whether it has batches: several messages in one array. They came with 2025-03-26 and went
    /// with the version after it.
    #[must_use]
    pub const fn has_batches(self) -> bool {
        match self {
            Self::V2025_03_26 => true,
            Self::V2024_11_05 | Self::V2025_06_18 | Self::V2025_11_25 | Self::V2026_07_28 => false,
        }
    }

    /// Which way of coming to terms it uses.
    #[must_use]
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => {
                Era::Handshake
            }
            Self::V2026_07_28 => Era::Stateless,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something a server or a client can do, and says so when they come to terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// Of servers.
    Tools,
    /// Of servers.
    Resources,
    /// Of servers.
    Prompts,
    /// Of servers.
    Logging,
    /// Of servers.
    Completions,
    /// Of both.
    Tasks,
    /// Of clients.
    Roots,
    /// Of clients.
    Sampling,
    /// Of clients.
    Elicitation,
}

impl Capability {
    /// Those that a client can declare.
    pub const OF_CLIENTS: &'static [Self] =
        &[Self::Roots, Self::Sampling, Self::Elicitation, Self::Tasks];

    /// Its member in a capabilities object.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
            Self::Logging => "logging",
            Self::Completions => "completions",
            Self::Tasks => "tasks",
            Self::Roots => "roots",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
        }
    }
}

macro_rules! methods {
    ($($variant:ident $name:literal $since:ident..=$until:ident $owner:expr;)*) => {
        /// A request that a client can make.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Method {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
        }

        impl Method {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The method of that name, in any version.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// Whether that version has it.
            #[must_use]
            pub fn exists_in(self, version: Version) -> bool {
                match self {
                    $(Self::$variant =>
                        (Version::$since..=Version::$until).contains(&version),)*
                }
            }

            /// What the server must offer for it; `None` if every server has it.
            #[must_use]
            pub const fn capability(self) -> Option<Capability> {
                match self { $(Self::$variant => $owner,)* }
            }
        }
    };
}

methods! {
    Initialize "initialize" V2024_11_05..=V2025_11_25 None;
    Ping "ping" V2024_11_05..=V2025_11_25 None;
    Discover "server/discover" V2026_07_28..=V2026_07_28 None;
    ToolsList "tools/list" V2024_11_05..=V2026_07_28 Some(Capability::Tools);
    ToolsCall "tools/call" V2024_11_05..=V2026_07_28 Some(Capability::Tools);
    ResourcesList "resources/list" V2024_11_05..=V2026_07_28 Some(Capability::Resources);
    ResourcesTemplatesList "resources/templates/list" V2024_11_05..=V2026_07_28 Some(Capability::Resources);
    ResourcesRead "resources/read" V2024_11_05..=V2026_07_28 Some(Capability::Resources);
    ResourcesSubscribe "resources/subscribe" V2024_11_05..=V2025_11_25 Some(Capability::Resources);
    ResourcesUnsubscribe "resources/unsubscribe" V2024_11_05..=V2025_11_25 Some(Capability::Resources);
    PromptsList "prompts/list" V2024_11_05..=V2026_07_28 Some(Capability::Prompts);
    PromptsGet "prompts/get" V2024_11_05..=V2026_07_28 Some(Capability::Prompts);
    LoggingSetLevel "logging/setLevel" V2024_11_05..=V2025_11_25 Some(Capability::Logging);
    CompletionComplete "completion/complete" V2024_11_05..=V2026_07_28 Some(Capability::Completions);
    TasksGet "tasks/get" V2025_11_25..=V2026_07_28 Some(Capability::Tasks);
    TasksResult "tasks/result" V2025_11_25..=V2025_11_25 Some(Capability::Tasks);
    TasksList "tasks/list" V2025_11_25..=V2025_11_25 Some(Capability::Tasks);
    TasksCancel "tasks/cancel" V2025_11_25..=V2026_07_28 Some(Capability::Tasks);
    TasksUpdate "tasks/update" V2026_07_28..=V2026_07_28 Some(Capability::Tasks);
    SubscriptionsListen "subscriptions/listen" V2026_07_28..=V2026_07_28 None;
}

impl Method {
    /// Whether it runs something that takes its time and can be taken back.
    #[must_use]
    pub const fn is_call(self) -> bool {
        match self {
            Self::ToolsCall | Self::ResourcesRead | Self::PromptsGet | Self::CompletionComplete => {
                true
            }
            Self::Initialize
            | Self::Ping
            | Self::Discover
            | Self::ToolsList
            | Self::ResourcesList
            | Self::ResourcesTemplatesList
            | Self::ResourcesSubscribe
            | Self::ResourcesUnsubscribe
            | Self::PromptsList
            | Self::LoggingSetLevel
            | Self::TasksGet
            | Self::TasksResult
            | Self::TasksList
            | Self::TasksCancel
            | Self::TasksUpdate
            | Self::SubscriptionsListen => false,
        }
    }
}

/// The capabilities a client declares, those we know apart from those we do not.
///
/// `None` if it is no object. Of unknown names a bounded number is kept, each cut short.
#[must_use]
pub fn declared(capabilities: &RawValue) -> Option<(Vec<Capability>, Vec<Box<str>>)> {
    const MOST_UNKNOWN: usize = 16;

    let members: BTreeMap<String, &RawValue> = serde_json::from_str(capabilities.get()).ok()?;
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for name in members.into_keys() {
        match Capability::OF_CLIENTS.iter().find(|c| c.name() == name) {
            Some(capability) => known.push(*capability),
            None if unknown.len() < MOST_UNKNOWN => {
                unknown.push(crate::refusal::shortened(&name).into());
            }
            None => {}
        }
    }
    Some((known, unknown))
}

/// A string that is written as JSON; borrowed, and not read again, where there is nothing to
/// unescape.
///
/// ```
/// assert_eq!(interlock_proto::era::text(r#""tools\u002flist""#).as_deref(), Some("tools/list"));
/// ```
#[must_use]
pub fn text(quoted: &str) -> Option<Cow<'_, str>> {
    let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if !inside.contains('\\') {
        return Some(Cow::Borrowed(inside));
    }
    let Text(text) = serde_json::from_str(quoted).ok()?;
    Some(text)
}

/// A string on its way in: a plain `Cow` would always copy it.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// One member of an object; `None` if it is no object, has no such member, or that is null.
#[must_use]
pub fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    member_of(object.get(), name)
}

pub(crate) fn member_of<'a>(object: &'a str, name: &str) -> Option<&'a RawValue> {
    struct Find<'n>(&'n str);

    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(Text(key)) = map.next_key()? {
                if key == self.0 {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    let mut reader = serde_json::Deserializer::from_str(object);
    let found = Deserializer::deserialize_map(&mut reader, Find(name)).ok()?;
    found.filter(|value| value.get() != "null")
}

/// The code of "no such resource": it changed with 2026-07-28.
#[must_use]
pub const fn resource_not_found(version: Version) -> RpcCode {
    match version.era() {
        Era::Handshake => RpcCode::RESOURCE_NOT_FOUND,
        Era::Stateless => RpcCode::INVALID_PARAMS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ability, Code, Params, Refusal};

    fn params(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn read(params: &RawValue) -> Result<Option<Modern<'_>>, Refusal> {
        modern(Some(&Params::new(params)))
    }

    #[test]
    fn every_version_and_method_reads_as_it_is_written() {
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Some(*version));
        }
        for method in Method::ALL {
            assert_eq!(Method::parse(method.name()), Some(*method));
        }
        assert_eq!(Version::parse("2025-11-26"), None);
        assert_eq!(Method::parse("tools/Call"), None);
    }

    #[test]
    fn the_handshake_exists_only_in_the_handshake_era() {
        for version in Version::ALL {
            let handshake = version.era() == Era::Handshake;
            assert_eq!(Method::Initialize.exists_in(*version), handshake);
            assert_eq!(Method::Ping.exists_in(*version), handshake);
            assert_eq!(Method::Discover.exists_in(*version), !handshake);
            assert!(Method::ToolsCall.exists_in(*version));
        }
    }

    #[test]
    fn only_a_protocol_version_in_meta_makes_a_request_modern() {
        for old in [
            "{}",
            "[]",
            "5",
            r#"{"_meta": 5, "x": "protocolVersion"}"#,
            r#"{"protocolVersion": "2026-07-28"}"#,
            r#"{"_meta": {"progressToken": 1, "protocolVersion": "2026-07-28"}}"#,
            r#"{"_meta": ["2026-07-28", {}], "x": "protocolVersion"}"#,
            r#"[{"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                 "io.modelcontextprotocol/clientCapabilities": {}}]"#,
        ] {
            assert!(read(&params(old)).unwrap().is_none(), "{old}");
        }
        let escaped = r#"{"_meta": {"io.modelcontextprotocol\/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol\/clientCapabilities": {"sampling": {}, "x": {}}}}"#;
        let escaped = params(escaped);
        let modern = read(&escaped).unwrap().unwrap();
        assert!(Ability::Sampling.is_declared(modern.capabilities, modern.version));
        assert_eq!(modern.level, None);
    }

    #[test]
    fn a_modern_request_that_lacks_something_is_refused() {
        let refused = |meta: &str| {
            let params = params(&format!(r#"{{"_meta": {{{meta}}}}}"#));
            let refusal = read(&params).unwrap_err();
            (refusal.code(), refusal.rpc_code().0)
        };
        let version = r#""io.modelcontextprotocol/protocolVersion""#;
        let client = r#""io.modelcontextprotocol/clientCapabilities""#;
        assert_eq!(
            refused(&format!(r#"{version}: "2025-11-25", {client}: {{}}"#)),
            (Code::InvalidProtocolVersion, -32022)
        );
        assert_eq!(
            refused(&format!(r#"{version}: 5, {client}: {{}}"#)),
            (Code::FieldTypeMismatch, -32602)
        );
        assert_eq!(
            refused(&format!(r#"{version}: "2026-07-28""#)),
            (Code::MissingRequiredField, -32602)
        );
        assert_eq!(
            refused(&format!(r#"{version}: "2026-07-28", {client}: []"#)),
            (Code::FieldTypeMismatch, -32602)
        );
        let level = r#""io.modelcontextprotocol/logLevel""#;
        assert_eq!(
            refused(&format!(
                r#"{version}: "2026-07-28", {client}: {{}}, {level}: "loud""#
            )),
            (Code::FieldTypeMismatch, -32602)
        );
    }

    #[test]
    fn a_progress_token_is_a_string_or_an_integer() {
        let token = |text: &str| {
            let params = params(text);
            let token = Params::new(&params).progress();
            token.map(|raw| raw.get().to_owned())
        };
        assert_eq!(token(r#"{"_meta": {"progressToken": 7}}"#).unwrap(), "7");
        assert_eq!(
            token(r#"{"_meta": {"progressToken": "a"}}"#).unwrap(),
            "\"a\""
        );
        for none in [
            r#"{"_meta": {"progressToken": null}}"#,
            r#"{"_meta": {"progressToken": 1.5}}"#,
            r#"{"_meta": {"progressToken": {}}}"#,
            r#"{"progressToken": 1}"#,
            r#"{"_meta": ["progressToken"]}"#,
        ] {
            assert_eq!(token(none), None, "{none}");
        }
    }

    #[test]
    fn what_a_request_says_about_itself_is_an_object_as_it_was_written() {
        let meta = |text: &str| {
            let params = params(text);
            let meta = Params::new(&params).meta();
            meta.map(|raw| raw.get().to_owned())
        };
        for written in ["{}", r#"{ "a.b/c" : [1.50] }"#, r#"{"progressToken": {}}"#] {
            let text = format!(r#"{{"name": "x", "_meta": {written}, "more": 1}}"#);
            assert_eq!(meta(&text).as_deref(), Some(written));
        }
        for none in [
            "[]",
            r#"{"name": "x", "arguments": {"_meta": {}}}"#,
            r#"{"_meta": null}"#,
            r#"{"_meta": [{}]}"#,
            r#"{"_meta": {}, "_meta": {}}"#,
        ] {
            assert_eq!(meta(none), None, "{none}");
        }
    }

    #[test]
    fn unknown_capabilities_are_kept_in_bounds() {
        let many: Vec<_> = (0..1000).map(|n| format!(r#""x{n}": {{}}"#)).collect();
        let raw =
            RawValue::from_string(format!("{{{}, \"roots\": {{}}}}", many.join(","))).unwrap();
        let (known, unknown) = declared(&raw).unwrap();
        assert_eq!(known, [Capability::Roots]);
        assert_eq!(unknown.len(), 16);
    }
}
