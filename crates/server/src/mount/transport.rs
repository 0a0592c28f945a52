//! A connection of rmcp's in memory: what is said on its peer comes to us.
//!
//! rmcp makes a peer only together with a connection and a task that serves it.

use rmcp::{
    RoleServer, Service,
    model::{
        ClientJsonRpcMessage, ClientResult, ErrorData, InitializeRequestParams, JsonRpcMessage,
        RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest,
    },
    service::{Peer, RunningService, serve_directly},
    transport::Transport,
};
use std::future::Future;
use tokio::sync::{mpsc, oneshot};

/// Our end of the connection. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct HandlerConnection<S: Service<RoleServer>> {
    running: RunningService<RoleServer, S>,
    to_handler: mpsc::UnboundedSender<Box<ClientJsonRpcMessage>>,
}

/// What was said on the peer, in order. Dropping it tells the peer that the call has ended.
pub(super) type PeerMessages = mpsc::UnboundedReceiver<Box<PeerMessage>>;

/// One message of the peer.
#[derive(Debug)]
pub(super) enum PeerMessage {
    Request(RequestId, ServerRequest),
    /// The sender of a notification goes on when it was handled, or dropped.
    Notification(ServerNotification, oneshot::Sender<()>),
}

/// Our end is gone.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the call has ended")]
pub(super) struct Closed;

impl<S: Service<RoleServer>> HandlerConnection<S> {
    /// Connects to that service, as a client that introduces itself so.
    pub(super) fn open(service: S, client: InitializeRequestParams) -> (Self, PeerMessages) {
        // Neither queue needs a bound: a handler waits for its notifications to be handled and for
        // its requests to be answered. Boxes keep the blocks of the queues small.
        let (to_handler, from_client) = mpsc::unbounded_channel();
        let (to_client, messages) = mpsc::unbounded_channel();
        let transport = MemoryTransport {
            from_client,
            to_client,
        };
        let running = serve_directly(service, transport, Some(client));
        let connection = Self {
            running,
            to_handler,
        };
        (connection, messages)
    }

    pub(super) fn peer(&self) -> &Peer<RoleServer> {
        self.running.peer()
    }

    /// Answers a request of the peer.
    pub(super) fn answer(&self, id: RequestId, answer: Result<ClientResult, ErrorData>) {
        self.send(match answer {
            Ok(result) => JsonRpcMessage::response(result, id),
            Err(error) => JsonRpcMessage::error(error, Some(id)),
        });
    }

    /// Sends the service a message, as a client would.
    pub(super) fn send(&self, message: ClientJsonRpcMessage) {
        // It fails if the connection is closed already, and then nothing waits for it.
        let _ = self.to_handler.send(Box::new(message));
    }
}

/// The connection as rmcp sees it.
struct MemoryTransport {
    from_client: mpsc::UnboundedReceiver<Box<ClientJsonRpcMessage>>,
    to_client: mpsc::UnboundedSender<Box<PeerMessage>>,
}

impl Transport<RoleServer> for MemoryTransport {
    type Error = Closed;

    /// rmcp calls this in the order in which things were said, but polls what it returns in any.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let send = |message| self.to_client.send(Box::new(message)).map_err(|_| Closed);
        let (sent, handled) = match message {
            JsonRpcMessage::Request(request) => {
                let message = PeerMessage::Request(request.id, request.request);
                (send(message), None)
            }
            JsonRpcMessage::Notification(notification) => {
                let (done, handled) = oneshot::channel();
                let message = PeerMessage::Notification(notification.notification, done);
                (send(message), Some(handled))
            }
            // Nothing is asked over this connection, so nothing is answered.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => (Ok(()), None),
        };
        async move {
            sent?;
            match handled {
                Some(handled) => handled.await.map_err(|_| Closed),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.from_client.recv().await.map(|message| *message)
    }

    async fn close(&mut self) -> Result<(), Closed> {
        self.from_client.close();
        Ok(())
    }
}
