//! The hooks of an application: before the server serves, and after it has stopped.

use crate::{context::environment::App, model::failure::Failure, outbound::lock};
use futures_util::future::BoxFuture;
use std::{
    fmt,
    future::Future,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

type Start = Box<dyn Fn() -> BoxFuture<'static, Result<App, Failure>> + Send + Sync>;
type Stop = Box<dyn Fn(App) -> BoxFuture<'static, ()> + Send + Sync>;

/// The hooks of an application, and what its start hook made. It starts before the first transport
/// serves, and stops after the last one.
#[derive(Default)]
pub(crate) struct Lifespan {
    hooks: Option<(Start, Stop)>,
    /// How many transports serve.
    serving: AtomicUsize,
    /// Held while a hook runs, so that no transport serves before the start hook is done.
    hooking: tokio::sync::Mutex<()>,
    app: Mutex<Option<App>>,
}

impl Lifespan {
    /// An application that exists already and needs no hooks.
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

    /// A transport begins to serve.
    pub(crate) async fn enter(&self) -> io::Result<()> {
        let _one_at_a_time = self.hooking.lock().await;
        if self.serving.load(Ordering::Relaxed) == 0
            && let Some((start, _)) = &self.hooks
        {
            let app = start().await.map_err(|failure| {
                io::Error::other(format!("the application did not start: {failure}"))
            })?;
            *lock(&self.app) = Some(app);
        }
        self.serving.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// A transport has stopped serving.
    pub(crate) async fn leave(&self) {
        let _one_at_a_time = self.hooking.lock().await;
        if self.decrement() == 0
            && let Some((_, stop)) = &self.hooks
        {
            let app = lock(&self.app).take();
            if let Some(app) = app {
                stop(app).await;
            }
        }
    }

    /// One transport less serves. Returns how many are left.
    fn decrement(&self) -> usize {
        let before = self.serving.load(Ordering::Relaxed);
        let left = before.saturating_sub(1);
        self.serving.store(left, Ordering::Relaxed);
        left
    }

    /// Serves between the hooks. Dropping the future stops serving without the stop hook.
    pub(crate) async fn around<T>(
        &self,
        serving: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        struct Dropped<'a>(Option<&'a Lifespan>);

        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                if let Some(lifespan) = self.0 {
                    lifespan.decrement();
                }
            }
        }

        self.enter().await?;
        let mut dropped = Dropped(Some(self));
        let served = serving.await;
        dropped.0 = None;
        self.leave().await;
        served
    }
}

impl fmt::Debug for Lifespan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifespan")
            .field("hooks", &self.hooks.is_some())
            .finish_non_exhaustive()
    }
}
