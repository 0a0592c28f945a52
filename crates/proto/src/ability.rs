//! What a server may ask of a client, and whether the client said that it can.

use crate::{Version, era};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Something a server can ask of a client that declared it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ability {
    /// `roots/list`.
    Roots,
    /// `sampling/createMessage`.
    Sampling,
    /// Sampling with tools.
    SamplingTools,
    /// Sampling with the context of other servers.
    SamplingContext,
    /// `elicitation/create` with a form.
    Form,
    /// `elicitation/create` with a URL.
    Url,
}

impl Ability {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Roots,
        Self::Sampling,
        Self::SamplingTools,
        Self::SamplingContext,
        Self::Form,
        Self::Url,
    ];

    /// The member of the capabilities object, and the member of that one, if it is told apart.
    const fn path(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Roots => ("roots", None),
            Self::Sampling => ("sampling", None),
            Self::SamplingTools => ("sampling", Some("tools")),
            Self::SamplingContext => ("sampling", Some("context")),
            Self::Form => ("elicitation", Some("form")),
            Self::Url => ("elicitation", Some("url")),
        }
    }

    /// What it is, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Roots => "its roots",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling with tools",
            Self::SamplingContext => "sampling with context",
            Self::Form => "forms for the user",
            Self::Url => "visits to a URL",
        }
    }

    /// The first version that has it.
    #[must_use]
    pub const fn since(self) -> Version {
        match self {
            Self::Roots | Self::Sampling => Version::V2024_11_05,
            // Versions before 2025-11-25 had it without a capability of its own.
            Self::SamplingContext => Version::V2024_11_05,
            Self::Form => Version::V2025_06_18,
            Self::SamplingTools | Self::Url => Version::V2025_11_25,
        }
    }

    /// Whether a client that speaks this version and declared these capabilities has it.
    ///
    /// ```
    /// use interlock_proto::{Ability, Version};
    ///
    /// let declared = serde_json::value::RawValue::from_string(
    ///     r#"{"elicitation": {}}"#.to_owned(),
    /// ).unwrap();
    /// assert!(Ability::Form.is_declared(&declared, Version::V2025_11_25));
    /// assert!(!Ability::Url.is_declared(&declared, Version::V2025_11_25));
    /// assert!(!Ability::Form.is_declared(&declared, Version::V2025_03_26));
    /// ```
    #[must_use]
    pub fn is_declared(self, capabilities: &RawValue, version: Version) -> bool {
        if version < self.since() {
            return false;
        }
        let (group, member) = self.path();
        let Some(group) = era::member(capabilities, group) else {
            return false;
        };
        match self {
            Self::Roots | Self::Sampling => true,
            Self::SamplingContext if version < Version::V2025_11_25 => true,
            // An empty object means the form, as before there was a choice.
            Self::Form => {
                era::member(group, "form").is_some() || era::member(group, "url").is_none()
            }
            Self::SamplingTools | Self::SamplingContext | Self::Url => {
                member.is_some_and(|member| era::member(group, member).is_some())
            }
        }
    }
}

/// As the capabilities object that would declare it.
impl Serialize for Ability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use std::collections::BTreeMap;
        let (group, member) = self.path();
        let empty = BTreeMap::<&str, ()>::new();
        let inside: BTreeMap<_, _> = member.into_iter().map(|member| (member, &empty)).collect();
        serializer.collect_map([(group, inside)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(ability: Ability, capabilities: &str, version: Version) -> bool {
        let raw = RawValue::from_string(capabilities.to_owned()).unwrap();
        ability.is_declared(&raw, version)
    }

    #[test]
    fn what_would_declare_it_declares_it() {
        for ability in Ability::ALL {
            let json = serde_json::to_string(&ability).unwrap();
            assert!(declared(ability, &json, Version::V2026_07_28), "{json}");
            assert!(!declared(ability, "{}", Version::V2026_07_28), "{json}");
            assert!(!declared(ability, "[]", Version::V2026_07_28), "{json}");
        }
        let json = serde_json::to_string(&Ability::Sampling).unwrap();
        assert_eq!(json, r#"{"sampling":{}}"#);
        let json = serde_json::to_string(&Ability::Url).unwrap();
        assert_eq!(json, r#"{"elicitation":{"url":{}}}"#);
    }

    #[test]
    fn one_kind_of_elicitation_does_not_declare_the_other() {
        let now = Version::V2025_11_25;
        assert!(!declared(
            Ability::Form,
            r#"{"elicitation":{"url":{}}}"#,
            now
        ));
        assert!(!declared(
            Ability::Url,
            r#"{"elicitation":{"form":{}}}"#,
            now
        ));
        assert!(declared(
            Ability::Form,
            r#"{"elicitation":{"applyDefaults":true}}"#,
            now
        ));
        assert!(!declared(Ability::Form, r#"{"elicitation":null}"#, now));
    }
}
