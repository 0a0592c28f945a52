//! A transport that remembers what came to a client, in the order in which it came.
//!
//! rmcp runs what hears notifications in tasks of their own, so the order in which they and results
//! surface proves nothing.

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{IntoTransport, Transport},
};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// What came and has not been taken.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Value>>>);

impl Log {
    /// Everything that came.
    pub(crate) fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The notifications that came before the answer to this request; the answer goes with them,
    /// and answers to others stay.
    pub(crate) fn take_until(&self, id: i64) -> Vec<Value> {
        let mut log = self.0.lock().unwrap();
        let is_own = |one: &Value| one.get("method").is_none() && one["id"] == id;
        assert_eq!(log.iter().filter(|one| is_own(one)).count(), 1, "{log:?}");
        let at = log.iter().position(is_own).unwrap_or_default();
        let later = log.split_off(at + 1);
        let (taken, kept): (Vec<_>, Vec<_>) =
            log.drain(..at).partition(|one| one.get("method").is_some());
        *log = kept;
        log.extend(later);
        taken
    }
}

/// The transport, and its log.
pub(crate) fn tap<T, E, A>(transport: T) -> (Tap<impl Transport<RoleClient, Error = E>>, Log)
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let log = Log::default();
    let tap = Tap {
        inner: transport.into_transport(),
        log: log.clone(),
    };
    (tap, log)
}

pub(crate) struct Tap<T> {
    inner: T,
    log: Log,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        let value = serde_json::to_value(&message).unwrap();
        self.log.0.lock().unwrap().push(value);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
