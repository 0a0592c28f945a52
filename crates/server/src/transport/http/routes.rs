//! Which path leads to which transport.

use crate::{
    core::Core,
    transport::http::{
        cors, endpoint,
        response::{self, Response},
        serve::Respond,
        settings::HttpOptions,
        sse_2024,
        state::HttpState,
    },
};
use axum::{Router, extract::Request, routing::any};
use http::{Method, StatusCode, request::Parts};
use hyper::body::{Body, Incoming};
use std::{io, sync::Arc};

/// What is served at which path.
#[derive(Clone)]
pub(crate) struct Routes {
    http: Arc<HttpState>,
    path: Arc<str>,
    /// Whether HTTP+SSE is served as well.
    legacy: bool,
}

impl Routes {
    /// # Errors
    ///
    /// If the options do not fit the server or each other.
    pub(crate) fn new(inner: &Arc<Core>, options: &HttpOptions) -> io::Result<Self> {
        check_path(options)?;
        inner.may_serve(options.authenticator.is_some())?;
        Ok(Self {
            http: HttpState::new(inner, options)?,
            path: options.path.as_str().into(),
            legacy: options.legacy,
        })
    }

    pub(crate) const fn http(&self) -> &Arc<HttpState> {
        &self.http
    }

    /// The same as a router, for an application of axum's.
    pub(crate) fn into_router(self) -> Router {
        let mut paths = vec![self.path.to_string()];
        if self.legacy {
            paths.extend([sse_2024::STREAM.to_owned(), sse_2024::MESSAGES.to_owned()]);
        }
        let respond = async move |request: Request| {
            let (parts, body) = request.into_parts();
            let response = self.respond_to(&parts, body).await;
            response.map(axum::body::Body::new)
        };
        let mut router = Router::new();
        for path in paths {
            router = router.route(&path, any(respond.clone()));
        }
        router
    }

    async fn respond_to<B>(&self, parts: &Parts, body: B) -> Response
    where
        B: Body<Data: AsRef<[u8]>> + Unpin,
    {
        let Some(origin) = self.http.page_origin(parts) else {
            return self.respond_at(parts, body).await;
        };
        let mut response = match cors::preflight(parts) {
            Some(response) => response,
            None => self.respond_at(parts, body).await,
        };
        cors::let_read(&mut response, origin);
        response
    }

    async fn respond_at<B>(&self, parts: &Parts, body: B) -> Response
    where
        B: Body<Data: AsRef<[u8]>> + Unpin,
    {
        let path = parts.uri.path();
        let response = if path == &*self.path {
            endpoint::respond(&self.http, parts, body).await
        } else if self.legacy {
            // Boxed because it is rare, and would enlarge the future of every request.
            Box::pin(self.respond_legacy(parts, body)).await
        } else {
            response::empty(StatusCode::NOT_FOUND)
        };
        match parts.method {
            Method::HEAD => response::without_body(response),
            _ => response,
        }
    }

    async fn respond_legacy<B>(&self, parts: &Parts, body: B) -> Response
    where
        B: Body<Data: AsRef<[u8]>> + Unpin,
    {
        let answered = match (parts.uri.path(), &parts.method) {
            (sse_2024::STREAM, &Method::GET | &Method::HEAD) => {
                sse_2024::stream(&self.http, parts).await
            }
            (sse_2024::STREAM, _) => return response::only_allowed("GET,HEAD"),
            (sse_2024::MESSAGES, &Method::POST) => sse_2024::message(&self.http, parts, body).await,
            (sse_2024::MESSAGES, _) => return response::only_allowed("POST"),
            _ => return response::empty(StatusCode::NOT_FOUND),
        };
        answered.unwrap_or_else(|refused| *refused)
    }
}

impl Respond for Routes {
    type Body = response::Body;

    async fn respond(&self, request: http::Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        self.respond_to(&parts, body).await
    }
}

/// Whether there can be an endpoint at the path.
fn check_path(options: &HttpOptions) -> io::Result<()> {
    let path = &options.path;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    let taken = options.legacy && [sse_2024::STREAM, sse_2024::MESSAGES].contains(&path.as_str());
    if path.starts_with('/') && path.bytes().all(plain) && !taken {
        return Ok(());
    }
    let why = format!("there can be no endpoint at the path `{path}`");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}
