//! Changes that clients are told of.

use interlock_proto::{RequestId, frame};
use interlock_workflow::Kind;
use serde::Serialize;
use std::sync::Arc;

/// A change, as one client is told of it. Equal ones that nobody has read yet are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Note {
    pub(crate) news: News,
    /// On 2026-07-28: the request that wants to know.
    pub(crate) subscription: Option<RequestId>,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// A list. For resources this also means the templates.
    List(Listed),
    /// The resource with this URI.
    Updated(Arc<str>),
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listed {
    Tools,
    Resources,
    Prompts,
}

impl From<Kind> for Listed {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Tool => Self::Tools,
            Kind::Resource => Self::Resources,
            Kind::Prompt => Self::Prompts,
        }
    }
}

/// The `_meta` of a message that belongs to a subscription.
#[derive(Serialize)]
pub(crate) struct SubscriptionMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    pub(crate) id: &'a RequestId,
}

impl Note {
    /// Appends the notification as a line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Params<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            uri: Option<&'a str>,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<SubscriptionMeta<'a>>,
        }
        let (method, uri) = match &self.news {
            News::List(Listed::Tools) => ("notifications/tools/list_changed", None),
            News::List(Listed::Resources) => ("notifications/resources/list_changed", None),
            News::List(Listed::Prompts) => ("notifications/prompts/list_changed", None),
            News::Updated(uri) => ("notifications/resources/updated", Some(&**uri)),
        };
        let meta = self.subscription.as_ref().map(|id| SubscriptionMeta { id });
        let params = (uri.is_some() || meta.is_some()).then_some(Params { uri, meta });
        frame::write_notification(out, method, params.as_ref()).expect("it holds only strings");
        out.push(b'\n');
    }
}
