//! Who sends a request.

use serde_json::{Value, json};
use std::{fmt, sync::Arc};

/// Who sends a request, as whoever authenticated them found out.
///
/// What belongs to one principal is never shown to another. Where nobody authenticates, everyone
/// is the [anonymous](Self::anonymous) one. Compare principals, not their ids: an authenticated
/// principal may happen to be called `anonymous`, and is still somebody else.
///
/// ```
/// use interlock_engine::Principal;
///
/// let alice = Principal::new("alice");
/// assert_eq!(alice.id(), "alice");
/// assert!(!alice.is_anonymous());
/// assert_ne!(Principal::new("anonymous"), Principal::anonymous());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    pub(crate) const ANONYMOUS: Self = Self(None);

    /// Nobody in particular.
    #[must_use]
    pub const fn anonymous() -> Self {
        Self::ANONYMOUS
    }

    /// Somebody whose identity was proved.
    #[must_use]
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(Some(id.into()))
    }

    /// What they are called; the anonymous one is called `anonymous`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.as_deref().unwrap_or("anonymous")
    }

    /// What guards and texts know about them: null if nobody knows who it is.
    #[must_use]
    pub fn facts(&self) -> Value {
        let id = self.0.as_deref();
        id.map_or(Value::Null, |id| json!({ "id": id }))
    }

    /// Whom these facts are about.
    #[must_use]
    pub fn of_facts(facts: &Value) -> Self {
        Self(facts["id"].as_str().map(Arc::from))
    }

    /// Whether nobody knows who it is.
    #[must_use]
    pub const fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_principal_called_anonymous_is_not_the_anonymous_one() {
        let (called, anonymous) = (Principal::new("anonymous"), Principal::anonymous());
        assert_eq!(called.id(), anonymous.id());
        assert_ne!(called, anonymous);
        assert!(!called.is_anonymous());
        assert!(anonymous.is_anonymous());
        assert_eq!(HashSet::from([called.clone(), anonymous]).len(), 2);
        assert_ne!(
            format!("{called:?}"),
            format!("{:?}", Principal::anonymous())
        );
    }

    #[test]
    fn a_principal_is_its_id_and_a_copy_shares_it() {
        let alice = Principal::new("alice");
        assert_eq!(alice, Principal::new(String::from("alice")));
        assert_ne!(alice, Principal::new("Alice"));
        assert!(std::ptr::eq(alice.id(), alice.clone().id()));
    }

    #[test]
    fn a_principal_reads_as_its_id() {
        assert_eq!(Principal::new("alice").to_string(), "alice");
        assert_eq!(Principal::anonymous().to_string(), "anonymous");
    }
}
