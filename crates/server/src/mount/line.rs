//! A connection of rmcp's that leads nowhere but to us: whatever is said on its peer comes here.
//!
//! rmcp makes a peer only together with a connection and a task that serves it. Most calls never
//! use theirs, so our side of it is made of one small thing in memory.

use crate::route::lock;
use rmcp::{
    RoleServer, Service,
    model::{
        ClientJsonRpcMessage, ClientResult, ErrorData, InitializeRequestParams, JsonRpcMessage,
        RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest,
    },
    service::{Peer, RunningService, serve_directly},
    transport::Transport,
};
use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex},
};
use tokio::sync::{Notify, oneshot};

/// Our end of the connection. Who lets go of it closes it.
#[derive(Debug)]
pub(super) struct Line<S: Service<RoleServer>> {
    running: RunningService<RoleServer, S>,
    board: Arc<Board>,
}

/// What was said on the peer, in the order in which it was said. Who lets go of it listens no more.
#[derive(Debug)]
pub(super) struct Words(Arc<Board>);

/// One thing that was said.
#[derive(Debug)]
pub(super) enum Word {
    /// Something that wants an answer.
    Request(RequestId, ServerRequest),
    /// Something that does not. Whoever said it goes on when the other end is told, or dropped.
    Notification(ServerNotification, oneshot::Sender<()>),
}

/// Nobody listens any more.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the call has ended")]
pub(super) struct Ended;

/// What is on its way. Neither queue holds more than the handler has under way: whoever speaks
/// waits to be heard.
#[derive(Debug, Default)]
struct Board {
    outward: Queue<Word>,
    inward: Queue<ClientJsonRpcMessage>,
}

/// What one puts in, and one other takes out.
#[derive(Debug)]
struct Queue<T> {
    /// `None`: it is closed.
    waiting: Mutex<Option<VecDeque<T>>>,
    changed: Notify,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::new(Some(VecDeque::new())),
            changed: Notify::new(),
        }
    }
}

impl<T> Queue<T> {
    /// Puts something in, unless nobody will take it out.
    fn put(&self, item: T) -> Result<(), Ended> {
        match &mut *lock(&self.waiting) {
            Some(waiting) => waiting.push_back(item),
            None => return Err(Ended),
        }
        self.changed.notify_one();
        Ok(())
    }

    /// What was put in first; `None` when it is closed. Dropping the future loses nothing.
    async fn next(&self) -> Option<T> {
        loop {
            if let Some(item) = lock(&self.waiting).as_mut()?.pop_front() {
                return Some(item);
            }
            self.changed.notified().await;
        }
    }

    /// Nothing goes through any more, and what is still in it is lost.
    fn close(&self) {
        let lost = lock(&self.waiting).take();
        drop(lost);
        self.changed.notify_one();
    }
}

impl<S: Service<RoleServer>> Line<S> {
    /// Opens a connection to that service, from a client that introduces itself so.
    pub(super) fn open(service: S, client: InitializeRequestParams) -> (Self, Words) {
        let board = Arc::<Board>::default();
        let words = Words(Arc::clone(&board));
        let running = serve_directly(service, Ends(Arc::clone(&board)), Some(client));
        (Self { running, board }, words)
    }

    pub(super) fn peer(&self) -> &Peer<RoleServer> {
        self.running.peer()
    }

    /// Answers what was asked on the peer.
    pub(super) fn answer(&self, id: RequestId, answer: Result<ClientResult, ErrorData>) {
        self.send(match answer {
            Ok(result) => JsonRpcMessage::response(result, id),
            Err(error) => JsonRpcMessage::error(error, Some(id)),
        });
    }

    /// Sends the service a message, as a client would.
    pub(super) fn send(&self, message: ClientJsonRpcMessage) {
        // It fails if the connection is closed already, and then nobody waits for it.
        let _ = self.board.inward.put(message);
    }
}

impl Words {
    /// What was said next; `None` when the connection is closed. Dropping the future loses nothing.
    pub(super) async fn next(&self) -> Option<Word> {
        self.0.outward.next().await
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.0.outward.close();
    }
}

/// The connection as rmcp sees it.
struct Ends(Arc<Board>);

impl Transport<RoleServer> for Ends {
    type Error = Ended;

    /// rmcp calls this in the order in which things were said, but polls what it returns in any.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Ended>> + Send + 'static {
        let outward = &self.0.outward;
        let (sent, heard) = match message {
            JsonRpcMessage::Request(request) => {
                let word = Word::Request(request.id, request.request);
                (outward.put(word), None)
            }
            JsonRpcMessage::Notification(notification) => {
                let (listened, heard) = oneshot::channel();
                let word = Word::Notification(notification.notification, listened);
                (outward.put(word), Some(heard))
            }
            // Nothing is asked over this connection, so nothing is answered.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => (Ok(()), None),
        };
        async move {
            sent?;
            match heard {
                Some(heard) => heard.await.map_err(|_| Ended),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.0.inward.next().await
    }

    async fn close(&mut self) -> Result<(), Ended> {
        self.0.inward.close();
        Ok(())
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.inward.close();
        self.0.outward.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn what_is_put_in_comes_out_in_order_until_it_is_closed() {
        let queue = Queue::default();
        queue.put(1).unwrap();
        queue.put(2).unwrap();
        assert_eq!(queue.next().await, Some(1));
        assert_eq!(queue.next().await, Some(2));
        assert_eq!(queue.next().now_or_never(), None);
        queue.put(3).unwrap();
        queue.close();
        assert_eq!(queue.next().await, None);
        assert!(queue.put(4).is_err());
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_what_comes_and_of_the_end() {
        let queue = Queue::default();
        let taken = async { (queue.next().await, queue.next().await) };
        let put = async {
            tokio::task::yield_now().await;
            queue.put(1).unwrap();
            tokio::task::yield_now().await;
            queue.close();
        };
        let (taken, ()) = tokio::join!(taken, put);
        assert_eq!(taken, (Some(1), None));
    }
}
