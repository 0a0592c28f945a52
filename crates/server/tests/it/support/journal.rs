//! What the store has written down about an instance.

use interlock::store::{Key, Kind, MemoryStore, Seq, Store};
use interlock_testkit::PATIENCE;
use serde_json::Value;

/// What the store has written down about an instance.
pub(crate) async fn entries(store: &MemoryStore, instance: &str) -> Vec<Value> {
    let logged = store
        .journal(&key(instance), Seq(0), 100_000)
        .await
        .unwrap();
    let read = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
    logged.iter().map(|entry| read(&entry.bytes)).collect()
}

/// The entries of one kind.
pub(crate) fn of_kind<'a>(journal: &'a [Value], what: &str) -> Vec<&'a Value> {
    journal
        .iter()
        .filter(|entry| entry["what"] == what)
        .collect()
}

/// Waits until the journal has so many entries.
pub(crate) async fn entries_when(store: &MemoryStore, instance: &str, count: usize) -> Vec<Value> {
    let journal = async {
        loop {
            let journal = entries(store, instance).await;
            if journal.len() >= count {
                return journal;
            }
            tokio::task::yield_now().await;
        }
    };
    let journal = tokio::time::timeout(PATIENCE, journal).await;
    journal.expect("it must be written down")
}

/// Where the store keeps an instance.
pub(crate) fn key(id: &str) -> Key {
    Key::new(Kind::from_static("instance"), id).unwrap()
}
