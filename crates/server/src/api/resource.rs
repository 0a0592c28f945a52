//! Resources: a URI, and a handler that reads it.

use crate::{
    api::{HandlerCall, Json, Reply},
    context::Context,
    model::{CacheScope, ReadResourceResult, ResourceContents, ResourceModel, failure::Failure},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Serialize;
use std::{fmt, future::Future, sync::Arc, time::Duration};

type ReadResult = Result<ReadResourceResult, Failure>;

type Reader = Arc<dyn Fn(&ResourceModel) -> HandlerCall + Send + Sync>;

/// Bytes that are no text: the content of a picture, say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

/// What a resource handler may return.
pub trait IntoResource {
    /// Makes a result of it, for the resource of that URI and media type.
    ///
    /// # Errors
    ///
    /// If it is a failure, or cannot be represented as JSON.
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult;
}

impl IntoResource for ReadResourceResult {
    fn into_resource(mut self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        for contents in &mut self.contents {
            fill_in(contents, uri, mime_type);
        }
        Ok(self)
    }
}

impl IntoResource for Vec<ResourceContents> {
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        ReadResourceResult::new(self).into_resource(uri, mime_type)
    }
}

impl IntoResource for ResourceContents {
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        vec![self].into_resource(uri, mime_type)
    }
}

impl IntoResource for String {
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        let contents = ResourceContents::TextResourceContents {
            uri: uri.to_owned(),
            mime_type: mime_type.map(str::to_owned),
            text: self,
            meta: None,
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }
}

impl IntoResource for &str {
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        self.to_owned().into_resource(uri, mime_type)
    }
}

impl IntoResource for Blob {
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        let contents = ResourceContents::BlobResourceContents {
            uri: uri.to_owned(),
            mime_type: mime_type.map(str::to_owned),
            blob: BASE64_STANDARD.encode(self.0),
            meta: None,
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }
}

impl<T: Serialize> IntoResource for Json<T> {
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        let text = serde_json::to_string(&self.0)?;
        text.into_resource(uri, mime_type.or(Some("application/json")))
    }
}

impl<T: IntoResource, E: Into<Failure>> IntoResource for Result<T, E> {
    fn into_resource(self, uri: &str, mime_type: Option<&str>) -> ReadResult {
        self.map_err(Into::into)?.into_resource(uri, mime_type)
    }
}

/// Fills in the URI and the type that contents leave out.
fn fill_in(contents: &mut ResourceContents, of: &str, as_type: Option<&str>) {
    // Another kind of contents would come with a new version of the protocol's types.
    let (ResourceContents::TextResourceContents { uri, mime_type, .. }
    | ResourceContents::BlobResourceContents { uri, mime_type, .. }) = contents
    else {
        return;
    };
    if uri.is_empty() {
        of.clone_into(uri);
    }
    if uri == of && mime_type.is_none() {
        *mime_type = as_type.map(str::to_owned);
    }
}

/// The cache hints of a resource, which clients of 2026-07-28 are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    ttl_ms: u64,
    scope: CacheScope,
}

impl Cache {
    /// Not to be kept, nor shared.
    pub(crate) const NONE: Self = Self {
        ttl_ms: 0,
        scope: CacheScope::Private,
    };

    /// 2^53 − 1, the largest integer that every reader of JSON reads exactly.
    const MOST: u64 = (1 << 53) - 1;

    pub(super) fn new(ttl: Duration, scope: CacheScope) -> Self {
        let ttl_ms = u64::try_from(ttl.as_millis()).map_or(Self::MOST, |ms| ms.min(Self::MOST));
        Self { ttl_ms, scope }
    }
}

/// Which cache hints a result gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hints {
    /// None: the version does not have them.
    Absent,
    /// These, unless the handler says otherwise.
    Unless(Cache),
    /// These, whatever the handler says.
    Always(Cache),
}

/// Adds cache hints to a handler's result.
pub(crate) fn with_cache_hints(handler: HandlerCall, hints: Hints) -> HandlerCall {
    HandlerCall::new(move |context| async move {
        let mut reply = handler.run(context).await?;
        if let Reply::Resource(result) = &mut reply {
            (result.ttl_ms, result.cache_scope) = match hints {
                Hints::Absent => (None, None),
                Hints::Unless(cache) => (
                    result.ttl_ms.or(Some(cache.ttl_ms)),
                    result.cache_scope.or(Some(cache.scope)),
                ),
                Hints::Always(cache) => (Some(cache.ttl_ms), Some(cache.scope)),
            };
        }
        Ok(reply)
    })
}

/// A handler that reads the resource of that URI and media type.
pub(super) fn reading<Fut, R>(
    uri: String,
    mime_type: Option<String>,
    handler: impl FnOnce(Context) -> Fut + Send + 'static,
) -> HandlerCall
where
    Fut: Future<Output = R> + Send + 'static,
    R: IntoResource,
{
    HandlerCall::new(move |context| {
        let work = handler(context);
        async move {
            let read = work.await.into_resource(&uri, mime_type.as_deref());
            read.map(|read| Reply::Resource(Box::new(read)))
        }
    })
}

/// A resource and the code behind it.
///
/// ```
/// use interlock::{Blob, Context, Failure, Resource};
///
/// let rules = Resource::text("note://rules", "Refunds over 100 need a manager.");
/// let clock = Resource::new("clock://now", |_: Context| async { "noon" });
/// let logo = Resource::new("file:///logo.png", |_: Context| async {
///     let bytes = std::fs::read("logo.png")?;
///     Ok::<_, Failure>(Blob(bytes))
/// })
/// .mime_type("image/png");
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(crate) model: ResourceModel,
    pub(crate) cache: Cache,
    reader: Reader,
}

impl Resource {
    /// A resource by its URI and its handler.
    pub fn new<F, Fut, R>(uri: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResource,
    {
        let uri = uri.into();
        let handler = Arc::new(handler);
        Self {
            model: ResourceModel::new(uri.clone(), uri),
            cache: Cache::NONE,
            reader: Arc::new(move |model| {
                let handler = Arc::clone(&handler);
                let (uri, mime_type) = (model.uri.clone(), model.mime_type.clone());
                reading(uri, mime_type, move |context| handler(context))
            }),
        }
    }

    /// A resource that is always the same text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(uri, move |_| std::future::ready(text.clone()))
    }

    /// A resource that is always the same bytes.
    pub fn blob(uri: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let encoded = BASE64_STANDARD.encode(bytes.into());
        let contents = ResourceContents::blob(encoded, "");
        Self::new(uri, move |_| std::future::ready(contents.clone()))
    }

    shared_setters!();
    resource_setters!();

    /// How many bytes it holds.
    #[must_use]
    pub const fn size(mut self, bytes: u64) -> Self {
        self.model.size = Some(bytes);
        self
    }

    pub(crate) fn prepare(&self) -> HandlerCall {
        (self.reader)(&self.model)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resource").field(&self.model.uri).finish()
    }
}
