//! The change feed: who hears of a committed change, in bounded memory, without delaying a writer.
//!
//! A backend owns one [`Feeds`] and publishes into it what it has committed or heard from another
//! process. Every [`Feed`] has a queue of its own of at most [`Feed::CAPACITY`] notices. A queue
//! that would overflow is emptied and its reader is told [`Notice::Lagged`]: the store still has
//! what the feed has lost.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use crate::record::{Key, Version};

/// What a feed tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A record was created, updated or deleted.
    Changed {
        /// Which.
        key: Key,
        /// The version that the commit returned for it.
        version: Version,
    },
    /// Notices were lost. Whatever is known of any record may be out of date: load it again.
    Lagged,
}

/// The changes of a store, as they are committed. Ends when the store is dropped.
///
/// ```
/// use interlock_store::{Change, Key, Kind, MemoryStore, Notice, Store, Time, Value};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), interlock_store::StoreError> {
/// let store = MemoryStore::default();
/// let mut feed = store.changes().await?;
///
/// let key = Key::new(Kind::from_static("task"), "7")?;
/// let change = Change::create(key.clone(), Value::new(*b"working"));
/// let version = store.commit(&[change], &[], Time(1)).await?[0];
///
/// assert_eq!(feed.next().await, Some(Notice::Changed { key, version }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Feed {
    id: u64,
    queues: Arc<Mutex<Queues>>,
}

impl Feed {
    /// How many notices wait for a reader before it is told that it lagged.
    pub const CAPACITY: usize = 1024;

    /// The next notice, or `None` when the store is gone. Nothing is lost if this is cancelled.
    pub async fn next(&mut self) -> Option<Notice> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Feed {
    type Item = Notice;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        // Wakers run code of the executor when they are cloned, dropped or woken, and that code
        // may use this very feed. So none of the three happens under the lock.
        let waker = cx.waker().clone();
        let mut queues = lock(&self.queues);
        let open = queues.open;
        let Some(queue) = queues.by_feed.get_mut(&self.id) else {
            return Poll::Ready(None);
        };
        if let Some(notice) = queue.pop() {
            return Poll::Ready(Some(notice));
        }
        if !open {
            return Poll::Ready(None);
        }
        let replaced = queue.waker.replace(waker);
        drop(queues);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let removed = lock(&self.queues).by_feed.remove(&self.id);
        drop(removed);
    }
}

/// Where a backend publishes its changes. Dropping it ends its feeds once they are read empty.
///
/// ```
/// use interlock_store::{Feeds, Key, Kind, Notice, Version};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), interlock_store::BadKey> {
/// let feeds = Feeds::default();
/// let mut feed = feeds.subscribe();
/// let key = Key::new(Kind::from_static("task"), "7")?;
///
/// feeds.publish([(key.clone(), Version(3))]).wake();
/// assert_eq!(feed.next().await, Some(Notice::Changed { key, version: Version(3) }));
///
/// feeds.interrupt().wake();
/// assert_eq!(feed.next().await, Some(Notice::Lagged));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Feeds {
    queues: Arc<Mutex<Queues>>,
}

impl Feeds {
    /// A feed of everything that is published from now on.
    #[must_use]
    pub fn subscribe(&self) -> Feed {
        let mut queues = lock(&self.queues);
        let id = queues.next_id;
        queues.next_id += 1;
        queues.by_feed.insert(id, Queue::default());
        Feed {
            id,
            queues: Arc::clone(&self.queues),
        }
    }

    /// Queues the changes for every feed, in this order. Call it when they can be loaded.
    ///
    /// The order of two calls is the order in which they are heard, so a backend that commits
    /// under a lock publishes under it too, and wakes the readers when it has let go of it.
    pub fn publish(&self, changes: impl IntoIterator<Item = (Key, Version)>) -> Readers {
        let changes: Vec<_> = changes.into_iter().collect();
        self.publish_each(changes.iter().map(|(key, version)| (key, *version)))
    }

    /// The same for changes that stay where they are: a key is only copied if anybody listens.
    pub(crate) fn publish_each<'a>(
        &self,
        changes: impl IntoIterator<Item = (&'a Key, Version)>,
    ) -> Readers {
        let mut queues = lock(&self.queues);
        if queues.by_feed.is_empty() {
            return Readers(Vec::new());
        }
        for (key, version) in changes {
            for queue in queues.by_feed.values_mut() {
                queue.push(Notice::Changed {
                    key: key.clone(),
                    version,
                });
            }
        }
        queues.readers_with_news()
    }

    /// Tells every feed that it lagged, because the backend cannot know what it has missed, for
    /// example after it lost the connection over which it hears of other processes.
    pub fn interrupt(&self) -> Readers {
        let mut queues = lock(&self.queues);
        queues.by_feed.values_mut().for_each(Queue::lag);
        queues.readers_with_news()
    }
}

impl Drop for Feeds {
    fn drop(&mut self) {
        let mut queues = lock(&self.queues);
        queues.open = false;
        let readers = queues.all_readers();
        drop(queues);
        readers.wake();
    }
}

/// The readers that have something to hear and sleep until they are woken.
#[derive(Debug)]
#[must_use = "readers sleep on until they are woken"]
pub struct Readers(Vec<Waker>);

impl Readers {
    /// Wakes them. They may run code of the executor at once, so hold no lock.
    pub fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

#[derive(Debug)]
struct Queues {
    open: bool,
    next_id: u64,
    by_feed: BTreeMap<u64, Queue>,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            open: true,
            next_id: 0,
            by_feed: BTreeMap::new(),
        }
    }
}

impl Queues {
    fn readers_with_news(&mut self) -> Readers {
        let with_news = self.by_feed.values_mut().filter(|queue| queue.has_news());
        Readers(with_news.filter_map(|queue| queue.waker.take()).collect())
    }

    fn all_readers(&mut self) -> Readers {
        Readers(
            self.by_feed
                .values_mut()
                .filter_map(|queue| queue.waker.take())
                .collect(),
        )
    }
}

/// Invariant: never more than [`Feed::CAPACITY`] notices; what was lost came before all of them.
#[derive(Debug, Default)]
struct Queue {
    lagged: bool,
    notices: VecDeque<Notice>,
    waker: Option<Waker>,
}

impl Queue {
    fn push(&mut self, notice: Notice) {
        if self.notices.len() == Feed::CAPACITY {
            self.lag();
        } else {
            self.notices.push_back(notice);
        }
    }

    /// Forgets everything: the reader reloads anyway, and then knows better than the queue.
    fn lag(&mut self) {
        self.lagged = true;
        self.notices = VecDeque::new();
    }

    fn pop(&mut self) -> Option<Notice> {
        if std::mem::take(&mut self.lagged) {
            return Some(Notice::Lagged);
        }
        self.notices.pop_front()
    }

    fn has_news(&self) -> bool {
        self.lagged || !self.notices.is_empty()
    }
}

/// No code but ours runs under the lock, so a poisoned one still guards whole queues.
fn lock(queues: &Mutex<Queues>) -> MutexGuard<'_, Queues> {
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}
