//! Changes that clients are told of.

use interlock_proto::{RequestId, frame};
use interlock_workflow::{Kind, normalised_uri};
use serde::Serialize;
use std::{cmp::Ordering, sync::Arc};

/// A change, as one client is told of it. Equal ones in a queue are merged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeNotification {
    pub(crate) change: ServerChange,
    /// On 2026-07-28: the `subscriptions/listen` request that it belongs to.
    pub(crate) subscription: Option<RequestId>,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerChange {
    /// A list. For resources this also means the templates.
    List(Kind),
    /// The resource with this URI.
    Resource(Arc<str>),
}

/// The URI of a resource that a client subscribed to, as it wrote it. Any other way to write it is
/// equal.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct SubscribedUri(Arc<str>);

impl SubscribedUri {
    pub(crate) fn new(uri: impl Into<Arc<str>>) -> Self {
        Self(uri.into())
    }

    pub(crate) const fn as_written(&self) -> &Arc<str> {
        &self.0
    }
}

impl Ord for SubscribedUri {
    fn cmp(&self, other: &Self) -> Ordering {
        normalised_uri(&self.0).cmp(&normalised_uri(&other.0))
    }
}

impl PartialOrd for SubscribedUri {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SubscribedUri {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SubscribedUri {}

/// The `_meta` of a message that belongs to a subscription.
#[derive(Serialize)]
pub(crate) struct SubscriptionMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    pub(crate) id: &'a RequestId,
}

impl ChangeNotification {
    /// Appends the notification as a line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Params<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            uri: Option<&'a str>,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<SubscriptionMeta<'a>>,
        }
        let (method, uri) = match &self.change {
            ServerChange::List(Kind::Tool) => ("notifications/tools/list_changed", None),
            ServerChange::List(Kind::Resource) => ("notifications/resources/list_changed", None),
            ServerChange::List(Kind::Prompt) => ("notifications/prompts/list_changed", None),
            ServerChange::Resource(uri) => ("notifications/resources/updated", Some(&**uri)),
        };
        let meta = self.subscription.as_ref().map(|id| SubscriptionMeta { id });
        let params = (uri.is_some() || meta.is_some()).then_some(Params { uri, meta });
        frame::write_notification(out, method, params.as_ref()).expect("it holds only strings");
        out.push(b'\n');
    }
}
