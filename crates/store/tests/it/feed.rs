//! The feed by itself: bounded, fair to its readers, and awake exactly when there is news.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use interlock_store::{
    Change, Feed, Feeds, Key, Kind, MemoryStore, Notice, Store, Time, Value, Version,
};

#[test]
fn a_full_queue_is_kept_and_one_more_notice_becomes_lagged() {
    let feeds = Feeds::default();
    let (mut full, mut late) = (feeds.subscribe(), feeds.subscribe());
    let capacity = Feed::CAPACITY as u64;
    publish(&feeds, 1..=capacity);
    for version in 1..=capacity {
        assert_eq!(poll(&mut full), Poll::Ready(Some(changed(version))));
    }
    publish(&feeds, capacity + 1..=capacity + 3);
    assert_eq!(
        poll(&mut full),
        Poll::Ready(Some(changed(capacity + 1))),
        "it had room"
    );
    assert_eq!(
        poll(&mut late),
        Poll::Ready(Some(Notice::Lagged)),
        "it had none"
    );
    assert_eq!(
        poll(&mut late),
        Poll::Ready(Some(changed(capacity + 2))),
        "then it goes on"
    );
    assert_eq!(poll(&mut late), Poll::Ready(Some(changed(capacity + 3))));
    assert_eq!(poll(&mut late), Poll::Pending);
}

#[test]
fn lagging_twice_is_told_once() {
    let feeds = Feeds::default();
    let mut feed = feeds.subscribe();
    publish(&feeds, 1..=10 * Feed::CAPACITY as u64);
    feeds.interrupt().wake();
    assert_eq!(poll(&mut feed), Poll::Ready(Some(Notice::Lagged)));
    assert_eq!(poll(&mut feed), Poll::Pending);
}

#[test]
fn a_sleeping_reader_is_woken_once_and_only_by_news() {
    let feeds = Feeds::default();
    let mut feed = feeds.subscribe();
    let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
    assert_eq!(poll_with(&mut feed, &first), Poll::Pending);
    assert_eq!(poll_with(&mut feed, &second), Poll::Pending);
    feeds.publish([]).wake();
    assert_eq!(second.count(), 0, "nothing is no news");
    publish(&feeds, 1..=2);
    publish(&feeds, 3..=3);
    assert_eq!(
        (first.count(), second.count()),
        (0, 1),
        "the last one to poll is woken, once"
    );
    assert_eq!(poll_with(&mut feed, &first), Poll::Ready(Some(changed(1))));
    publish(&feeds, 4..=4);
    assert_eq!(first.count(), 0, "a reader that is awake needs no waking");
}

#[test]
fn a_dropped_feed_is_forgotten_at_once() {
    let feeds = Feeds::default();
    let waker = Arc::new(Count::default());
    let mut feed = feeds.subscribe();
    assert_eq!(poll_with(&mut feed, &waker), Poll::Pending);
    assert_eq!(
        Arc::strong_count(&waker),
        2,
        "the queue holds its reader's waker"
    );
    drop(feed);
    assert_eq!(
        Arc::strong_count(&waker),
        1,
        "the queue is gone, and the waker with it"
    );
    publish(&feeds, 1..=1);
    assert_eq!(waker.count(), 0);
}

#[tokio::test]
async fn a_feed_is_read_to_its_end_when_the_store_is_gone() {
    let store = MemoryStore::default();
    let mut feed = store.changes().await.unwrap();
    let waker = Arc::new(Count::default());
    assert_eq!(poll_with(&mut feed, &waker), Poll::Pending);
    drop(store.clone());
    assert_eq!(waker.count(), 0, "another handle is still there");
    drop(store);
    assert_eq!(waker.count(), 1);
    assert_eq!(feed.next().await, None);

    let feeds = Feeds::default();
    let mut feed = feeds.subscribe();
    publish(&feeds, 1..=1);
    drop(feeds);
    assert_eq!(feed.next().await, Some(changed(1)));
    assert_eq!(feed.next().await, None);
}

/// A waker may run anything, even a reader of the very feed and store that wake it. If either
/// held its lock while it wakes, this would never return.
#[tokio::test]
async fn a_reader_may_use_feed_and_store_inside_its_waker() {
    struct Reader(MemoryStore, Mutex<Option<Feed>>);
    impl Wake for Reader {
        fn wake(self: Arc<Self>) {
            let mut feed = self.1.lock().unwrap().take().unwrap();
            assert_eq!(poll(&mut feed), Poll::Ready(Some(changed(1))));
            let load = async { self.0.load(&key(), Time(0)).await.unwrap().is_some() };
            assert_eq!(poll_once(load), Poll::Ready(true));
        }
    }
    let store = MemoryStore::default();
    let mut feed = store.changes().await.unwrap();
    let reader = Arc::new(Reader(store.clone(), Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&reader));
    assert_eq!(
        pin!(feed.next()).poll(&mut Context::from_waker(&waker)),
        Poll::Pending
    );
    *reader.1.lock().unwrap() = Some(feed);
    store
        .commit(&[Change::create(key(), Value::new([]))], &[], Time(0))
        .await
        .unwrap();
    assert!(reader.1.lock().unwrap().is_none(), "it has read");
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn key() -> Key {
    Key::new(Kind::from_static("task"), "7").unwrap()
}

fn changed(version: u64) -> Notice {
    Notice::Changed {
        key: key(),
        version: Version(version),
    }
}

fn publish(feeds: &Feeds, versions: impl Iterator<Item = u64>) {
    feeds
        .publish(versions.map(|version| (key(), Version(version))))
        .wake();
}

fn poll(feed: &mut Feed) -> Poll<Option<Notice>> {
    poll_once(feed.next())
}

fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn poll_with(feed: &mut Feed, waker: &Arc<Count>) -> Poll<Option<Notice>> {
    let waker = Waker::from(Arc::clone(waker));
    pin!(feed.next()).poll(&mut Context::from_waker(&waker))
}
