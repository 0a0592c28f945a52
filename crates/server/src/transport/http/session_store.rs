//! Loads and saves sessions.

use crate::{core::Core, session::SavedSession};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use interlock_engine::Principal;
use interlock_proto::Time;
use interlock_store::{self as store, Change, Key, StoreError, Value, Version};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const KIND: store::Kind = store::Kind::from_static("session");
const FORMAT: u32 = 1;

/// A session in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredSession {
    format: u32,
    /// The owner; none if clients are anonymous.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    /// When its life is over.
    pub(crate) dies: u64,
    pub(crate) peer: SavedSession,
}

impl StoredSession {
    pub(crate) fn new(principal: &Principal, dies: Time, peer: SavedSession) -> Self {
        Self {
            format: FORMAT,
            principal: (!principal.is_anonymous()).then(|| principal.id().to_owned()),
            dies: dies.0,
            peer,
        }
    }

    pub(crate) fn principal(&self) -> Principal {
        match &self.principal {
            Some(id) => Principal::new(id.as_str()),
            None => Principal::anonymous(),
        }
    }
}

/// A digest of the id: keys are listed and logged, and the id of a session is all that an anonymous
/// client needs to use it.
fn key(id: &str) -> Key {
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(id.as_bytes()));
    Key::new(KIND, digest).expect("a digest is short and printable")
}

/// Saves a session. `seen` is the version that was saved before, if any.
pub(crate) async fn save(
    inner: &Core,
    id: &str,
    stored: &StoredSession,
    seen: Option<Version>,
) -> Result<Option<Version>, StoreError> {
    let bytes = serde_json::to_vec(stored).expect("it is JSON already");
    let value = Value::new(bytes).until(store::Time(stored.dies));
    let change = match seen {
        Some(version) => Change::update(key(id), version, value),
        None => Change::create(key(id), value),
    };
    let now = store::Time(inner.clock.now().0);
    let versions = inner.store.commit(&[change], &[], now).await?;
    Ok(versions.first().copied())
}

/// Loads a session, if there is one in a format that is known.
pub(crate) async fn load(
    inner: &Core,
    id: &str,
) -> Result<Option<(StoredSession, Version)>, StoreError> {
    let now = store::Time(inner.clock.now().0);
    let Some(record) = inner.store.load(&key(id), now).await? else {
        return Ok(None);
    };
    match serde_json::from_slice::<StoredSession>(&record.value.bytes) {
        Ok(stored) if stored.format == FORMAT => Ok(Some((stored, record.version))),
        Ok(_) | Err(_) => {
            tracing::warn!("a stored session cannot be read");
            Ok(None)
        }
    }
}

/// Deletes a session.
pub(crate) async fn delete(inner: &Core, id: &str, seen: Version) -> Result<(), StoreError> {
    let now = store::Time(inner.clock.now().0);
    let delete = [Change::delete(key(id), seen)];
    inner.store.commit(&delete, &[], now).await?;
    Ok(())
}

/// Deletes a session that gives way to another, with its instance.
pub(crate) async fn discard(inner: &Core, id: &str) -> Result<(), StoreError> {
    let Some((stored, version)) = load(inner, id).await? else {
        return Ok(());
    };
    match delete(inner, id, version).await {
        Ok(()) => inner.end_instance(stored.peer.into_instance()).await,
        // Another server uses it.
        Err(StoreError::Conflict { .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Deletes sessions whose life is over, each with its instance.
pub(crate) async fn sweep(inner: &Core) -> Result<(), StoreError> {
    const AT_ONCE: usize = 100;
    let now = store::Time(inner.clock.now().0);
    for (key, record) in inner.store.expired(&KIND, now, AT_ONCE).await? {
        let stored = serde_json::from_slice::<StoredSession>(&record.value.bytes).ok();
        let delete = [Change::delete(key, record.version)];
        match inner.store.commit(&delete, &[], now).await {
            Ok(_) => {
                if let Some(stored) = stored {
                    inner.end_instance(stored.peer.into_instance()).await;
                }
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
