//! What an application makes when it starts to serve, and ends when it stops.

use crate::{failure::Failure, route::lock};
use futures_util::future::BoxFuture;
use std::{
    any::Any,
    fmt,
    future::Future,
    io,
    sync::{Arc, Mutex},
};

/// What a start hook made.
pub(crate) type App = Arc<dyn Any + Send + Sync>;

type Start = Box<dyn Fn() -> BoxFuture<'static, Result<App, Failure>> + Send + Sync>;
type Stop = Box<dyn Fn(App) -> BoxFuture<'static, ()> + Send + Sync>;

/// The hooks of an application, and what the start made. It starts with the first who serves, and
/// stops with the last.
#[derive(Default)]
pub(crate) struct Lifespan {
    hooks: Option<(Start, Stop)>,
    /// How many serve. Held while a hook runs, so that nobody is served before the start is done.
    serving: tokio::sync::Mutex<usize>,
    app: Mutex<Option<App>>,
}

impl Lifespan {
    /// An application that is there from the beginning and needs no end.
    pub(crate) fn of(app: App) -> Self {
        Self {
            app: Mutex::new(Some(app)),
            ..Self::default()
        }
    }

    pub(crate) fn new<T, S, SF, E, EF>(start: S, stop: E) -> Self
    where
        T: Send + Sync + 'static,
        S: Fn() -> SF + Send + Sync + 'static,
        SF: Future<Output = Result<T, Failure>> + Send + 'static,
        E: Fn(Arc<T>) -> EF + Send + Sync + 'static,
        EF: Future<Output = ()> + Send + 'static,
    {
        let start: Start = Box::new(move || {
            let made = start();
            Box::pin(async move { Ok(Arc::new(made.await?) as App) })
        });
        let stop: Stop = Box::new(move |app| match app.downcast::<T>() {
            Ok(app) => Box::pin(stop(app)),
            Err(_) => Box::pin(std::future::ready(())),
        });
        Self {
            hooks: Some((start, stop)),
            ..Self::default()
        }
    }

    pub(crate) fn app(&self) -> Option<App> {
        lock(&self.app).clone()
    }

    /// Somebody begins to serve.
    pub(crate) async fn enter(&self) -> io::Result<()> {
        let mut serving = self.serving.lock().await;
        if *serving == 0
            && let Some((start, _)) = &self.hooks
        {
            let app = start().await.map_err(|failure| {
                io::Error::other(format!("the application did not start: {failure}"))
            })?;
            *lock(&self.app) = Some(app);
        }
        *serving += 1;
        Ok(())
    }

    /// Somebody has stopped serving.
    pub(crate) async fn leave(&self) {
        let mut serving = self.serving.lock().await;
        *serving = serving.saturating_sub(1);
        if *serving == 0
            && let Some((_, stop)) = &self.hooks
        {
            let app = lock(&self.app).take();
            if let Some(app) = app {
                stop(app).await;
            }
        }
    }
}

impl fmt::Debug for Lifespan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifespan")
            .field("hooks", &self.hooks.is_some())
            .finish_non_exhaustive()
    }
}
