//! Resource templates: a URI template, and a handler that reads the resources which fit it.

use crate::{
    api::{
        HandlerCall, IntoCompletion, Partial,
        completion::Completers,
        resource::{Cache, IntoResource, reading},
        text_args::read_texts,
    },
    context::Context,
    model::{JsonObject, ResourceTemplateModel},
};
use serde::de::DeserializeOwned;
use std::{fmt, future::Future, sync::Arc};

/// Reads the values of a URI, or says what is wrong with them.
type Reader =
    dyn Fn(&ResourceTemplateModel, &str, JsonObject) -> Result<HandlerCall, String> + Send + Sync;

/// Resources whose URIs fit a template, and the code behind them.
///
/// The template is one of [RFC 6570], and the values of its variables are read into whatever the
/// handler takes: texts, numbers, truth values, and lists of them for variables that are exploded
/// (`{tags*}`). A variable that need not be there, such as one of a query, is an `Option`.
///
/// ```
/// use interlock::{Context, ResourceTemplate};
///
/// #[derive(serde::Deserialize)]
/// struct Order { region: String, id: u64, lines: Option<u32> }
///
/// let orders = ResourceTemplate::new(
///     "shop://{region}/orders/{id}{?lines}",
///     |order: Order, _: Context| async move {
///         format!("order {} of {}", order.id, order.region)
///     },
/// )
/// .name("orders")
/// .mime_type("text/plain");
/// ```
///
/// [`UriTemplate`] says which URIs fit, and what is read from them.
///
/// If a URI fits several templates, the one that was added first is read; a
/// [`Resource`](crate::Resource) of that very URI goes before them all.
///
/// Values are percent-decoded, so one can hold `/` or `..` even where the URI cannot: a handler
/// that opens files must look at what it opens.
///
/// [`UriTemplate`]: crate::workflow::UriTemplate
/// [RFC 6570]: https://www.rfc-editor.org/rfc/rfc6570
#[derive(Clone)]
pub struct ResourceTemplate {
    pub(crate) model: ResourceTemplateModel,
    pub(crate) cache: Cache,
    pub(crate) completers: Completers,
    reader: Arc<Reader>,
}

impl ResourceTemplate {
    /// A template and its handler.
    pub fn new<P, F, Fut, R>(uri_template: impl Into<String>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResource,
    {
        Self::with(uri_template, |_, values| read_texts(values), handler)
    }

    /// A template whose values arrive unread: texts by name, and lists of texts for variables that
    /// are exploded.
    pub fn raw<F, Fut, R>(uri_template: impl Into<String>, handler: F) -> Self
    where
        F: Fn(JsonObject, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResource,
    {
        Self::with(uri_template, |_, values| Ok(values), handler)
    }

    /// A template whose resources are read by their whole URI.
    pub(crate) fn by_uri<F, Fut, R>(uri_template: impl Into<String>, handler: F) -> Self
    where
        F: Fn(String, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResource,
    {
        Self::with(uri_template, |uri, _| Ok(uri.to_owned()), handler)
    }

    fn with<P, F, Fut, R>(
        uri_template: impl Into<String>,
        read: fn(&str, JsonObject) -> Result<P, String>,
        handler: F,
    ) -> Self
    where
        P: Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoResource,
    {
        let (uri_template, handler) = (uri_template.into(), Arc::new(handler));
        Self {
            model: ResourceTemplateModel::new(uri_template.clone(), uri_template),
            cache: Cache::NONE,
            completers: Completers::default(),
            reader: Arc::new(move |model, uri, values| {
                let parameters = read(uri, values)?;
                let handler = Arc::clone(&handler);
                let work = move |context| handler(parameters, context);
                Ok(reading(uri.to_owned(), model.mime_type.clone(), work))
            }),
        }
    }

    shared_setters!();
    resource_setters!();

    /// Completes a variable for a person who fills it in. It is not gated and moves no workflow.
    #[must_use]
    pub fn complete<F, Fut, R>(mut self, variable: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Partial, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoCompletion,
    {
        self.completers.add(variable.into(), handler);
        self
    }

    /// Takes the values that a URI is made of, or says what is wrong with them.
    pub(crate) fn prepare(&self, uri: &str, values: JsonObject) -> Result<HandlerCall, String> {
        (self.reader)(&self.model, uri, values)
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResourceTemplate")
            .field(&self.model.uri_template)
            .finish()
    }
}
