//! The memory backend keeps every promise there is, also to real threads.

use std::thread;

use interlock_store::{
    Change, Entry, Key, Kind, MemoryStore, Seq, Store, StoreError, Time, Value, conformance_tests,
};

conformance_tests!(async { MemoryStore::default() });

conformance_tests!(durable: async {
    let store = MemoryStore::default();
    async move || store.clone()
});

conformance_tests!(shared: async {
    let store = MemoryStore::default();
    async move || store.clone()
});

#[test]
fn threads_lose_nothing_of_each_others_work() {
    let store = MemoryStore::default();
    let key = Key::new(Kind::from_static("counter"), "a").unwrap();
    let create = Change::create(key.clone(), Value::new(0_u64.to_be_bytes()));
    block_on(store.commit(&[create], &[], Time(0))).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|_| block_on(increment(&store, &key))));
        }
    });
    let stored = block_on(store.load(&key, Time(0))).unwrap().unwrap();
    assert_eq!(*stored.value.bytes, 1_000_u64.to_be_bytes());
    let journal = block_on(store.journal(&key, Seq::START, usize::MAX)).unwrap();
    let numbers = journal
        .iter()
        .map(|entry| (entry.seq.0, entry.bytes.to_vec()));
    assert!(numbers.eq((1..=1_000_u64).map(|number| (number, number.to_be_bytes().to_vec()))));
}

#[test]
fn its_debug_form_tells_no_secrets() {
    let store = MemoryStore::default();
    let key = Key::new(Kind::from_static("session"), "hush").unwrap();
    let create = Change::create(key, Value::new(*b"hush"));
    block_on(store.commit(&[create], &[], Time(0))).unwrap();
    assert_eq!(format!("{store:?}"), "MemoryStore { .. }");
}

async fn increment(store: &MemoryStore, key: &Key) {
    loop {
        let seen = store.load(key, Time(0)).await.unwrap().unwrap();
        let next = u64::from_be_bytes(seen.value.bytes[..].try_into().unwrap()) + 1;
        let change = Change::update(key.clone(), seen.version, Value::new(next.to_be_bytes()));
        let entry = Entry::new(key.clone(), next.to_be_bytes());
        match store.commit(&[change], &[entry], Time(0)).await {
            Err(StoreError::Conflict { .. }) => thread::yield_now(),
            done => return drop(done.unwrap()),
        }
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}
