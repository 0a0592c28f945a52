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
pub struct Principal(Identity);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Anonymous,
    Known(Arc<str>),
}

impl Principal {
    pub(crate) const ANONYMOUS: Self = Self(Identity::Anonymous);

    /// Nobody in particular.
    #[must_use]
    pub const fn anonymous() -> Self {
        Self(Identity::Anonymous)
    }

    /// Somebody whose identity was proved.
    #[must_use]
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(Identity::Known(id.into()))
    }

    /// What they are called; the anonymous one is called `anonymous`.
    #[must_use]
    pub fn id(&self) -> &str {
        match &self.0 {
            Identity::Anonymous => "anonymous",
            Identity::Known(id) => id,
        }
    }

    /// What guards and texts know about them: null if nobody knows who it is.
    #[must_use]
    pub fn facts(&self) -> Value {
        match &self.0 {
            Identity::Anonymous => Value::Null,
            Identity::Known(id) => json!({ "id": &**id }),
        }
    }

    /// Whom these facts are about.
    #[must_use]
    pub fn of_facts(facts: &Value) -> Self {
        match facts["id"].as_str() {
            Some(id) => Self::new(id),
            None => Self::anonymous(),
        }
    }

    /// Whether nobody knows who it is.
    #[must_use]
    pub const fn is_anonymous(&self) -> bool {
        match self.0 {
            Identity::Anonymous => true,
            Identity::Known(_) => false,
        }
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
    fn principals_with_the_same_id_are_the_same() {
        assert_eq!(
            Principal::new("alice"),
            Principal::new(String::from("alice"))
        );
        assert_ne!(Principal::new("alice"), Principal::new("Alice"));
        assert_eq!(Principal::anonymous(), Principal::anonymous());
    }

    #[test]
    fn a_copy_shares_its_id() {
        let alice = Principal::new("alice");
        assert!(std::ptr::eq(alice.id(), alice.clone().id()));
    }

    #[test]
    fn a_principal_reads_as_its_id() {
        assert_eq!(Principal::new("alice").to_string(), "alice");
        assert_eq!(Principal::anonymous().to_string(), "anonymous");
    }
}
