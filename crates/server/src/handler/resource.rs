//! Resources.

use super::{Prepared, Reply};
use crate::{
    context::Context,
    failure::Failure,
    model::{ReadResourceResult, ResourceContents, ResourceModel},
};
use std::{fmt, future::Future, sync::Arc};

type Reader = Arc<dyn Fn(&ResourceModel) -> Prepared + Send + Sync>;

/// A resource and the code behind it.
///
/// ```
/// use interlock::{Context, Resource};
///
/// let rules = Resource::text("note://rules", "Refunds over 100 need a manager.");
/// let clock = Resource::new("clock://now", |_: Context| async { Ok("noon".to_owned()) });
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(crate) model: ResourceModel,
    reader: Reader,
}

impl Resource {
    /// A resource by its URI and what reads its text.
    pub fn new<F, Fut>(uri: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        let uri = uri.into();
        let handler = Arc::new(handler);
        Self {
            model: ResourceModel::new(uri.clone(), uri),
            reader: Arc::new(move |model| {
                let handler = Arc::clone(&handler);
                let (uri, mime_type) = (model.uri.clone(), model.mime_type.clone());
                Box::new(move |context| {
                    let work = handler(context);
                    Box::pin(async move {
                        let contents = ResourceContents::TextResourceContents {
                            uri,
                            mime_type,
                            text: work.await?,
                            meta: None,
                        };
                        Ok(Reply::Resource(ReadResourceResult::new(vec![contents])))
                    })
                })
            }),
        }
    }

    /// A resource that is always the same text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(uri, move |_| std::future::ready(Ok(text.clone())))
    }

    /// What it is called; its URI unless said otherwise.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.model.name = name.into();
        self
    }

    /// What it holds.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.model.description = Some(text.into());
        self
    }

    /// The media type of its text.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.model.mime_type = Some(mime_type.into());
        self
    }

    pub(crate) fn prepare(&self) -> Prepared {
        (self.reader)(&self.model)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resource").field(&self.model.uri).finish()
    }
}
